"""An audit amid an outage: what it cannot reach for a moment it asks for again; what stays away is withheld."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.audit import outages
from app.engines.errors import EngineError
from app.errors import AppError, SnapshotAbsentError, StoreBehindError, StoreUnavailableError
from app.locations import disclosing
from app.panels import acts
from app.settings import Settings
from tests.app import locating, panelling
from tests.app.test_stopped_panels import audited, stopped
from tests.conftest import Fair, open_fair


@pytest.fixture
def shop(settings: Settings) -> Iterator[Fair]:
    yield from open_fair(settings)


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(outages, "time", SimpleNamespace(sleep=pauses.append))
    return pauses


def sold_round(shop: Fair) -> dict[str, Any]:
    panel = panelling.opened(shop)
    panelling.deliver(shop, panel, reports=panelling.rows(panel, [0, 1, 2, 3]))
    assert panelling.close(shop, panel).status_code == 201
    assert panelling.buy(shop, shop.person(), panel, "1.5").status_code == 201
    return panel


def sold_answer(shop: Fair) -> dict[str, Any]:
    panel = locating.opened(shop, "here")
    assert locating.buy(shop, shop.person(), panel).status_code == 201
    return panel


PARTS = pytest.mark.parametrize(
    ("sold", "module", "name", "rule"),
    [
        (sold_round, acts, "disclose", "A7 round-withheld"),
        (sold_round, acts, "spending", "A3 spending-withheld"),
        (sold_answer, disclosing, "disclose", "A7 location-withheld"),
    ],
    ids=["round", "spending", "places"],
)


def failing(patch: pytest.MonkeyPatch, module: Any, name: str, error: AppError, times: int) -> Callable[[], int]:
    """Let a part fail so many times, then do as before."""
    right, count = getattr(module, name), [0]

    def fails(*given: Any, **named: Any) -> Any:
        count[0] += 1
        if count[0] <= times:
            raise error
        return right(*given, **named)

    patch.setattr(module, name, fails)
    return lambda: count[0]


@PARTS
@pytest.mark.parametrize("error", [EngineError(), StoreUnavailableError("turn: expected one, got none")], ids=repr)
def test_a_moment_s_outage_is_waited_for_and_one_that_lasts_is_withheld(
    shop: Fair,
    monkeypatch: pytest.MonkeyPatch,
    slept: list[float],
    sold: Any,
    module: Any,
    name: str,
    rule: str,
    error: Any,
) -> None:
    panel = sold(shop)
    with monkeypatch.context() as patch:
        asked = failing(patch, module, name, error, 3)
        assert audited(shop) == "verified"
        assert (asked(), slept, stopped(shop)) == (4, [1.0, 10.0, 60.0], {})
    with monkeypatch.context() as patch:
        asked = failing(patch, module, name, error, 4)
        assert audited(shop) == "refuted"
        assert (asked(), stopped(shop)) == (4, {panel["panel"]: rule})


@PARTS
@pytest.mark.parametrize(
    "error", [SnapshotAbsentError("snapshot: expected it here, got none"), StoreBehindError("store: behind")], ids=repr
)
def test_what_is_gone_is_not_waited_for(
    shop: Fair,
    monkeypatch: pytest.MonkeyPatch,
    slept: list[float],
    sold: Any,
    module: Any,
    name: str,
    rule: str,
    error: Any,
) -> None:
    panel = sold(shop)
    failing(monkeypatch, module, name, error, 1)
    assert (audited(shop), slept, stopped(shop)) == ("refuted", [], {panel["panel"]: rule})


def test_a_tier_s_file_that_the_disk_does_not_give_is_no_missing_file(
    shop: Fair, monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    panel, opened, failed = sold_round(shop), Path.open, list[str]()

    def broken(path: Path, *given: Any, **named: Any) -> Any:
        if path.suffix == ".bin" and not failed:
            failed.append(path.name)
            raise OSError(5, "Input/output error")
        return opened(path, *given, **named)

    monkeypatch.setattr(Path, "open", broken)
    assert (audited(shop), slept) == ("verified", [1.0])
    assert failed
    assert stopped(shop) == {}
    assert panel["panel"]
