"""One service a folder, one service a port, and people who are told so in one line."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app.errors import ConflictError
from app.instance import claim_port, claim_state, read_address, write_address
from tests.processes import quiet_port

COMMAND = [sys.executable, "-m", "app.cli"]


def test_a_folder_is_served_once_and_free_again_after(tmp_path: Path) -> None:
    with claim_state(tmp_path), pytest.raises(ConflictError, match="nobody serves"), claim_state(tmp_path):
        pass
    with claim_state(tmp_path):
        pass


def test_a_port_that_is_claimed_or_answered_is_refused_or_replaced() -> None:
    port = quiet_port()
    with claim_port("127.0.0.1", port, otherwise_free=False) as mine:
        assert mine == port
        with pytest.raises(ConflictError, match="nobody listens"), claim_port("127.0.0.1", port, otherwise_free=False):
            pass
        with claim_port("127.0.0.1", port, otherwise_free=True) as other:
            assert other != port


def test_a_listener_that_shares_its_port_is_noticed() -> None:
    with socket.socket() as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        shared.bind(("127.0.0.1", 0))
        shared.listen()
        port = shared.getsockname()[1]
        with pytest.raises(ConflictError), claim_port("127.0.0.1", port, otherwise_free=False):
            pass


def test_an_error_inside_a_claim_is_not_mistaken_for_a_taken_port() -> None:
    with (
        pytest.raises(ConflictError, match="something else"),
        claim_port("127.0.0.1", quiet_port(), otherwise_free=True),
    ):
        raise ConflictError("something else")


def test_the_address_is_what_was_written(tmp_path: Path) -> None:
    assert read_address(tmp_path) is None
    write_address(tmp_path, "127.0.0.1", 8123)
    assert read_address(tmp_path) == "127.0.0.1:8123"


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--state", "/proc/nowhere"],
        ["operator-key", "--state", "/proc/nowhere"],
        ["demo", "--once", "--state", "/proc/nowhere"],
        ["audit", "verify", __file__, "--public-key", "no key"],
        ["serve", "--state", "PLACE", "--port", "70000"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_cannot_be_done_is_said_in_words(tmp_path: Path, arguments: list[str]) -> None:
    filled = [str(tmp_path / "s") if text == "PLACE" else text for text in arguments]
    done = subprocess.run([*COMMAND, *filled], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "expected" in done.stderr or "Invalid value" in done.stderr
