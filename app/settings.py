"""Settings: where the state lives and what the service listens on; from the environment, checked once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.errors import InvalidRequestError
from app.sources import Source, read_sources

__all__ = ["Limits", "Settings"]

_BASIS = 10_000
_MOST = 10**9


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests a minute, over all workers together; each may also come in one burst. 0 lifts a limit.

    Args:       reads, acts: a caller's GETs and POSTs (a visitor's without a key count by address). failures: bad API
                keys from one address.
    """

    reads: int = 60_000
    acts: int = 6_000
    failures: int = 600


@dataclass(frozen=True, slots=True)
class Settings:
    """One market's settings. Everything it keeps lies below `state`; the key ring may lie elsewhere.

    Args:       state: folder of the store, snapshots and data. database_url: system of record. redis_url: the cache;
                empty for none. keys: file of the secrets. fee_bps: the market's share of a sale, in 1/10,000.
                limits: requests a minute. workers: processes that serve; without a Redis each gets its part of a limit.
                sources: PostgreSQL servers that may keep snapshots, by name.
                redo_file: the log's own file, best on another disk than the database; None for one below `state`.
                audit_hours: how often the whole log is audited; 0 for never. export_hours: how long exports are kept.
    """

    state: Path
    database_url: str
    redis_url: str
    keys: Path
    fee_bps: int = 1_000
    limits: Limits = Limits()
    workers: int = 1
    redo_file: Path | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)
    audit_hours: int = 24
    export_hours: int = 24

    @classmethod
    def at(cls, state: Path, *, redis_url: str = "") -> "Settings":
        """Return the default settings of a state folder: SQLite and the key file inside it."""
        state = state.resolve()
        return cls(state, f"sqlite:///{state / 'market.db'}", redis_url, state / "keys.json")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Return what `TIERMARKET_STATE`, `_DATABASE_URL`, `_REDIS_URL`, `_KEYS`, `_FEE_BPS` and `_REDO` describe.

        `TIERMARKET_SOURCES` names a file of PostgreSQL servers: `app.sources`.

        Limits come from `_READS_PER_MINUTE`, `_ACTS_PER_MINUTE`, `_FAILURES_PER_MINUTE`; audits by `_AUDIT_HOURS`,
        exports by `_EXPORT_HOURS`; `_WORKERS` from the server.

        Raises:     InvalidRequestError: TIERMARKET_STATE is missing, or a number is out of its range.
        """
        state = environment.get("TIERMARKET_STATE")
        if not state:
            raise InvalidRequestError("TIERMARKET_STATE: expected the state folder, got nothing")
        default = cls.at(Path(state), redis_url=environment.get("TIERMARKET_REDIS_URL", ""))
        return cls(
            default.state,
            environment.get("TIERMARKET_DATABASE_URL", default.database_url),
            default.redis_url,
            Path(environment.get("TIERMARKET_KEYS", str(default.keys))),
            _number(environment, "FEE_BPS", default.fee_bps, _BASIS),
            Limits(
                reads=_number(environment, "READS_PER_MINUTE", Limits().reads, _MOST),
                acts=_number(environment, "ACTS_PER_MINUTE", Limits().acts, _MOST),
                failures=_number(environment, "FAILURES_PER_MINUTE", Limits().failures, _MOST),
            ),
            max(1, _number(environment, "WORKERS", 1, 1_000)),
            Path(environment["TIERMARKET_REDO"]) if environment.get("TIERMARKET_REDO") else None,
            read_sources(environment.get("TIERMARKET_SOURCES", "")),
            _number(environment, "AUDIT_HOURS", 24, 10_000),
            max(1, _number(environment, "EXPORT_HOURS", 24, 10_000)),
        )

    @property
    def redo(self) -> Path:
        """Return the log's own file."""
        return self.redo_file or self.state / "redo.ndjson"

    @property
    def data(self) -> Path:
        """Return the folder whose files owners may register."""
        return self.state / "data"

    @property
    def snapshots(self) -> Path:
        """Return the folder of immutable snapshots."""
        return self.state / "snapshots"

    def prepare(self) -> None:
        """Create the folders, readable by their owner alone."""
        for folder in (self.state, self.data, self.snapshots):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _number(environment: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = environment.get(f"TIERMARKET_{name}", str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) > most:
        raise InvalidRequestError(f"TIERMARKET_{name}: expected 0 to {most}, got {text[:20]!r}")
    return int(text)
