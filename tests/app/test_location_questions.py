"""Questions about places in their one form, by hand: what is one question, what is none, and what is asked of people."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from app.errors import InvalidRequestError
from app.locations.questions import (
    ask_rounds,
    canonical,
    kind_of,
    phi_of,
    query_identity,
    question_text,
    read_question,
    shape_of,
)
from app.locations.terms import Terms, list_price, space_of
from app.locations.wire import (
    AskedQuestion,
    DensityQuestion,
    DiscQuestion,
    NearestQuestion,
    PolygonQuestion,
    RectangleQuestion,
)
from tiers.adaptive.asking import drawing
from tiers.adaptive.release import keyed_streams
from tiers.adaptive.rounds import CLASS_RATIO, Mode, schedule
from tiers.errors import InvalidParameterError

GRAIN = Fraction(1, 100)
TERMS = Terms(
    space_of((Fraction(0), Fraction(-5)), (Fraction(100), Fraction(100)), GRAIN), 8, 10**15, 10**15, Fraction(1, 20), 4
)
DIAGONAL = Fraction("145.0000390625")  # √(100² + 105²) = 145, and a noise step of 1/25600
TINY = Fraction(1, 10**12)
L_SHAPE = (("-0.5", "0"), ("2", "0"), ("2", "1"), ("1", "1"), ("1", "3"), ("-0.5", "3"))  # area below 5.5
SPECK = (("0.1", "0"), ("0.3", "0.1"), ("0.1", "0.2"))  # twice its area is below 1


def polygon(*vertices: tuple[str, ...]) -> PolygonQuestion:
    return PolygonQuestion(vertices=vertices)


def text(value: Fraction) -> str:
    """A decimal of twelve places, by hand."""
    scaled = value * 10**12
    assert scaled.denominator == 1
    whole, rest = divmod(abs(int(scaled)), 10**12)
    return f"{'-' if value < 0 else ''}{whole}.{rest:012}"


def test_the_diagonal_of_the_space_is_what_these_tests_say() -> None:
    assert TERMS.diagonal == DIAGONAL


# --- one form ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (DiscQuestion(centre=("50.10", "-0"), radius="20.0"), '{"centre":["50.1","0"],"radius":"20","type":"disc"}'),
        (
            RectangleQuestion(low=("-1.50", "0.0"), high=("2.0", "3.250")),
            '{"high":["2","3.25"],"low":["-1.5","0"],"type":"rectangle"}',
        ),
        (
            DensityQuestion(point=("1.0", "-2.0"), bandwidth="0.50"),
            '{"bandwidth":"0.5","point":["1","-2"],"type":"density"}',
        ),
        (NearestQuestion(point=("1.0", "-2.0"), k=3), '{"k":3,"point":["1","-2"],"type":"nearest"}'),
        (
            polygon(("3.0", "0"), ("0.50", "2"), ("-0.0", "0.0")),
            '{"type":"polygon","vertices":[["0","0"],["3","0"],["0.5","2"]]}',
        ),
    ],
)
def test_a_question_is_named_by_its_canonical_text(asked: AskedQuestion, said: str) -> None:
    made = canonical(TERMS, asked)
    assert question_text(made) == said
    assert read_question(said) == made
    assert canonical(TERMS, made) == made, "the one form's one form is itself"


@pytest.mark.parametrize("corners", [L_SHAPE, SPECK], ids=["an L, whose two leftmost corners are a tie", "a speck"])
def test_a_region_has_one_name_from_whichever_vertex_and_either_way_round(corners: tuple[tuple[str, str], ...]) -> None:
    """Counterclockwise from the least vertex, the second coordinate deciding where the first is a tie."""
    for turned in (corners, corners[::-1]):
        for start in range(len(corners)):
            around = (*turned[start:], *turned[:start])
            made = canonical(TERMS, polygon(*around))
            assert isinstance(made, PolygonQuestion)
            assert made.vertices == corners, around


def test_vertices_on_a_side_are_no_corners_wherever_they_stand() -> None:
    full = (("-0.5", "0"), ("1", "0"), ("2", "0"), ("2", "1"), ("1", "1"), ("1", "2.5"), ("1", "3"), ("-0.5", "3"))
    for turned in (full, full[::-1]):
        for start in range(len(full)):
            made = canonical(TERMS, polygon(*turned[start:], *turned[:start]))
            assert isinstance(made, PolygonQuestion)
            assert made.vertices == L_SHAPE


def test_a_query_is_named_by_panel_question_and_budget() -> None:
    """The name is what noise is drawn under: were it made otherwise, what is sold already would be drawn anew."""
    named = b'tiermarket/location-query/1\n{"budget_nano":7,"panel":"location_1","question":"{\\"k\\":1}"}'
    assert query_identity("location_1", '{"k":1}', 7) == hashlib.sha256(named).hexdigest()
    others = {query_identity("location_2", '{"k":1}', 7), query_identity("location_1", '{"k":2}', 7)}
    others |= {query_identity("location_1", '{"k":1}', 8), query_identity("location_1", '{"k":1}', 7)}
    assert len(others) == 4


# --- what is refused --------------------------------------------------------------------------------------------------

AT: dict[str, Callable[[tuple[str, ...]], AskedQuestion]] = {
    "disc": lambda point: DiscQuestion(centre=point, radius="1"),
    "low": lambda point: RectangleQuestion(low=point, high=("245", "245")),
    "high": lambda point: RectangleQuestion(low=("-145", "-150"), high=point),
    "polygon": lambda point: polygon(("50", "50"), ("51", "50"), point),
    "density": lambda point: DensityQuestion(point=point, bandwidth="1"),
    "nearest": lambda point: NearestQuestion(point=point, k=1),
}
ENDS = ((-DIAGONAL, 100 + DIAGONAL), (-5 - DIAGONAL, 100 + DIAGONAL))


@pytest.mark.parametrize("where", AT)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("side", [0, 1])
def test_points_lie_at_most_the_diagonal_away_along_every_axis(where: str, axis: int, side: int) -> None:
    end, out = ENDS[axis][side], TINY if side else -TINY
    at, beyond = ([Fraction(20), Fraction(30)] for _ in range(2))
    at[axis], beyond[axis] = end, end + out
    if (where, side) not in (("low", 1), ("high", 0)):  # a box that ends where it begins is none
        canonical(TERMS, AT[where](tuple(map(text, at))))
    with pytest.raises(InvalidRequestError, match="diagonal"):
        canonical(TERMS, AT[where](tuple(map(text, beyond))))


@pytest.mark.parametrize("where", AT)
@pytest.mark.parametrize("point", [("20",), ("20", "30", "40")])
def test_points_of_another_dimension_are_refused(where: str, point: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequestError, match=r"expected (2|two) coordinates"):
        canonical(TERMS, AT[where](point))


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda size: DiscQuestion(centre=("1", "1"), radius=size), id="radius"),
        pytest.param(lambda size: DensityQuestion(point=("1", "1"), bandwidth=size), id="bandwidth"),
    ],
)
def test_lengths_are_positive_and_at_most_four_diagonals(made: Callable[[str], AskedQuestion]) -> None:
    assert canonical(TERMS, made(text(4 * DIAGONAL))) == made("580.00015625")
    assert canonical(TERMS, made(text(TINY))) == made("0.000000000001")
    for size in (text(4 * DIAGONAL + TINY), "0", "0.0"):
        with pytest.raises(InvalidRequestError, match="four times"):
            canonical(TERMS, made(size))
    with pytest.raises(InvalidParameterError):
        canonical(TERMS, made("-1"))


def test_fewer_are_asked_for_than_there_are() -> None:
    assert canonical(TERMS, NearestQuestion(point=("1", "1"), k=7)) == NearestQuestion(point=("1", "1"), k=7)
    for k in (8, 9):
        with pytest.raises(InvalidRequestError, match="1 ≤ k < 8"):
            canonical(TERMS, NearestQuestion(point=("1", "1"), k=k))


@pytest.mark.parametrize(
    "vertices",
    [
        (("0.1", "0.3"), ("0.2", "0.6"), ("0.3", "0.9")),
        (("1.173", "2.062"), ("1.011", "1.405"), ("1.443", "3.157")),
        (("0", "0"), ("1", "1"), ("2", "2")),
    ],
)
def test_a_polygon_on_one_line_is_refused_even_where_doubles_see_an_area(vertices: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(InvalidParameterError, match="polygon: expected"):
        canonical(TERMS, polygon(*vertices))


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (RectangleQuestion(low=("1", "1"), high=("1", "2")), "rectangle"),
        (RectangleQuestion(low=("1", "3"), high=("2", "2")), "rectangle"),
        (polygon(("0", "0"), ("2", "2"), ("2", "0"), ("0", "3")), "meet itself"),
        (polygon(("0", "0"), ("2", "2"), ("2", "0"), ("0", "2")), "a positive area"),
        (polygon(("0", "0"), ("1", "1"), ("1", "1"), ("0", "2")), "neighbouring"),
        (polygon(("0", "0"), ("2", "0"), ("2.0", "0"), ("0", "2")), "neighbouring"),
    ],
)
def test_degenerate_shapes_are_refused_as_they_came(asked: AskedQuestion, rule: str) -> None:
    with pytest.raises(InvalidParameterError, match=rule):
        canonical(TERMS, asked)


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_questions_are_priced_by_their_kind() -> None:
    ranges = [AT["disc"](("1", "2")), AT["low"](("1", "2")), AT["polygon"](("1", "2"))]
    assert [kind_of(each) for each in ranges] == ["range"] * 3
    assert [kind_of(AT[kind](("1", "2"))) for kind in ("density", "nearest")] == ["density", "nearest"]


POINTS = np.array([[6.0, 11.0], [3.0, 8.0], [4.0, 7.0]])


@pytest.mark.parametrize(
    ("asked", "away"),
    [
        (DensityQuestion(point=("3", "7"), bandwidth="2"), [5, 1, 1]),
        (NearestQuestion(point=("3", "7"), k=1), [5, 1, 1]),
        (DiscQuestion(centre=("3", "7"), radius="4"), [1, -3, -3]),
        (RectangleQuestion(low=("2", "7.5"), high=("5", "9")), [5**0.5, -0.5, 0.5]),
        (polygon(("2", "7.5"), ("5", "7.5"), ("5", "9"), ("2", "9")), [5**0.5, -0.5, 0.5]),
    ],
)
def test_what_is_released_of_a_place_is_its_distance(asked: Any, away: list[float]) -> None:
    assert phi_of(asked)(POINTS) == pytest.approx(away, abs=1e-12)
    if kind_of(asked) == "range":
        assert shape_of(asked).signed_distance(POINTS) == pytest.approx(away, abs=1e-12)


def asked_of(question: AskedQuestion, budget_nano: int) -> Any:
    """Eight people at whole distances from (40, 10), for so much that noise is far below a metre of a kilometre."""
    away = [1, 3, 2, 5, 9, 4, 20, 50]
    places = TERMS.space.locate(np.array([[40.0 + each, 10.0] for each in away]))
    ledger = TERMS.unspent
    opening = drawing(TERMS.plan, places, phi_of(question), ledger, keyed_streams(bytes(32), "asked"))
    answer = ask_rounds(TERMS, question, budget_nano, ledger, opening)
    assert 0 < int(answer.spent.max()) <= budget_nano
    return answer.reading


@pytest.mark.parametrize("budget_nano", [10**15, 10**14])
def test_a_question_asks_for_what_it_says_and_for_no_more_than_its_budget(budget_nano: int) -> None:
    assert asked_of(DiscQuestion(centre=("40", "10"), radius="4.5"), budget_nano).estimate == 4
    assert asked_of(RectangleQuestion(low=("41.5", "9"), high=("49.5", "11")), budget_nano).estimate == 5
    box = polygon(("41.5", "9"), ("49.5", "9"), ("49.5", "11"), ("41.5", "11"))
    assert asked_of(box, budget_nano).estimate == 5
    assert (asked_of(NearestQuestion(point=("40", "10"), k=3), budget_nano).chosen + 1).tolist() == [1, 3, 2]
    density = asked_of(DensityQuestion(point=("40", "10"), bandwidth="2"), budget_nano)
    true = float(np.exp(-np.array([1, 9, 4, 25, 81, 16, 400, 2500]) / 8).mean())
    assert density.estimate == pytest.approx(true, abs=1e-2)


def test_nobody_is_asked_where_the_budget_pays_for_no_round() -> None:
    with pytest.raises(InvalidParameterError, match="allowances"):
        asked_of(DiscQuestion(centre=("40", "10"), radius="4"), TERMS.plan.least - 1)


def test_a_polygon_has_no_place_in_another_dimension() -> None:
    wide = replace(TERMS, space=space_of((Fraction(0),) * 3, (Fraction(10),) * 3, GRAIN))
    with pytest.raises(InvalidRequestError, match="expected 3 coordinates"):
        canonical(wide, polygon(("0", "0"), ("1", "0"), ("0", "1")))
    ball = DiscQuestion(centre=("1", "2", "3"), radius="1")
    assert canonical(wide, ball) == ball


@pytest.mark.parametrize(("grain", "most"), [("0.01", 10**9), ("0.1", 10**11), ("1", 10**12)])
def test_no_bundle_of_cheaper_answers_is_as_good_as_one_that_costs_more(grain: str, most: int) -> None:
    """Precisions as the widths of answers take them; near the least noise, a fifth of a budget buys much of them."""
    space = space_of((Fraction(0),) * 2, (Fraction(100),) * 2, Fraction(grain))
    terms, list_minor = Terms(space, 9, 10**13, most, Fraction(1, 20), 10), 10**9

    def bought(budget: int) -> float:
        made = schedule(space, Mode.DISTANCE, np.array([budget]), terms.plan.parts, CLASS_RATIO)
        return float(made.precision.sum())

    budgets = sorted({int(each) for each in np.geomspace(max(terms.plan.least, most // 1000), most, 60)} | {most})
    prices = {budget: list_price(terms, list_minor, budget) for budget in budgets}
    assert prices[most] == list_minor
    for budget, price in prices.items():
        assert price >= list_minor * bought(budget) / bought(most) * (1 - 1e-12), "sold below what it is worth"
        assert price <= list_minor * bought(budget) / bought(most) * (1 + 1e-12) + 1
    if most == 10**12:
        assert prices[budgets[40]] > list_minor * budgets[40] / most * 2, "in proportion to ρ it would be a bargain"
