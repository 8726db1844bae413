"""Quotas and windows are a dataset's own, and each kind of ledger counts them in its own units."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.app.test_simulator import MEAN
from tests.conftest import PEOPLE, Fair, Person, rows

PACES: list[dict[str, Any]] = [{"quota": "1"}, {"window": {"days": 7, "budget": "1"}}]


def placed(fair: Fair, who: Person, product: dict[str, Any], epsilon: str) -> Any:
    return fair.order(who, fair.quote(who, product, epsilon), f"{product['product']}-{epsilon}")


@pytest.mark.parametrize("pace", PACES, ids=["quota", "window"])
def test_what_was_bought_of_one_dataset_counts_for_no_other(fair: Fair, pace: dict[str, Any]) -> None:
    first = fair.dataset(**pace)
    second = fair.dataset(name="second", table=rows(seed=8), **pace)
    free = fair.dataset(name="free", table=rows(seed=9), budget="50")
    buyer = fair.person()
    assert placed(fair, buyer, fair.product(free, PEOPLE), "2").status_code == 201, "no pace, and no part of one"
    for dataset in (first, second):
        product = fair.product(dataset)
        assert placed(fair, buyer, product, "1").status_code == 201, "exactly what is left"
        refused = placed(fair, buyer, product, "2")
        assert (refused.status_code, refused.json()["reason"]) == (409, next(iter(pace)))
        assert (refused.json()["requested"], refused.json()["remaining"]) == ("1", "0")
        assert placed(fair, buyer, product, "0.1").status_code == 201, "what is charged nothing passes an empty pace"
        assert fair.ledger(dataset)["spent"] == "1"


@pytest.mark.parametrize("pace", PACES, ids=["quota", "window"])
def test_a_mean_passes_a_pace_with_both_its_parts_or_not_at_all(fair: Fair, pace: dict[str, Any]) -> None:
    dataset, buyer = fair.dataset(**pace), fair.person()
    mean = fair.product(dataset, MEAN)
    before = fair.stored() | {"quotes": 2}
    refused = placed(fair, buyer, mean, "2")
    assert (refused.status_code, refused.json()["reason"]) == (409, next(iter(pace)))
    assert fair.stored() == before
    assert placed(fair, buyer, mean, "1").status_code == 201
    assert fair.ledger(dataset)["spent"] == "1"


def test_a_window_counts_everybody_s_charges_of_its_days_to_the_second(dated: tuple[Fair, list[datetime]]) -> None:
    fair, now = dated
    dataset = fair.dataset(window={"days": 7, "budget": "1"})
    product, other = fair.product(dataset), fair.product(dataset, PEOPLE)
    one, two = fair.person(), fair.person()
    first = now[0]
    assert placed(fair, one, product, "0.5").status_code == 201
    now[0] += timedelta(days=3)
    assert placed(fair, two, other, "0.5").status_code == 201
    for wait in (timedelta(hours=1), timedelta(days=6, hours=23), timedelta(days=7) - timedelta(seconds=1)):
        now[0] = max(now[0], first + wait)
        refused = placed(fair, two, product, "1")
        assert (refused.status_code, refused.json()["reason"], refused.json()["remaining"]) == (409, "window", "0"), (
            wait
        )
    now[0] = first + timedelta(days=7)
    assert placed(fair, two, product, "1").status_code == 201, "the first charge is seven days old, the second is not"
    assert placed(fair, one, other, "1").json()["reason"] == "window"
