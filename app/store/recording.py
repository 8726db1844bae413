"""Every transaction of the store, written to the redo file before it commits, and compared with it before it begins."""

from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection, insert, select, update

from app.errors import ForkedLogError, StoreBehindError, StoreUnavailableError
from app.keyring import Keyring
from app.log.heads import TreeHead, public_key
from app.log.journal import current_head, frontier_of, heads_after, store_head, store_leaves
from app.log.witness import Witness
from app.store.changes import begin_changes, carry_out, drop_changes, packed, take_changes
from app.store.outbox import Outbox
from app.store.redo import ORIGIN, Mark, RedoFile, RedoRecord
from app.store.schema import heads, leaves, redo_position

__all__ = ["Position", "Recorder", "read_position"]

_log = structlog.get_logger("store")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a store has come: its mark, the log's size, and the generation of the key ring that last wrote."""

    mark: Mark
    log_size: int
    ring: int


class Recorder:
    """Keeps store, redo file and witness in step. A store that is behind either, or on another branch, writes nothing.

    Guarantee:  a transaction is acknowledged only after its record is durable; a record whose transaction did not
                commit is carried out by the next writer, or marked void by the process that saw the store refuse it.
    """

    def __init__(
        self, keyring: Keyring, file: RedoFile, witness: Witness | None = None, outbox: Outbox | None = None
    ) -> None:
        self.file, self.standing = file, "unknown"
        self._outbox = outbox
        self._keyring, self._witness = keyring, witness
        self._suspect = witness is not None
        self._refused: set[Mark] = set()

    def begin(self, connection: Connection) -> Position:
        """Compare the store with what is known of it, finish what a crash interrupted, and note changes from here on.

        Raises:     StoreBehindError: acknowledged transactions are missing. ForkedLogError: it has others in their
                    place. StoreUnavailableError: the key ring of this process is older than the store's.
        """
        drop_changes(connection)
        position = read_position(connection)
        if position.ring > self._keyring.generation:
            raise StoreUnavailableError("key ring: expected the newest, got an older one (restart this process)")
        try:
            position = self._in_step(connection, position)
            self._ask_witness(connection)
        except StoreBehindError:
            self.standing = "behind"
            raise
        except ForkedLogError:
            self.standing = "forked"
            raise
        self.standing = "current"
        begin_changes(connection)
        return position

    def finish(self, connection: Connection, position: Position) -> RedoRecord | None:
        """Write what the transaction did to the file, just before its commit; return None where it changed nothing."""
        changes = take_changes(connection)
        new = heads_after(connection, position.log_size)
        if not changes and not new:
            return None
        texts = [row.decode() for row in connection.execute(_bodies(position.log_size)).scalars()] if new else []
        sealed = self._keyring.seal(packed(changes), _context(position.mark))
        record = RedoRecord.of(position.mark, new, texts, sealed)
        ring = max(position.ring, self._keyring.generation)
        _write_position(connection, Position(record.mark, new[-1].size if new else position.log_size, ring))
        self._write(connection, record)
        return record

    def drop(self, connection: Connection) -> None:
        """Forget the notes of a transaction that is rolled back."""
        drop_changes(connection)

    def refused(self, record: RedoRecord) -> None:
        """Remember that the store refused a recorded transaction: its record is void unless somebody carried it out."""
        if self._outbox is None:
            self._refused.add(record.mark)

    def acknowledge(self, record: RedoRecord | None) -> None:
        """Return once the record, and with it all before it, is durable."""
        if record is None:
            return
        if self._outbox is not None:
            self._outbox.copy_to(self.file)
        else:
            self.file.sync()

    def show(self, records: list[RedoRecord]) -> None:
        """Show the heads of durable records to the witness."""
        for record in records:
            if self._witness is not None and not self._witness.note(record.heads[-1]):
                self._suspect = True

    def replay(self, connection: Connection) -> list[RedoRecord]:
        """Carry out every record that the store lacks, in the caller's transaction; return them.

        Raises:     StoreBehindError: records are missing from the file. ForkedLogError: they do not continue the store.
        """
        drop_changes(connection)
        self.file.refresh()
        position, done = read_position(connection), []
        for record in self.file.records():
            if record.n == position.mark.n and record.mark != position.mark:
                raise ForkedLogError("redo file: expected the store's own history, got another")
            if record.n > position.mark.n:
                position = self._carry_out(connection, position, record)
                done.append(record)
        self._suspect = self._witness is not None
        self._ask_witness(connection)
        return done

    def compact(self, n: int, head: TreeHead | None) -> int:
        """Leave out of the file what a backup holds, in a transaction of the caller's: writers' lock held."""
        if self._outbox is not None:
            return self._outbox.compact(self.file, n, head)
        return self.file.compact(n, head)

    def close(self) -> None:
        """Close the file and the witness."""
        self.file.close()
        if self._outbox is not None:
            self._outbox.close()
        if self._witness is not None:
            self._witness.close()

    def _write(self, connection: Connection, record: RedoRecord) -> None:
        if self._outbox is not None:
            self._outbox.put(connection, record)
        else:
            self.file.append(record)

    def _in_step(self, connection: Connection, position: Position) -> Position:
        if self._outbox is not None:
            if not self._outbox.compare(connection, self.file, position.mark) and self.file.head is not None:
                _check_prefix(connection, self.file.head)
            return position
        self.file.refresh()
        if self.file.last in self._refused and self.file.last != position.mark:
            mark = self.file.last
            self.file.append(RedoRecord(n=mark.n, previous=ORIGIN, digest=mark.digest, void=True))
        last, newest = self.file.last, self.file.newest
        if last == position.mark:
            return position
        if last.n < position.mark.n:
            self._skip_to(connection, position)
            return position
        if last.n == position.mark.n:
            raise ForkedLogError("store: expected the history of the redo file, got another of the same length")
        if newest is not None and newest.n == position.mark.n + 1 and newest.previous == position.mark.digest:
            _log.warning("a recorded transaction that did not commit is carried out", record=newest.n)
            return self._carry_out(connection, position, newest)
        following = next((record for record in self.file.records() if record.n > position.mark.n), None)
        if following is not None and following.n == position.mark.n + 1 and following.previous != position.mark.digest:
            raise ForkedLogError("store: expected the history of the redo file, got another")
        missing = last.n - position.mark.n
        raise StoreBehindError(
            f"store: expected all that was acknowledged, got one without the last {missing} (restore replays them)",
            missing=missing,
        )

    def _skip_to(self, connection: Connection, position: Position) -> None:
        """The store is ahead of the file: it was copied without it, or power failed. The file goes on from here."""
        if self.file.head is not None:
            _check_prefix(connection, self.file.head)
        known = current_head(connection)
        mark = position.mark
        _log.warning("the redo file was behind the store: back up now", record=mark.n, had=self.file.last.n)
        self.file.append(RedoRecord(n=mark.n, previous=ORIGIN, digest=mark.digest, heads=[known] if known else []))
        self.file.sync()

    def _ask_witness(self, connection: Connection) -> None:
        if not self._suspect or self._witness is None:
            return
        head = self._witness.newest()
        if head is not None:
            _check_prefix(connection, head)
        self._suspect = False

    def _carry_out(self, connection: Connection, position: Position, record: RedoRecord) -> Position:
        if record.n != position.mark.n + 1 or record.changes is None:
            raise StoreBehindError("redo file: expected the record that follows the store, got a gap")
        if record.previous != position.mark.digest or not record.whole:
            raise ForkedLogError("redo file: expected a record that follows the store, got another history's")
        carry_out(connection, self._keyring.unseal(record.changes, _context(position.mark)))
        self._replay_log(connection, record)
        size = record.heads[-1].size if record.heads else position.log_size
        after = Position(record.mark, size, max(position.ring, self._keyring.generation))
        _write_position(connection, after)
        if self._outbox is not None:
            self._outbox.put(connection, record)
        return after

    def _replay_log(self, connection: Connection, record: RedoRecord) -> None:
        frontier, public = frontier_of(connection), self._keyring.public_keys()
        due = {head.size: head for head in record.heads}
        signed_to = record.heads[-1].size if record.heads else frontier.size
        for text in record.leaves:
            frontier = store_leaves(connection, frontier, [text.encode()])
            head = due.pop(frontier.size, None)
            if head is None:
                continue
            signed = head.key in public and head.signed_by(public_key(public[head.key]))
            if not signed or head.root != frontier.root().hex():
                raise ForkedLogError(f"redo file: expected leaves that make the signed head of {head.size}, got others")
            store_head(connection, frontier, head)
        if due or frontier.size != signed_to:
            raise ForkedLogError("redo file: expected the leaves of every signed head and no others, got others")


