"""Start a market of its own, play the scenario, show it, and leave nothing behind."""

import asyncio
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import msgspec

from app.auth.accounts import Role, create_account
from app.clock import time_text, utc_now
from app.demo.scenario import Outcome, play
from app.demo.story import Story
from app.embedded import die_with_parent, embedded_redis
from app.errors import StoreUnavailableError
from app.founding import found_market, recorder_of
from app.instance import read_address
from app.settings import Settings
from app.store.database import open_engine, write_once
from tiers.sampling.digits import SAMPLER
from tiers.sampling.words import STREAM_VERSION

__all__ = ["demo", "document", "open_operator"]

_PORT = 8000
_START_SECONDS = 120.0


def demo(*, state: Path | None, once: bool, as_json: bool) -> int:
    """Run the demo; return its exit status (0 where every act ended as it should and the audit verified)."""
    started = time.perf_counter()
    story = Story(as_json=as_json)
    with _folder(state) as folder, _orderly_end() as interrupted:
        settings = Settings.at(folder)
        with _service(settings, story.say) as (base, redis_is):
            operator = open_operator(settings)
            outcome = asyncio.run(play(base, operator, settings.state, story.say))
            outcome.timings["total_s"] = round(time.perf_counter() - started, 3)
            if as_json:
                sys.stdout.write(msgspec.json.encode(document(outcome, redis_is)).decode() + "\n")
            else:
                story.tell(outcome)
            if not once and not interrupted:
                story.leave_open(base)
                with suppress(KeyboardInterrupt):
                    signal.pause()
                story.say("Closing the market")
    replayed = outcome.locations.replay if outcome.locations is not None else {}
    return 0 if outcome.audit.get("verdict") == replayed.get("verdict") == "verified" else 1


def open_operator(settings: Settings) -> str:
    """Create an operator's account in a market's store and return its API key."""
    keyring = found_market(settings)
    engine, recorder = open_engine(settings.database_url), recorder_of(settings, keyring)
    made = write_once(
        engine,
        recorder,
        lambda connection: create_account(
            connection, keyring, role=Role.OPERATOR, name="operator", currency="EUR", at=time_text(utc_now())
        ),
    )
    recorder.close()
    engine.dispose()
    return made.api_key


def document(outcome: Outcome, redis_is: str) -> dict[str, Any]:
    """Return the demo as one JSON document: ε and lattice values as text, money as integers."""
    charges = [
        {"chain": row["chain"], "charged": row["charged"], "highest_issued_rank": row["highest_issued_rank"]}
        for row in outcome.dataset["chains"]
    ]
    return {
        "orders": outcome.orders,
        "answers": [
            {"buyer": sold["buyer"], "product": sold["product"], **_answer(sold["answer"])} for sold in outcome.orders
        ],
        "charges": {
            "budget": outcome.dataset["budget"],
            "spent": outcome.dataset["spent"],
            "remaining": outcome.dataset["remaining"],
            "chains": charges,
            "by_rule": [
                {key: rule[key] for key in ("rule", "unit", "sound", "used", "total")} for rule in outcome.rules
            ],
            "owner": outcome.payout,
        },
        "refusals": outcome.refusals,
        "bundle": outcome.bundle,
        "threshold": outcome.threshold,
        "panel": msgspec.to_builtins(outcome.panel),
        "locations": msgspec.to_builtins(outcome.locations),
        "audit": outcome.audit,
        "timings": {name: f"{seconds:.3f}" for name, seconds in outcome.timings.items()},
        "versions": {
            "tiermarket": version("tiermarket"),
            "python": platform.python_version(),
            "litestar": version("litestar"),
            "duckdb": version("duckdb"),
            "redis": redis_is,
            "sampler": SAMPLER,
            "stream": str(STREAM_VERSION),
        },
    }


def _answer(body: dict[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in ("chain", "law", "epsilon", "half_width", "confidence", "keys", "values")}


@contextmanager
def _orderly_end() -> Iterator[list[bool]]:
    """Turn a SIGTERM into the same orderly end that Ctrl-C has."""
    seen: list[bool] = []

    def end(_number: int, _frame: object) -> None:
        seen.append(True)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _folder(state: Path | None) -> Iterator[Path]:
    if state is not None:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield state
        return
    folder = Path(tempfile.mkdtemp(prefix="tiermarket-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _service(settings: Settings, say: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    say("Starting the market: Litestar under granian, SQLite, Redis, DuckDB")
    settings.prepare()
    keyring = found_market(settings)
    with embedded_redis(settings.state) as redis:
        say(f"Redis: {redis.description}")
        command = [sys.executable, "-m", "app.cli", "serve", "--state", str(settings.state)]
        environment = os.environ | {"TIERMARKET_REDIS_URL": redis.url}
        with (settings.state / "service.log").open("ab") as log:
            server = subprocess.Popen(  # noqa: S603 - our own command
                [*command, "--port", str(_PORT), "--or-free"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - before any thread starts
            )
        try:
            base = _await_ready(settings.state, keyring.public_hex(), server)
            if not base.endswith(f":{_PORT}"):
                say(f"Port {_PORT} is taken; the market is at {base}")
            yield base, redis.description
        finally:
            _end_group(server)


def _await_ready(state: Path, public_key: str, server: subprocess.Popen[bytes]) -> str:
    """Wait for this very market (its key is asked for, lest somebody else answers) and return where it is."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        address = read_address(state)
        with suppress(httpx.HTTPError, ValueError, KeyError):
            if address and public_key in httpx.get(f"http://{address}/v1/keys", timeout=2).json()["signing"].values():
                return f"http://{address}"
        time.sleep(0.05)
    raise StoreUnavailableError("service: expected it to answer, got nothing (see service.log in the state folder)")


def _end_group(server: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(5)
    except subprocess.TimeoutExpired:
        server.kill()
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
