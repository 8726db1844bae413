"""Tiers that were added to a panel: drawn for each of its rounds, committed to, logged, and drawn again where lost."""

import hmac
from collections.abc import Container
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, select

from app.errors import ConflictError, IntegrityError
from app.files import replace
from app.keyring import Keyring
from app.log.journal import append
from app.log.leaves import decode
from app.log.panel_leaves import LateDrawLeaf, LateTierLeaf, PanelTier, RoundRecord, TierRecord
from app.panels.desk import Panel, context_of
from app.panels.plans.base import Counts
from app.panels.plans.late import Menu, law_of_late
from app.panels.reports import Reports
from app.panels.rounds import COUNTS, RUN, counts_commitment, derive_again, opening_of, private_file
from app.store.panel_schema import panel_rounds, panel_tiers, panels
from app.store.schema import leaves
from tiers.budget import decimal_text
from tiers.local.columns.between import LATE_SAMPLER

__all__ = [
    "Drawn",
    "draw_late",
    "draw_late_again",
    "late_leaves",
    "logged_rounds",
    "record_of",
    "restore",
    "store_drawn",
    "store_tier",
    "whole_record",
    "with_tier",
]

_MOST = 64


@dataclass(frozen=True, slots=True, repr=False)
class Drawn:
    """An added tier of a round: its number, its record, and its counts."""

    number: int
    record: TierRecord
    counts: Counts


def with_tier(panel: Panel, epsilon: Fraction, price: int) -> Menu:
    """Return a panel's menu with one more tier; raises as `acts.add_tier` says."""
    menu = panel.menu
    if panel.leaf_index is None:
        raise ConflictError("panel: expected one that is in the log, got one that was opened before panels were logged")
    if len(menu) >= _MOST:
        raise ConflictError(f"panel: expected fewer than {_MOST} tiers, got as many")
    law = law_of_late(menu, epsilon)
    added = Menu(menu.opening, (*menu.epsilons, epsilon), (*menu.laws, law))
    prices = (*panel.prices, price)
    ordered = [prices[number] for number in added.numbers]
    if ordered != sorted(ordered, reverse=True):
        raise ConflictError("price_minor: expected a price between those of the tiers beside it, got another")
    assert len(added.plan.ladder) == len(added)  # which checks every ε and every step
    added.check_draws()  # a panel without a closed round would find out when it closes one, and close none
    return added


def draw_late(menu: Menu, secret: bytes, panel: str, round_number: int, number: int, folder: Path) -> Drawn:
    """Draw an added tier of a round into its file, in runs, from the files of its parents.

    Guarantee:  the same parents' reports, secret and laws give the same file; it has its name only once it is whole.
    """
    name, width = f"{panel}/{round_number}", menu.opening.width
    key, plan = menu.key(secret, name, number), menu.plan_of(number)
    digest, counts, first = hmac.new(opening_of(secret, name, number), digestmod=sha256), None, 0
    partial = folder / f"{number}.part"
    partial.unlink(missing_ok=True)
    parents = [(folder / f"{parent}.bin").open("rb") for parent in menu.parents(number)]
    try:
        with private_file(partial) as file:
            while runs := [raw for parent in parents if (raw := parent.read(width * RUN))]:
                stored = menu.draw(key, number, first, runs)
                file.write(stored)
                digest.update(stored)
                counted = plan.count(0, stored)
                counts = counted if counts is None else counts + counted
                first += len(stored) // width
    finally:
        for parent in parents:
            parent.close()
    replace(partial, folder / f"{number}.bin")
    assert counts is not None
    record = TierRecord(
        epsilon=decimal_text(menu.epsilon(number)),
        law=menu.law(number),
        commitment=digest.hexdigest(),
        counts=counts_commitment(opening_of(secret, name, number, COUNTS), counts),
        key_hash=sha256(key).hexdigest(),
    )
    return Drawn(number, record, counts)


def restore(menu: Menu, secret: bytes, reports: Reports, record: RoundRecord, folder: Path) -> None:
    """Write those files of a round that are gone anew: the bytes that were committed to, in the order of drawing.

    Args:       record: with the added tiers, as `whole_record` gives it.
    Raises:     IntegrityError: the reports are not those that it was closed with, or an added tier comes out otherwise.
    """
    numbers = range(len(record.tiers))
    if not all((folder / f"{number}.bin").exists() for number in numbers if number not in menu.late):
        derive_again(menu.opening, secret, reports, record, folder)
    draw_late_again(menu, secret, record, folder, [each for each in numbers if not (folder / f"{each}.bin").exists()])


def draw_late_again(
    menu: Menu, secret: bytes, record: RoundRecord, folder: Path, wanted: Container[int] | None = None
) -> None:
    """Write the files of a round's added tiers anew, all or those wanted; raises IntegrityError as `restore` does."""
    for number in menu.late:
        if number < len(record.tiers) and (wanted is None or number in wanted):
            again = draw_late(menu, secret, record.panel, record.round, number, folder).record
            if again != record.tiers[number]:
                (folder / f"{number}.bin").unlink()
                raise IntegrityError("panel: expected an added tier's reports as committed to, got others")


