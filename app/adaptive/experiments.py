"""Experiments: what a query saves and how far off it is, beside the baseline that spends everything."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from app.adaptive.data import Data, Floats, crowd, load, moved, square_km
from app.adaptive.panel import PanelRow
from app.errors import InvalidRequestError
from tiers.accounting.charges import LedgerKind
from tiers.accounting.people import Nanos, PeopleLedger
from tiers.adaptive.budgeting import Reallocation, allocations_nano, doubling_split, even_split
from tiers.adaptive.measures import absolute_error, count_error, distance_error, saved_share
from tiers.adaptive.queries import Answer, Plan, count_inside, density_at, nearest_to
from tiers.adaptive.release import keyed_streams
from tiers.adaptive.rounds import Mode
from tiers.adaptive.shapes import Disc, distance_from
from tiers.budget import nano_up, parse_decimal

__all__ = ["BETA", "QUESTIONS", "SPLITS", "SequenceRow", "Trial", "document_of", "savings", "sequences"]

BETA = 0.1
QUESTIONS = ("count", "density", "nearest")
SPLITS = {
    "even4": even_split(4),
    "even10": even_split(10),
    "even64": even_split(64),
    "doubling10": doubling_split(10),
}
_EXAMPLE = bytes(32)  # a public key: experiments are illustrations on public data, and never noise of a market
_NEAREST = 10
_Known = TypeVar("_Known")


@dataclass(frozen=True, slots=True)
class Trial:
    """One question at one budget: means over centres of what was saved, and of both errors."""

    question: str
    data: str
    mode: str
    split: str
    budget: str
    unit: str
    people: int
    saved: float
    measure: str
    error: float
    baseline_error: float
    baseline_saved: float


@dataclass(frozen=True, slots=True)
class SequenceRow:
    """m counting queries one after the other, each person's savings carried over by one rule."""

    queries: int
    rule: str
    budget: str
    people: int
    error: float
    baseline_error: float
    left: float


def savings(
    *,
    people: int,
    budgets: Sequence[str],
    split: str = "doubling10",
    mode: str = "distance",
    data: str = "city",
    questions: Sequence[str] = QUESTIONS,
    centres: int = 5,
) -> Iterator[Trial]:
    """Yield a trial for each question and budget; each asks about `centres` of the people.

    Raises:     InvalidRequestError: an unknown question, split or mode. TierError: as the queries.
    """
    parts, released = _named("split", split, SPLITS), _named("mode", mode, {kind.value: kind for kind in Mode})
    found = load(data, people)
    plan = Plan(found.space, released, parts, BETA)
    for question in questions:
        ask = _named("question", question, _ASK)
        for budget in budgets:
            yield _trial(plan, found, question, ask, budget, split, centres)


def sequences(
    *, people: int, budget: str, lengths: Sequence[int], split: str = "doubling10", mode: str = "distance"
) -> Iterator[SequenceRow]:
    """Yield, for each number of queries, the even baseline and every rule of carrying savings over, on trajectories.

    Each query asks how many are in a disc of 10 km at its own time step; a person's place at each step is a component
    of its own, and one budget pays for all (dist_∞).
    """
    parts, released = _named("split", split, SPLITS), _named("mode", mode, {kind.value: kind for kind in Mode})
    space = square_km()
    for length in lengths:
        steps = [crowd(people, "traffic")]
        for step in range(1, length):
            steps.append(moved(steps[-1], step))
        plain = _sequence(Plan(space, released, (Fraction(1),), BETA), steps, budget, None)[0]
        for rule in Reallocation:
            error, left = _sequence(Plan(space, released, parts, BETA), steps, budget, rule)
            yield SequenceRow(length, rule.value, budget, people, error, plain, left)


