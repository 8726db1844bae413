"""The frozen stream layout: every byte of a draw has one place, whatever was read before."""

import os
import struct
import sys
import threading
import warnings
from itertools import islice

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from tiers.errors import InvalidParameterError
from tiers.sampling.words import KeyedWords, first_bytes

KEY = bytes(range(32))


def stream(number: int, count: int, key: bytes = KEY) -> bytes:
    nonce = (1).to_bytes(4, "little") + number.to_bytes(12, "little")  # the counter starts at 1
    return Cipher(algorithms.ChaCha20(key, nonce), None).encryptor().update(bytes(count))


def test_groups_lie_side_by_side_in_stream_zero() -> None:
    whole = struct.unpack("<300Q", stream(0, 2400))
    words = KeyedWords(KEY)
    for element in (7, 0, 3, 19, 7):
        assert tuple(words.group(element, 13)) == whole[element * 13 : element * 13 + 13]
    assert words.stream_zero(300) == stream(0, 2400)


def test_refinements_are_block_j_of_stream_1_then_2() -> None:
    words = KeyedWords(KEY)
    for element in (5, 0, 1000):
        place = element * 64
        wanted = struct.unpack("<16Q", stream(1, place + 64)[place:] + stream(2, place + 64)[place:])
        assert tuple(islice(words.tail(element), 16)) == wanted
    assert words.first_of_tails([1000, 2, 0]) == [next(words.tail(element)) for element in (1000, 2, 0)]
    assert words.first_of_tails([]) == []


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 4095, 4096, 4097, 20_000])
def test_a_beginning_in_one_call_is_the_bare_ciphers_stream(count: int) -> None:
    """Two constructions of the library, one stream: the sealed text of zeros, and ChaCha20 from counter 1 on."""
    assert KeyedWords(KEY).read(count) == stream(0, count) == first_bytes(KEY, bytes(count))[:count]
    moved = KeyedWords(KEY)
    next(moved.tail(0))  # from here on a cipher stands ready, and is used
    assert moved.read(count) == stream(0, count)


def test_the_block_of_the_sealing_key_is_never_a_word() -> None:
    """RFC 8439 makes the one-time key of a seal from counter 0: no place of any stream may lie there."""
    spare = Cipher(algorithms.ChaCha20(KEY, bytes(16)), None).encryptor().update(bytes(64))
    words = KeyedWords(KEY)
    seen = words.read(64), words.group_bytes(0, 8), struct.pack("<8Q", *islice(words.tail(0), 8))
    buffer = bytearray(128)
    words.read_into(0, 64, buffer)
    assert spare[:8] not in b"".join(seen) + buffer


def test_sixteen_bit_words_are_read_in_pieces_without_a_seam() -> None:
    words, buffer = KeyedWords(KEY), bytearray(4096 + 64)
    read = b""
    for start in range(0, 8192, 4096):
        words.read_into(start, 4096, buffer)
        next(words.tail(3))  # moves the cipher elsewhere in between
        read += bytes(buffer[:4096])
    assert read == stream(0, 8192)


def test_a_request_larger_than_the_blank_source_is_refused_not_cut_short() -> None:
    with pytest.raises(AssertionError):
        KeyedWords(KEY).read_into(0, (1 << 21) + 64, bytearray((1 << 21) + 256))
    with pytest.raises(AssertionError):
        KeyedWords(KEY).read_into(0, 128, bytearray(128))


def test_threads_that_share_the_words_of_a_key_read_what_one_would() -> None:
    """The position and what is read there are one step: here another thread may come between any two."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)
    try:
        _read_in_threads()
    finally:
        sys.setswitchinterval(before)


def _read_in_threads() -> None:
    words = KeyedWords(KEY)
    alone = [(tuple(words.group(j, 9)), tuple(islice(words.tail(j), 9))) for j in range(200)]
    wrong: list[int] = []

    def read() -> None:
        for j in [*range(200)] * 8:
            if (tuple(words.group(j, 9)), tuple(islice(words.tail(j), 9))) != alone[j]:
                wrong.append(j)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_worker_reads_the_same_words_and_other_keys_others() -> None:
    words = KeyedWords(KEY)
    words.group(0, 2)
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():  # from 3.12 on, forking beside numpy's own threads warns
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.write(write_end, words.group_bytes(1, 8))
        os._exit(0)
    os.close(write_end)
    answer = os.read(read_end, 1000)
    os.close(read_end)
    os.waitpid(child, 0)
    assert answer == words.group_bytes(1, 8)
    assert answer != KeyedWords(bytes(32)).group_bytes(1, 8)
    assert words.group_bytes(1, 8) != words.group_bytes(2, 8)


def test_wrong_keys_and_places_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="32 bytes"):
        KeyedWords(b"short")
    with pytest.raises(InvalidParameterError, match="place within"):
        KeyedWords(KEY).group(2**40, 1)
    with pytest.raises(InvalidParameterError, match="place within"):
        next(KeyedWords(KEY).tail(2**32 - 1))
    assert next(KeyedWords(KEY).tail(2**32 - 2)) > 0
    with pytest.raises(InvalidParameterError, match="32 bytes"):
        first_bytes(bytes(31), bytes(64))
    for key in ("a secret text of thirty-two chars", None, 7, [0] * 32):
        for use in (KeyedWords, lambda key: first_bytes(key, bytes(64))):
            with pytest.raises(InvalidParameterError, match="32 bytes") as refused:
                use(key)  # type: ignore[arg-type,operator]
            assert "a secret" not in str(refused.value)
    assert "secret" in repr(KeyedWords(KEY))
