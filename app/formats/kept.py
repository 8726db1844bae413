"""Rendered answers kept in this process: issued answers never change, so a rendering is made once."""

import asyncio
from collections import OrderedDict

from app.formats.negotiate import Format
from app.formats.tables import render

__all__ = ["Renderings"]


class Renderings:
    """Renderings of documents, bounded in bytes; who may see one is decided before it is asked for."""

    def __init__(self, limit_bytes: int = 2**25) -> None:
        self._limit, self._held = limit_bytes, 0
        self._kept: OrderedDict[tuple[str, Format], bytes] = OrderedDict()

    async def render(self, etag: str, body: bytes, wanted: Format) -> bytes:
        """Return an answer's document in a format. `etag` names the document: another document, another rendering."""
        name = (etag, wanted)
        found = self._kept.get(name)
        if found is None:
            found = await asyncio.to_thread(render, body, wanted)
            if name not in self._kept:
                self._kept[name] = found
                self._held += len(found)
            while self._held > self._limit:
                self._held -= len(self._kept.popitem(last=False)[1])
        return found
