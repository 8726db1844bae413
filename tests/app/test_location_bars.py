"""What an answer about places says of itself, counted: its bar and its words fail no more often than β."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from app.locations.desk import Due, LocationPanel
from app.locations.questions import query_identity, question_text
from app.locations.running import run_question
from app.locations.terms import Terms, space_of
from app.locations.wire import AskedQuestion, DensityQuestion, DiscQuestion, NearestQuestion

RUNS, BETA = 250, Fraction(1, 5)
POINT = ("50", "50")
TERMS = Terms(space_of((Fraction(0),) * 2, (Fraction(100),) * 2, Fraction(1, 100)), 30, 10**9, 10**9, BETA, 4)
PANEL = LocationPanel("location_1", "o", "d", "s", "t", "km", (), TERMS, {"range": 1}, "EUR", "l", 1, 0, 0, "live")
PLACES = np.random.default_rng(11).integers(4000, 6001, (30, 2)).astype(np.int64)
AWAY = np.hypot(*(PLACES / 100 - 50).T)


def answers(question: AskedQuestion, budget_nano: int) -> list[Any]:
    text = question_text(question)
    due = Due(query_identity("location_1", text, budget_nano), text, budget_nano)
    return [
        run_question(PANEL, due, key.to_bytes(32, "big"), PLACES, TERMS.unspent, [], lambda *_: None).answer
        for key in range(RUNS)
    ]


def refuted(failures: int) -> bool:
    """Whether so many failures are too many for β, at one in a million."""
    return bool(binom.sf(failures - 1, RUNS, float(BETA)) < 1e-6)


def test_counts_lie_in_their_bars() -> None:
    inside = int((AWAY < 8).sum())
    told = answers(DiscQuestion(centre=POINT, radius="8"), 2 * 10**8)
    assert not refuted(sum(not each["low"] <= inside <= each["high"] for each in told))
    assert all(each["low"] <= each["estimate"] <= each["high"] for each in told)
    widths = [each["high"] - each["low"] for each in told]
    assert 0 < float(np.mean(widths)) < 30, "the bar says something, and noise is felt"


def test_densities_lie_in_their_bars() -> None:
    true = float(np.exp(-0.5 * (AWAY / 3) ** 2).mean())
    told = answers(DensityQuestion(point=POINT, bandwidth="3"), 10**9)
    assert not refuted(sum(not float(each["low"]) <= true <= float(each["high"]) for each in told))
    assert all(float(each["low"]) < float(each["estimate"]) < float(each["high"]) for each in told)
    assert max(float(each["high"]) - float(each["low"]) for each in told) < 0.9


@pytest.mark.parametrize("k", [1, 3])
def test_the_nearest_are_no_farther_than_it_is_said(k: int) -> None:
    told = answers(NearestQuestion(point=POINT, k=k), 10**9)
    nearest = np.sort(AWAY)
    wrong = 0
    for each in told:
        chosen = AWAY[np.array(each["people"]) - 1]
        far = (chosen > nearest[:k] + float(each["farther"])).any()
        wrong += bool(far or (each["exact"] and set(chosen) != set(nearest[:k])))
    assert not refuted(wrong)


def test_an_estimated_density_is_within_its_own_bar() -> None:
    """One person at the point itself: half of the noisy distances are negative, and look far away."""
    terms = Terms(TERMS.space, 1, 10**9, 10**9, Fraction(1, 2), 1)
    panel, place = replace(PANEL, terms=terms), np.array([[5000, 5000]], np.int64)
    text = question_text(DensityQuestion(point=POINT, bandwidth="3"))
    due = Due(query_identity("location_1", text, 10**8), text, 10**8)
    told = [
        run_question(panel, due, key.to_bytes(32, "big"), place, terms.unspent, [], lambda *_: None).answer
        for key in range(60)
    ]
    assert all(float(each["low"]) <= float(each["estimate"]) <= float(each["high"]) for each in told)
    assert sum(each["estimate"] == each["low"] for each in told) > 5, "noise takes it out often enough to tell"
