"""New keys: a number more in the key file, a leaf in the log, and nothing that an old key did is undone."""

from sqlalchemy import Connection, select, update

from app.engine.release import answer_context
from app.keyring import Keyring, add_key
from app.log.epochs import logged_numbers
from app.market import found_market, recorder_of
from app.settings import Settings
from app.store.database import open_engine, write_once
from app.store.schema import draws

__all__ = ["reseal", "rotate"]


def rotate(settings: Settings, purpose: str) -> int:
    """Add a key of a purpose and log it; return its number. Running workers must be restarted: they write no more.

    A crash in between is made good by the next start, which logs every key that the log does not know.

    Raises:     InvalidRequestError: a purpose that is not rotated. StoreBehindError and ForkedLogError: not now.
    """
    keyring = found_market(settings)
    engine, recorder = open_engine(settings.database_url), recorder_of(settings, keyring)
    try:
        known = write_once(engine, recorder, logged_numbers)
    finally:
        recorder.close()
        engine.dispose()
    ring = add_key(settings.keys, purpose, above=known.get(purpose, 0))
    found_market(settings)
    return ring.numbers[purpose]


def reseal(settings: Settings) -> int:
    """Seal every stored answer under the newest storage key; return how many were under an older one."""
    keyring = found_market(settings)
    engine, recorder = open_engine(settings.database_url), recorder_of(settings, keyring)
    try:
        return write_once(engine, recorder, lambda connection: _reseal(connection, keyring))
    finally:
        recorder.close()
        engine.dispose()


def _reseal(connection: Connection, keyring: Keyring) -> int:
    newest, changed = keyring.numbers["storage"], 0
    rows = connection.execute(select(draws.c.chain_id, draws.c.law, draws.c.sealed_answer)).all()
    for row in rows:
        if keyring.sealed_under(row.sealed_answer) == newest:
            continue
        context = answer_context(row.chain_id, row.law)
        sealed = keyring.seal(keyring.unseal(row.sealed_answer, context), context)
        change = update(draws).where(draws.c.chain_id == row.chain_id, draws.c.law == row.law)
        connection.execute(change.values(sealed_answer=sealed))
        changed += 1
    return changed
