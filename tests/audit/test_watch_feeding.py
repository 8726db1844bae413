"""The check that carries the noise from an export to the watch: nothing is shown twice, little is kept of it."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.audit.statistics import OpenedEdge
from app.audit.watching import Watching
from tests.audit.logs import Log
from tests.audit.saboteurs import claimed, honest
from tiers.audit.watch import Watch, pair_name
from tiers.errors import InvalidParameterError
from tiers.identity import DrawSpec


def sold_chain(number: int, length: int = 8) -> tuple[Log, list[OpenedEdge]]:
    """A chain whose top was sold, with its edges as an export opens them."""
    specs = claimed(length, number)
    rows = honest(specs, bytes(32), number)
    log = Log()
    log.draw(specs, rows)
    log.sell(specs[0])
    return log, [opened(draw.spec, rows[at], rows[at - 1], draw.leaf) for at, draw in enumerate(log.draws) if at]


def opened(spec: DrawSpec, own: np.ndarray, above: np.ndarray, leaf: int) -> OpenedEdge:
    answers = tuple(own.tolist()), tuple(above.tolist())
    return OpenedEdge(spec.chain, leaf, spec.role, spec.law, spec.parents, answers[0], (answers[1],))


def watching(log: Log, watch: Watch) -> Watching:
    check = Watching(watch)
    for record in (*log.draws, *log.sales):
        check.read(record)
    return check


def test_what_a_broken_audit_has_shown_to_the_watch_is_not_shown_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next audit would bet on noise that it has seen: the same values again are a certain false alarm."""
    log, edges = sold_chain(1)
    watch, see_all = Watch(), Watch.see_all

    def breaking(self: Watch, draws: Any) -> None:
        first, second = draws
        assert second.edge.law == edges[1].law
        see_all(self, [first])
        raise InvalidParameterError("values", "integers of the lattice", "others")

    first = watching(log, watch)
    for edge in edges:
        first.take(edge)
    with monkeypatch.context() as patch:
        patch.setattr(Watch, "see_all", breaking)
        with pytest.raises(InvalidParameterError):
            list(first.findings())
    kept = watch.state()
    assert [pair.process.values for pair in kept.pairs] == [8]
    again = watching(log, Watch.of(kept))
    for edge in edges:
        again.take(edge)
    assert list(again.findings()) == []
    assert again.watch.state() == kept


def test_of_an_opened_edge_eight_bytes_an_entry_are_kept() -> None:
    log, edges = sold_chain(2, length=20_000)
    check, count = watching(log, Watch()), len(edges)
    tracemalloc.start()
    while edges:
        edge = edges.pop()
        fresh = tuple(value + 10**6 for value in edge.answer), tuple(value + 10**6 for value in edge.answers[0])
        check.take(replace(edge, answer=fresh[0], answers=(fresh[1],)))
        del edge, fresh
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < count * 20_000 * 9
    assert list(check.findings()) == []
    assert [pair.process.values for pair in check.watch.state().pairs] == [20_000] * count


def test_noise_of_any_size_reaches_the_watch() -> None:
    log, edges = sold_chain(3)
    far = (*edges[0].answer[:-1], 10**40)
    check = watching(log, Watch())
    check.take(replace(edges[0], answer=far))
    assert list(check.findings()) == []
    assert [pair.process.values for pair in check.watch.state().pairs] == [8]
    assert check.watch.peaks()[f"law {pair_name(edges[0])}"] > 0, "it was worth something to those who bet on outliers"


def test_a_draw_that_has_no_law_hides_no_other_draw_from_the_watch() -> None:
    """A tier that is said to come from one below it breaks no test of the noise that became due with it."""
    log, edges = sold_chain(4)
    top, low = edges[0].parents[0], edges[0].law
    strange = replace(log.draws[1].spec, chain="f" * 64, law=top, parents=(low,))
    base = replace(log.draws[0].spec, chain="f" * 64, law=low)
    log.draw([base, strange], np.zeros((2, 8), np.int64))
    log.sell(strange)
    check = watching(log, Watch())
    for edge in (opened(strange, np.arange(8), np.zeros(8, np.int64), log.draws[-1].leaf), *edges):
        check.take(edge)
    found = list(check.findings())
    assert [(each.check, each.rule, each.chain) for each in found] == [("A4", "unreadable-log", "f" * 64)]
    assert sum(pair.process.values for pair in check.watch.state().pairs) == 8 * len(edges)
