"""From a copy of yesterday to the store of today: replay what the redo file holds, then draw again and compare."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from app.engine.release import ReleaseEngine
from app.engine.snapshots import SnapshotFiles
from app.engine.state import chain_of_product
from app.engines.errors import EngineError
from app.errors import AppError, IntegrityError
from app.founding import recorder_of
from app.keyring import Keyring
from app.log.leaves import DrawLeaf, decode
from app.settings import Settings
from app.store.database import migrate, open_engine, write_once
from app.store.redo import RedoRecord
from app.store.schema import products

__all__ = ["Replayed", "replay"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came back: transactions and leaves; chains whose answers were drawn again, digit for digit the same.

    `not_redrawn` names chains that could not be drawn again (a lost secret or snapshot): their answers are the stored
    ones, which open under the log's commitments all the same.
    """

    transactions: int
    leaves: int
    redrawn: tuple[str, ...]
    not_redrawn: tuple[str, ...]


def replay(settings: Settings) -> Replayed:
    """Bring a store that is behind to where it was, all in one transaction; a store in step is left as it is.

    Raises:     StoreBehindError: the redo file lacks what is missing, or Redis knows of more. ForkedLogError: the
                store's history is not the file's. IntegrityError: a draw made again differs; nothing is kept.
    """
    keyring = Keyring.load(settings.keys)
    engine, recorder = open_engine(settings.database_url), recorder_of(settings, keyring)
    files = SnapshotFiles(keyring, settings.sources)
    try:
        migrate(engine)

        def carry_out(connection: Connection) -> Replayed:
            done = recorder.replay(connection)
            return _redraw(connection, settings, ReleaseEngine(keyring, files), done)

        outcome = write_once(engine, None, carry_out)
        write_once(engine, recorder, lambda _: None)
    finally:
        files.close()
        recorder.close()
        engine.dispose()
    return outcome


def _redraw(connection: Connection, settings: Settings, engine: ReleaseEngine, done: list[RedoRecord]) -> Replayed:
    leaves = [decode(text.encode()) for record in done for text in record.leaves]
    chains = list(dict.fromkeys(leaf.chain for leaf in leaves if isinstance(leaf, DrawLeaf)))
    redrawn, kept = [], []
    for chain in chains:
        product = connection.execute(select(products.c.id).where(products.c.chain_id == chain).limit(1)).scalar_one()
        state, _ = chain_of_product(connection, settings, product)
        for tier in state.tiers:
            if tier.sealed is not None and tier.commitment is not None:
                engine.unseal(state, tier, tier.sealed, tier.commitment)
        try:
            computed = engine.again(state)
        except (AppError, EngineError, OSError):
            kept.append(chain)
            continue
        again = {draw.spec.law.identity: draw.commitment for draw in computed}
        if any(again.get(tier.law, tier.commitment) != tier.commitment for tier in state.tiers if tier.drawn):
            raise IntegrityError("replay: expected the digits that were drawn before, got others")
        redrawn.append(chain)
    return Replayed(len(done), len(leaves), tuple(redrawn), tuple(kept))
