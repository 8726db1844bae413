"""Words for samplers: a keyed ChaCha20 stream with a fixed place for every element and every refinement.

Layout (STREAM_VERSION 1, part of every draw's key and of its log leaf): element j of a vector owns the j-th group of W
words of stream 0; whatever more it needs, it reads from block j of stream 1, then of stream 2, and so on. Stream t is
the keystream with nonce t; a block is 64 bytes. So a refinement never moves another element's words.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from tiers.errors import InvalidParameterError

__all__ = ["STREAM_VERSION", "WORD_BITS", "KeyedWords", "Words"]

STREAM_VERSION = 1
WORD_BITS = 64
_BLOCK_BYTES = 64
_BLOCK_LIMIT = 2**32


class Words(Protocol):
    """Uniform words of `bits` bits each: what a sampler may consume, and where it must find it."""

    @property
    def bits(self) -> int:
        """Return the width of a word; tests use small ones, to enumerate every word."""
        ...

    def group(self, element: int, size: int) -> Sequence[int]:
        """Return the `size` words of stream 0 that belong to `element`."""
        ...

    def tail(self, element: int) -> Iterator[int]:
        """Return the further words of `element`, from its blocks of streams 1, 2, …"""
        ...


class KeyedWords:
    """The product's words: 64-bit, little-endian, from ChaCha20 under one draw's 256-bit key.

    Guarantee:  the same key gives the same words in any process, order or batch; distinct (element, place) never share.
    Raises:     InvalidParameterError: a key that is not 32 bytes, an element beyond the 2³² blocks of a stream.
    Reference:  RFC 8439, section 2.4 (block counter and nonce).
    """

    __slots__ = ("_cipher", "_key")

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise InvalidParameterError("stream key", "32 bytes", f"{len(key)} bytes")
        self._key = key

    @property
    def bits(self) -> int:
        """Return 64."""
        return WORD_BITS

    def group(self, element: int, size: int) -> Sequence[int]:
        """Return the words of one element; see the layout above."""
        start = element * size * 8
        raw = self._bytes(stream=0, start=start, count=size * 8)
        return struct.unpack(f"<{size}Q", raw)

    def stream_zero(self, count: int) -> bytes:
        """Return the first `count` words of stream 0 as bytes: all groups of a vector at once."""
        return self._bytes(stream=0, start=0, count=count * 8)

    def tail(self, element: int) -> Iterator[int]:
        """Yield 8 words from block `element` of stream 1, then 8 of stream 2, …"""
        stream = 1
        while True:
            block = self._bytes(stream=stream, start=element * _BLOCK_BYTES, count=_BLOCK_BYTES)
            for place in range(0, _BLOCK_BYTES, 8):
                yield int.from_bytes(block[place : place + 8], "little")
            stream += 1

    def _bytes(self, *, stream: int, start: int, count: int) -> bytes:
        block, skip = divmod(start, _BLOCK_BYTES)
        if (start + count) // _BLOCK_BYTES >= _BLOCK_LIMIT:
            raise InvalidParameterError("element", f"a place within {_BLOCK_LIMIT} blocks", block)
        nonce = block.to_bytes(4, "little") + stream.to_bytes(12, "little")
        encryptor = Cipher(algorithms.ChaCha20(self._key, nonce), None).encryptor()
        return encryptor.update(bytes(skip + count))[skip:]

    def __repr__(self) -> str:
        return "KeyedWords(<secret>)"
