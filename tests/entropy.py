"""What tests draw in place of the system's entropy: bytes that follow from the test's name, so that red stays red."""

import itertools
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import shake_256

import pytest

SEED = os.environ.get("TIERMARKET_TEST_SEED", "0")
"""Another word is another draw of every secret, key, name and noise in the tests' own process."""


class Entropy:
    """A stream of bytes a test, from its name and the seed; which thread draws which of them is not said."""

    def __init__(self) -> None:
        self.begin("")

    def begin(self, name: str) -> None:
        """From here on, draw the stream of this name."""
        self._name, self._count = name, itertools.count()

    def read(self, size: int) -> bytes:
        return shake_256(f"{SEED}/{self._name}/{next(self._count)}".encode()).digest(size)


ENTROPY = Entropy()


@contextmanager
def drawn_from(entropy: Entropy) -> Iterator[None]:
    """Everything that asks this process for entropy, by the calls that the product makes, gets the stream's."""

    def token_bytes(nbytes: int | None = None) -> bytes:
        return entropy.read(secrets.DEFAULT_ENTROPY if nbytes is None else nbytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", entropy.read)
        patch.setattr(secrets, "token_bytes", token_bytes)  # hex and urlsafe tokens are made of it
        yield
