"""Files that are private, whole and durable before they have a name."""

import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import IO

from app.errors import ConflictError

__all__ = ["copy_private", "digest", "is_anothers", "private", "publish", "replace", "sync"]

_OWNED = re.compile(r"(acc_[0-9a-z]+)\.")


def is_anothers(name: str, account: str) -> bool:
    """Return whether a file of the data folder is another account's: its name begins with that one's id and a dot.

    A file of any other name may be taken by every owner.

    Example:
        >>> [is_anothers(name, "acc_1") for name in ("acc_1.people.csv", "acc_2.people.csv", "people.csv")]
        [False, True, False]
    """
    owned = _OWNED.match(name)
    return owned is not None and owned[1] != account


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def private(path: Path) -> IO[bytes]:
    """Open a new file to write, its owner's alone; raises FileExistsError."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def copy_private(source: Path, target: Path) -> None:
    """Copy a file whole or not at all; an equal one that is there already is left."""
    raw = source.read_bytes()
    if target.exists():
        if target.read_bytes() == raw:
            return
        raise ConflictError(f"copy: expected no other file in its place, got one ({target.name})")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    with private(partial) as file:
        file.write(raw)
    publish(partial, target)


def publish(partial: Path, target: Path) -> None:
    """Give a file its name once it is durable, never over another."""
    sync(partial)
    try:
        os.link(partial, target)
    except FileExistsError:
        raise ConflictError(f"file: expected a new one, got one that exists ({target.name})") from None
    partial.unlink()
    sync(target.parent)


def replace(partial: Path, target: Path) -> None:
    """Give a file, or a folder of durable files, its name, in another's place; the name is durable on return."""
    sync(partial)
    partial.replace(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Return once a file's bytes, or a folder's names, are durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