def store_tier(connection: Connection, keyring: Keyring, panel: Panel, menu: Menu, price: int, at: str) -> None:
    """Log and store a tier that joins a panel's menu; raises ConflictError where the panel changed meanwhile."""
    number, epsilon = len(panel.menu), decimal_text(menu.epsilon(len(panel.menu)))
    row = connection.execute(select(panels).where(panels.c.id == panel.id)).one()
    if (row.late_tiers, row.round) != (len(panel.menu.late), panel.round):
        raise ConflictError("panel: expected one that others leave alone for a moment, got one that changed")
    metric = menu.plan.metric
    across = None if metric is None else metric.across(menu.epsilon(number))
    tier = PanelTier(epsilon=epsilon, law=menu.law(number), price_minor=price, across=across)
    append(
        connection,
        keyring,
        at,
        [lambda index: LateTierLeaf(index=index, at=at, panel=panel.id, number=number, tier=tier)],
    )
    values = {
        "menu_json": [decimal_text(menu.epsilon(each)) for each in range(len(menu))],
        "prices_json": [*panel.prices, price],
        "laws_json": [menu.law(each) for each in range(len(menu))],
    }
    written = {name: msgspec.json.encode(value).decode() for name, value in values.items()}
    connection.execute(panels.update().where(panels.c.id == panel.id).values(late_tiers=len(menu.late), **written))


def store_drawn(connection: Connection, keyring: Keyring, panel: str, number: int, drawn: Drawn, at: str) -> None:
    """Log and store an added tier of a round."""
    record, key_hash = drawn.record, drawn.record.key_hash
    assert key_hash is not None

    def make(index: int) -> LateDrawLeaf:
        return LateDrawLeaf(
            index=index,
            at=at,
            panel=panel,
            round=number,
            number=drawn.number,
            sampler=LATE_SAMPLER,
            commitment=record.commitment,
            counts=record.counts,
            key_hash=key_hash,
        )

    (logged,) = append(connection, keyring, at, [make])
    connection.execute(
        panel_tiers.insert().values(
            panel_id=panel,
            number=number,
            rank=drawn.number,
            commitment=record.commitment,
            sealed_counts=keyring.seal(drawn.counts.astype("<i8").tobytes(), context_of(panel, number, drawn.number)),
            late_record=msgspec.json.encode(record).decode(),
            leaf_index=logged.index,
        )
    )


def record_of(row: "Row[Any]") -> RoundRecord:
    """Return the record of a stored round, as it was signed.

    Raises:     ConflictError: it was closed by a version that did not log rounds.
    """
    if row.leaf_index is None:
        raise ConflictError("round: expected one that is in the log, got one that was closed before rounds were logged")
    return msgspec.json.decode(row.record, type=RoundRecord)


def whole_record(connection: Connection, row: "Row[Any]") -> RoundRecord:
    """Return the record of a stored round with its added tiers last, by number; raises as `record_of` does."""
    record = record_of(row)
    wanted = select(panel_tiers.c.late_record).where(
        panel_tiers.c.panel_id == row.panel_id,
        panel_tiers.c.number == row.number,
        panel_tiers.c.late_record.is_not(None),
    )
    found = connection.execute(wanted.order_by(panel_tiers.c.rank)).scalars()
    late = (msgspec.json.decode(text, type=TierRecord) for text in found)
    return msgspec.structs.replace(record, tiers=(*record.tiers, *late))


def logged_rounds(connection: Connection, panel: str) -> list[RoundRecord]:
    """Return the whole records of a panel's rounds that are in the log, in their order."""
    here = (panel_rounds.c.panel_id == panel) & panel_rounds.c.leaf_index.is_not(None)
    rows = connection.execute(select(panel_rounds).where(here).order_by(panel_rounds.c.number)).all()
    return [whole_record(connection, row) for row in rows]


def late_leaves(connection: Connection, panel: str, number: int) -> tuple[list[int], list[int]]:
    """Return the leaves by which a panel's tiers were added, and those by which they were drawn in a round."""
    added = []
    wanted = select(leaves.c.log_index, leaves.c.body).where(leaves.c.kind == "panel-late-tier")
    for index, body in connection.execute(wanted.order_by(leaves.c.log_index)):
        leaf = decode(body)
        if isinstance(leaf, LateTierLeaf) and leaf.panel == panel:
            added.append(index)
    here = (panel_tiers.c.panel_id == panel) & (panel_tiers.c.number == number) & panel_tiers.c.leaf_index.is_not(None)
    drawn = select(panel_tiers.c.leaf_index).where(here).order_by(panel_tiers.c.rank)
    return added, list(connection.execute(drawn).scalars())
