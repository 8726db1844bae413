"""How a market begins, or is found again: its folders, key ring and store, and what keeps the store in step."""

from sqlalchemy import Engine

from app.clock import time_text, utc_now
from app.errors import ForkedLogError, StoreBehindError, StoreUnavailableError
from app.keyring import Keyring
from app.log.epochs import log_keys
from app.log.journal import current_head
from app.log.witness import Witness
from app.settings import Settings
from app.store.database import migrate, open_engine, write_once
from app.store.outbox import Outbox
from app.store.recording import Recorder
from app.store.redo import RedoFile

__all__ = ["found_market", "recorder_of"]


def found_market(settings: Settings) -> Keyring:
    """Create folders, key ring, store and the log's first leaves, where they do not exist; return the key ring.

    A key that is not in the log yet is put there. A store that is behind or forked is left as it is: it can be read.

    Raises:     StoreUnavailableError: there is a market, but its key ring is missing or older than the store's.
    """
    settings.prepare()
    engine = open_engine(settings.database_url)
    migrate(engine)
    try:
        if not settings.keys.exists():
            _refuse_orphans(engine, settings)
        keyring = Keyring.load(settings.keys) if settings.keys.exists() else Keyring.create(settings.keys)
        recorder = recorder_of(settings, keyring)
        try:
            write_once(engine, recorder, lambda connection: log_keys(connection, keyring, time_text(utc_now())))
        except (StoreBehindError, ForkedLogError):
            pass  # `Market.standing` says so, and every write is refused
        finally:
            recorder.close()
    finally:
        engine.dispose()
    return keyring


def recorder_of(settings: Settings, keyring: Keyring) -> Recorder:
    """Return what keeps the store in step with its redo file, and with Redis where there is one."""
    witness = Witness(settings.redis_url, keyring) if settings.redis_url else None
    outbox = Outbox(settings.database_url) if settings.database_url.startswith("postgresql") else None
    return Recorder(keyring, RedoFile(settings.redo), witness, outbox)


def _refuse_orphans(engine: Engine, settings: Settings) -> None:
    """A market without its key ring is not given another: nothing that it sold could be read again."""
    with engine.connect() as connection:
        known = current_head(connection) is not None
    if known or (settings.redo.exists() and settings.redo.stat().st_size > 0):
        raise StoreUnavailableError("key ring: expected the one of this market, got none (restore it from its backup)")
