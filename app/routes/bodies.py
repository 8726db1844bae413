"""Bodies as their routes declare them: the framework converts text to numbers, and this service does not."""

from typing import Any

from litestar import Request

from app.strict import decode_body

__all__ = ["StrictRequest"]


class StrictRequest(Request[Any, Any, Any]):
    """A request whose JSON is decoded once, strictly, as the type of its route's `data`."""

    async def json(self) -> Any:
        """Return the body as what the route takes; raises InvalidRequestError."""
        field = self.route_handler.parsed_data_field
        if field is None:
            return await super().json()
        return decode_body(await self.body(), field.annotation)
