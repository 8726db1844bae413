"""Tests draw what they draw again, and nothing that another test drew."""

import os
import secrets
from collections.abc import Callable

import pytest

from tests.entropy import ENTROPY

CALLS = [lambda: os.urandom(16), lambda: secrets.token_bytes(16), lambda: secrets.token_hex(16), secrets.token_urlsafe]


@pytest.mark.parametrize("call", CALLS)
def test_what_is_drawn_follows_from_the_test_s_name(call: Callable[[], bytes | str]) -> None:
    def of(name: str) -> list[bytes | str]:
        ENTROPY.begin(name)
        return [call() for _ in range(3)]

    assert of("one") == of("one")
    assert len({*of("one"), *of("other")}) == 6


def test_a_market_has_the_secrets_of_its_test(request: pytest.FixtureRequest) -> None:
    drawn = secrets.token_hex(32)
    ENTROPY.begin(request.node.nodeid)
    assert secrets.token_hex(32) == drawn