def read_position(connection: Connection) -> Position:
    """Return how far a store has come."""
    row = connection.execute(select(redo_position)).one_or_none()
    return Position(Mark(), 0, 0) if row is None else Position(Mark(row.written, row.digest), row.log_size, row.ring)


def _write_position(connection: Connection, position: Position) -> None:
    row = {
        "written": position.mark.n,
        "digest": position.mark.digest,
        "log_size": position.log_size,
        "ring": position.ring,
    }
    if connection.execute(update(redo_position).values(row)).rowcount == 0:
        connection.execute(insert(redo_position).values(id=1, **row))


def _check_prefix(connection: Connection, known: TreeHead) -> None:
    """Refuse a store whose log does not hold a head that was signed for it."""
    row = connection.execute(select(heads.c.root).where(heads.c.size == known.size)).one_or_none()
    if row is not None and row.root == known.root:
        return
    newest = current_head(connection)
    size = 0 if newest is None else newest.size
    if size < known.size:
        raise StoreBehindError(
            f"log: expected at least the {known.size} leaves that were signed, got {size}",
            missing_leaves=known.size - size,
        )
    raise ForkedLogError(f"log: expected the head that was signed at {known.size} leaves, got another")


def _bodies(size: int) -> Any:
    return select(leaves.c.body).where(leaves.c.log_index >= size).order_by(leaves.c.log_index)


def _context(mark: Mark) -> str:
    return f"redo/{mark.n}/{mark.digest}"