def _sequence(plan: Plan, steps: Sequence[Floats], budget: str, rule: Reallocation | None) -> tuple[float, float]:
    """Return the mean error, and the mean share of the budget that is left; without a rule, the baseline's."""
    people, length = len(steps[0]), len(steps)
    ledger = PeopleLedger.even(LedgerKind.ZCDP, people, parse_decimal("budget", budget))
    errors = []
    for place, points in enumerate(steps, start=1):
        places = plan.space.locate(points)
        shape = Disc(_centre(plan, places, place), 10.0)
        even = np.full(people, ledger.budget[0] // length)
        allowed = even if rule is None else allocations_nano(rule, place, length, ledger.budget, ledger.remaining)
        name = f"sequence/{length}/{place}/{rule.value if rule else 'baseline'}"
        answer = count_inside(
            plan, places, shape, allowed, ledger, keyed_streams(_EXAMPLE, name), adaptive=rule is not None
        )
        ledger = answer.ledger
        true = int((shape.signed_distance(plan.space.coordinates(places)) < 0).sum())
        errors.append(count_error(answer.reading.estimate, true))
    return float(np.mean(errors)), float(np.mean(ledger.remaining / ledger.budget))


def _trial(plan: Plan, data: Data, question: str, ask: "_Asker", budget: str, split: str, centres: int) -> Trial:
    ledger = PeopleLedger.even(LedgerKind.ZCDP, len(data.places), parse_decimal("budget", budget))
    allowed = np.full(len(data.places), nano_up(parse_decimal("budget", budget)))
    baseline = Plan(plan.space, plan.mode, (Fraction(1),), plan.beta)
    rows = []
    for place in range(centres):
        point = _centre(plan, data.places, place)
        measures = [
            ask(which, data, point, np.minimum(allowed, ledger.budget), ledger, f"{question}/{place}", adaptive)
            for which, adaptive in ((plan, True), (baseline, False))
        ]
        rows.append([number for measure in measures for number in measure])
    saved, error, plain_saved, plain = (float(value) for value in np.mean(rows, axis=0))
    return Trial(
        question=question,
        data=data.name,
        mode=plan.mode.value,
        split=split,
        budget=budget,
        unit=data.unit,
        people=len(data.places),
        saved=saved,
        measure=_MEASURES[question],
        error=error,
        baseline_error=plain,
        baseline_saved=plain_saved,
    )


_Asker = Callable[[Plan, Data, tuple[float, ...], Nanos, PeopleLedger, str, bool], tuple[float, float]]


def _radius(data: Data, point: tuple[float, ...], share: float) -> float:
    """The distance within which that share of the people is, so that every data set has something to count."""
    return float(np.quantile(distance_from(point, data.space.coordinates(data.places)), share)) or 1.0


def _count(
    plan: Plan, data: Data, point: tuple[float, ...], allowed: Nanos, ledger: PeopleLedger, name: str, adaptive: bool
) -> tuple[float, float]:
    shape = Disc(point, _radius(data, point, 0.3))
    streams = keyed_streams(_EXAMPLE, f"{name}/{adaptive}")
    answer = count_inside(plan, data.places, shape, allowed, ledger, streams, adaptive=adaptive)
    true = int((shape.signed_distance(data.space.coordinates(data.places)) < 0).sum())
    return _saved(answer, allowed), count_error(answer.reading.estimate, true)


def _density(
    plan: Plan, data: Data, point: tuple[float, ...], allowed: Nanos, ledger: PeopleLedger, name: str, adaptive: bool
) -> tuple[float, float]:
    bandwidth = _radius(data, point, 0.05)
    streams = keyed_streams(_EXAMPLE, f"{name}/{adaptive}")
    answer = density_at(plan, data.places, point, bandwidth, allowed, ledger, streams, adaptive=adaptive)
    away = distance_from(point, data.space.coordinates(data.places))
    true = float(np.exp(-0.5 * (away / bandwidth) ** 2).mean())
    return _saved(answer, allowed), absolute_error(answer.reading.estimate, true)


def _nearest(
    plan: Plan, data: Data, point: tuple[float, ...], allowed: Nanos, ledger: PeopleLedger, name: str, adaptive: bool
) -> tuple[float, float]:
    streams = keyed_streams(_EXAMPLE, f"{name}/{adaptive}")
    answer = nearest_to(plan, data.places, point, _NEAREST, allowed, ledger, streams, adaptive=adaptive)
    away = distance_from(point, data.space.coordinates(data.places))
    chosen = away[answer.members[answer.reading.chosen]]
    return _saved(answer, allowed), distance_error(chosen.tolist(), np.sort(away)[:_NEAREST].tolist())


def _saved(answer: Answer, allowed: Nanos) -> float:  # type: ignore[type-arg]
    return saved_share(answer.spent, allowed)


_ASK: dict[str, _Asker] = {"count": _count, "density": _density, "nearest": _nearest}
_MEASURES = {"count": "CountErr", "density": "l1-Err", "nearest": "DistErr"}


def _centre(plan: Plan, places: Nanos, place: int) -> tuple[float, ...]:
    """Somebody's place, moved a little: a public point near people."""
    row = places[(place * 7919) % len(places)]
    return tuple(float(value) for value in plan.space.coordinates(row[None])[0] + 0.3 * float(plan.space.grain))


def _named(what: str, name: str, known: dict[str, _Known]) -> _Known:
    if name not in known:
        raise InvalidRequestError(f"{what}: expected one of {sorted(known)}, got {name!r}")
    return known[name]


def document_of(rows: Sequence[Trial | SequenceRow | PanelRow]) -> list[dict[str, object]]:
    """Return rows as they are printed in JSON."""
    return [asdict(row) for row in rows]
