"""Words for samplers: a keyed ChaCha20 stream with a fixed place for every element and every refinement.

Layout (STREAM_VERSION 2, part of every draw's key and of its log leaf): element j of a vector owns the j-th group of W
words of stream 0; whatever more it needs, it reads from block j of stream 1, then of stream 2, and so on. Stream t is
the keystream with nonce t, its block 0 being the one with counter 1; a block is 64 bytes. So a refinement never moves
another element's words. A sampler reads stream 0 as 64-bit words (digits, inversion) or as groups of 16-bit words
(cells); refinements are always 64-bit words.

Counting from 1 is what ChaCha20-Poly1305 does (counter 0 makes its one-time key, and is no word of ours): the stream's
beginning is that cipher's text of zeros, in one call where a bare ChaCha20 needs three objects (decision 0012).
"""

import struct
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from tiers.errors import InvalidParameterError

__all__ = ["STREAM_VERSION", "WORD_BITS", "CellWords", "KeyedWords", "Words", "first_bytes"]

STREAM_VERSION = 2
WORD_BITS = 64
_BLOCK_BYTES = 64
_BYTE_LIMIT = (2**32 - 1) * _BLOCK_BYTES  # counters 1 to 2³² − 1
_STREAM_ZERO, _STREAM_ONE = bytes(12), (1).to_bytes(12, "little")
_ZEROS = memoryview(bytes(1 << 21))
_AT_ONCE = 4096  # up to so many bytes one sealed text of zeros costs less than a cipher's setting up
_EIGHT = struct.Struct("<8Q")


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


class CellWords(Protocol):
    """What a vector sampler consumes: stream 0 in order, and the further words of single elements."""

    @property
    def bits(self) -> int:
        """Return the width of a refinement word."""
        ...

    def read(self, count: int) -> bytes:
        """Return the first `count` bytes of stream 0."""
        ...

    def read_into(self, start: int, count: int, buffer: bytearray) -> None:
        """Put bytes `start` to `start + count` of stream 0 at the front of `buffer` (whole blocks, 2²¹ at most)."""
        ...

    def tail(self, element: int) -> Iterator[int]:
        """Return the further words of `element`, from its blocks of streams 1, 2, …"""
        ...

    def first_of_tails(self, elements: Sequence[int]) -> list[int]:
        """Return the first word of each element's tail."""
        ...


def first_bytes(key: bytes, blank: bytes) -> bytes:
    """Return the beginning of stream 0 in one call: as many bytes as `blank` has zeros, then 16 that are no words.

    The last 16 are the seal of the text; whoever reads fewer bytes than they asked for never meets them.

    Raises:     InvalidParameterError: a key that is not 32 bytes.
    Example:
        >>> first_bytes(bytes(32), bytes(64))[:64] == KeyedWords(bytes(32)).read(64)
        True
    """
    try:
        cipher = ChaCha20Poly1305(key)
    except (ValueError, TypeError):
        raise _bad_key(key) from None
    return cipher.encrypt(_STREAM_ZERO, blank, None)


def _bad_key(key: object) -> InvalidParameterError:
    """Return the refusal of a key, which never holds the key itself."""
    return InvalidParameterError(
        "stream key", "32 bytes", f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
    )


class KeyedWords:
    """The product's words: 64-bit, little-endian, from ChaCha20 under one draw's 256-bit key.

    Guarantee:  the same key gives the same words in any process, order, batch or thread; distinct (element, place)
                never share.
    Raises:     InvalidParameterError: a key that is not 32 bytes, an element beyond the 2³² − 1 blocks of a stream.
    Reference:  RFC 8439, sections 2.4 (block counter and nonce) and 2.8 (the text begins at block 1).
    """

    __slots__ = ("_encryptor", "_key", "_lock")

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) != 32:
            raise _bad_key(key)
        self._key = key
        self._encryptor: CipherContext | None = None
        self._lock = Lock()

    @property
    def bits(self) -> int:
        """Return 64."""
        return WORD_BITS

    def group(self, element: int, size: int) -> Sequence[int]:
        """Return the words of one element; see the layout above."""
        return struct.unpack(f"<{size}Q", self.group_bytes(element, size))

    def group_bytes(self, element: int, size: int) -> bytes:
        """Return the words of one element as bytes: what the scalar path compares in one piece."""
        return self._bytes(0, element * size * 8, size * 8)

    def stream_zero(self, count: int) -> bytes:
        """Return the first `count` words of stream 0 as bytes: all groups of a vector at once."""
        return self._bytes(0, 0, count * 8)

    def read(self, count: int) -> bytes:
        """Return the first `count` bytes of stream 0."""
        return self._bytes(0, 0, count)

    def read_into(self, start: int, count: int, buffer: bytearray) -> None:
        """Put bytes `start` to `start + count` of stream 0 at the front of `buffer`, without allocating.

        Args:       start: a multiple of 64. count: 2²¹ at most. buffer: at least 64 bytes longer than `count`.
        """
        assert start % _BLOCK_BYTES == 0
        assert count <= min(len(_ZEROS), len(buffer) - _BLOCK_BYTES)
        with self._lock:
            self._move(_nonce(0, start, count)).update_into(_ZEROS[:count], buffer)

    def tail(self, element: int) -> Iterator[int]:
        """Yield 8 words from block `element` of stream 1, then 8 of stream 2, …"""
        stream = 1
        while True:
            yield from _EIGHT.unpack(self._bytes(stream, element * _BLOCK_BYTES, _BLOCK_BYTES))
            stream += 1

    def first_of_tails(self, elements: Sequence[int]) -> list[int]:
        """Return the first word of each element's tail: `next(tail(element))`, without its overhead."""
        if not elements:
            return []
        blank, words = bytes(8), []
        with self._lock:
            encryptor = self._move(_nonce(1, max(elements) * _BLOCK_BYTES, _BLOCK_BYTES))
            move, read = encryptor.reset_nonce, encryptor.update
            for element in elements:
                move((element + 1).to_bytes(4, "little") + _STREAM_ONE)
                words.append(int.from_bytes(read(blank), "little"))
        return words

    def _bytes(self, stream: int, start: int, count: int) -> bytes:
        if self._encryptor is None and not (stream or start) and count <= _AT_ONCE:
            whole = -(-count // _BLOCK_BYTES) * _BLOCK_BYTES  # costs less than a part of a block
            return first_bytes(self._key, bytes(whole))[:count]
        skip = start % _BLOCK_BYTES
        with self._lock:
            words = self._move(_nonce(stream, start, count)).update(bytes(skip + count))
        return words[skip:] if skip else words

    def _move(self, nonce: bytes) -> CipherContext:
        """Return the encryptor at a place; held under the lock until it has been read. Making one costs 3 µs."""
        encryptor = self._encryptor
        if encryptor is None:
            self._encryptor = encryptor = Cipher(algorithms.ChaCha20(self._key, nonce), None).encryptor()
        else:
            encryptor.reset_nonce(nonce)
        return encryptor

    def __repr__(self) -> str:
        return "KeyedWords(<secret>)"


def _nonce(stream: int, start: int, count: int) -> bytes:
    """Return OpenSSL's 16 bytes: the block as a 32-bit counter, then the stream as a 96-bit nonce, little-endian."""
    if start + count > _BYTE_LIMIT:
        raise InvalidParameterError("element", f"a place within the {_BYTE_LIMIT} bytes of a stream", start + count)
    return (start // _BLOCK_BYTES + 1 | stream << 32).to_bytes(16, "little")
