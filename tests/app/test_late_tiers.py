"""Tiers that an owner adds to a chain after sales: in any place, from what is known, charged and audited like others."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
from sqlalchemy import select

from app.audit.verify import verify_export
from app.engine.snapshots import SnapshotFiles
from app.engine.state import ChainState
from app.store.schema import draws
from tests.audit.exports import found, parse
from tests.conftest import HISTOGRAM, PEOPLE, TOTAL, Fair, tiers

BASE = (("2", 2000), ("0.5", 500))
LATE = {"between": ("1", 1000), "below": ("0.1", 100), "above": ("4", 4000)}
ROLES = {"between": "bridge", "below": "residual", "above": "late-top"}


def drawn(fair: Fair, chain: str) -> list[tuple[int, str]]:
    wanted = select(draws.c.place, draws.c.role).where(draws.c.chain_id == chain).order_by(draws.c.place)
    return fair.market.database.read_now(lambda c: [(row.place, row.role) for row in c.execute(wanted)])


def verified(fair: Fair) -> Any:
    lines, public = fair.export()
    report = verify_export(iter(lines), public)
    assert report.findings == ()
    return report


@pytest.mark.parametrize("question", [HISTOGRAM, PEOPLE, TOTAL], ids=["histogram", "count", "sum"])
@pytest.mark.parametrize("where", list(LATE))
def test_a_late_tier_is_drawn_from_its_neighbours_sold_charged_and_verified(
    fair: Fair, where: str, question: dict[str, Any]
) -> None:
    dataset = fair.dataset(budget="10")
    first = fair.product(dataset, question, tiers=tiers(*BASE))
    ada, bruno = fair.person(), fair.person()
    before = fair.buy(ada, first, "2")
    late = LATE[where]
    second = fair.product(dataset, question, tiers=tiers(late))
    assert second["chain"] == first["chain"]
    assert second["book_version"] == first["book_version"] + 1
    assert len(drawn(fair, first["chain"])) == 2, "planned, and not yet drawn"
    (tier,) = second["tiers"]
    assert tier["added_at"] is not None
    assert tier["price_minor"] == late[1]
    sold = fair.buy(bruno, second, late[0])
    assert sold["receipt"]["charge_nano"] == max(0, round((float(late[0]) - 2) * 10**9))
    assert drawn(fair, first["chain"])[2] == (2, ROLES[where])
    assert fair.answer(ada, before).json() == before["answer"], "what was sold stays what it was"
    again = fair.buy(fair.person(), second, late[0])
    assert again["answer"] == sold["answer"]
    report = verified(fair)
    assert report.draws == 3


def test_ranks_are_those_that_the_tiers_have_together(fair: Fair) -> None:
    dataset = fair.dataset(budget="10")
    first = fair.product(dataset, tiers=tiers(*BASE))
    ada = fair.person()
    fair.buy(ada, first, "2")
    second = fair.product(dataset, tiers=tiers(("4", 4000), ("1", 1000), ("0.5", 500)))
    listed = fair.client.get(f"/v1/products/{first['product']}", headers=ada.headers).json()
    assert [tier["rank"] for tier in listed["tiers"]] == [2, 4]
    assert [tier["rank"] for tier in second["tiers"]] == [1, 3, 4]
    held = fair.client.get("/v1/entitlements", headers=ada.headers).json()
    assert [tier["rank"] for tier in held] == [2]
    (chain,) = fair.ledger(dataset)["chains"]
    assert (chain["charged"], chain["highest_issued_rank"]) == ("2", 2)
    upgraded = fair.buy(ada, second, "4")
    assert upgraded["receipt"]["price_minor"] == 2000, "what was paid for rank 2 is credited"
    assert fair.ledger(dataset)["spent"] == "4"
    verified(fair)


def test_late_tiers_of_several_ladders_are_drawn_in_the_order_of_their_sales(fair: Fair) -> None:
    dataset = fair.dataset(budget="10")
    product = fair.product(dataset, tiers=tiers(*BASE))
    fair.buy(fair.person(), product, "0.5")
    more = fair.product(dataset, tiers=tiers(("4", 4000), ("3", 3000), ("1", 1000), ("0.25", 250), ("0.1", 100)))
    for epsilon in ("0.1", "4", "0.25", "1", "3"):
        fair.buy(fair.person(), more, epsilon)
    roles = [role for _, role in drawn(fair, product["chain"])]
    assert roles == ["base", "residual", "residual", "late-top", "bridge", "bridge", "bridge"]
    assert verified(fair).draws == 7


def test_tiers_added_before_the_first_sale_are_drawn_top_down_with_the_others(fair: Fair) -> None:
    dataset = fair.dataset(budget="10")
    first = fair.product(dataset, tiers=tiers(*BASE))
    second = fair.product(dataset, tiers=tiers(("4", 4000), ("1", 1000)))
    assert [tier["added_at"] for tier in second["tiers"]] == [None, None]
    fair.buy(fair.person(), first, "0.5")
    assert [role for _, role in drawn(fair, first["chain"])] == ["base", "residual", "residual", "residual"]
    verified(fair)


def refuse(fair: Fair, dataset: str, status: int, **fields: Any) -> dict[str, Any]:
    before = fair.stored()
    body = fair.product_body(dataset, **fields)
    refused = fair.client.post("/v1/products", json=body, headers=fair.owner().headers)
    assert refused.status_code == status, refused.text
    assert fair.stored() == before
    return dict(refused.json())


def test_a_late_tier_whose_price_falls_with_accuracy_is_refused(fair: Fair) -> None:
    dataset = fair.dataset(budget="10")
    fair.buy(fair.person(), fair.product(dataset, tiers=tiers(*BASE)), "2")
    refuse(fair, dataset, 400, tiers=tiers(("1", 2001)))
    refuse(fair, dataset, 400, tiers=tiers(("4", 1999)))


def test_a_late_top_beyond_the_budget_is_refused_at_the_sale_and_draws_nothing(fair: Fair) -> None:
    dataset = fair.dataset(budget="3")
    product = fair.product(dataset, tiers=tiers(*BASE))
    fair.buy(fair.person(), product, "2")
    late = fair.product(dataset, tiers=tiers(("4", 4000)))
    assert [tier["admitted"] for tier in late["tiers"]] == [False]
    buyer = fair.person()
    refused = fair.order(buyer, fair.quote(buyer, late, "4"))
    assert (refused.status_code, refused.json()["remaining"]) == (409, "1")
    assert len(drawn(fair, product["chain"])) == 2


def test_a_late_top_is_never_drawn_from_another_truth(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = fair.dataset(budget="10")
    product = fair.product(dataset, PEOPLE, tiers=tiers(*BASE))
    fair.buy(fair.person(), product, "2")
    late = fair.product(dataset, PEOPLE, tiers=tiers(("4", 4000)))
    truth: Callable[[SnapshotFiles, ChainState], tuple[int, ...]] = SnapshotFiles.truth
    monkeypatch.setattr(SnapshotFiles, "truth", lambda self, chain: tuple(value + 1 for value in truth(self, chain)))
    buyer = fair.person()
    quote, before = fair.quote(buyer, late, "4"), fair.stored()
    refused = fair.order(buyer, quote)
    assert (refused.status_code, refused.json()["type"].rsplit("/")[-1]) == (500, "integrity")
    assert fair.stored() == before
    monkeypatch.undo()
    assert fair.order(buyer, quote).status_code == 201


def test_two_late_tiers_at_once_are_drawn_one_after_the_other(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are computed from the same neighbours; the second to commit is drawn anew, with the first as its parent."""
    dataset = fair.dataset(budget="10")
    product = fair.product(dataset, PEOPLE, tiers=tiers(*BASE))
    fair.buy(fair.person(), product, "2")
    late = fair.product(dataset, PEOPLE, tiers=tiers(("1.5", 1500), ("1", 1000)))
    both = threading.Barrier(2, timeout=300)
    compute = fair.market.engine.compute
    calls: list[str] = []

    def together(chain: ChainState, tier: Any) -> Any:
        made = compute(chain, tier)
        calls.append(tier.epsilon)
        if len(calls) <= 2:
            both.wait()
        return made

    monkeypatch.setattr(fair.market.engine, "compute", together)
    monkeypatch.setattr(fair.market.turns, "_lines", Unlocked())
    monkeypatch.setattr(fair.market.turns, "held", lambda *_: nullcontext())
    buyers = [fair.person(), fair.person()]
    quotes = [fair.quote(buyer, late, epsilon) for buyer, epsilon in zip(buyers, ("1.5", "1"), strict=True)]
    with ThreadPoolExecutor(2) as pool:
        placed = list(pool.map(lambda pair: fair.order(*pair), zip(buyers, quotes, strict=True)))
    assert [response.status_code for response in placed] == [201, 201]
    assert len(calls) == 3, "the slower one was drawn again"
    verified(fair)


class Unlocked(dict[tuple[str, str], Any]):
    """Locks that nobody waits for: as if each order were in a process of its own."""

    def setdefault(self, _key: tuple[str, str], _default: Any = None) -> "Unlocked":
        return self

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None


def test_the_verifier_finds_a_late_tier_in_another_place_and_another_book(fair: Fair) -> None:
    dataset = fair.dataset(budget="10")
    product = fair.product(dataset, tiers=tiers(*BASE))
    fair.buy(fair.person(), product, "2")
    fair.buy(fair.person(), fair.product(dataset, tiers=tiers(("1", 1000))), "1")
    export = parse(*fair.export())
    plan = export.kind("product-plan")[-1]
    plan["book_version"] -= 1
    assert found(export.signed_anew().verify()) == {"A3 book-version"}
    export = parse(*fair.export())
    (bridge,) = (leaf for leaf in export.kind("draw") if leaf["role"] == "bridge")
    bridge["role"] = "residual"
    bridge["parents"], bridge["parent_commitments"] = bridge["parents"][:1], bridge["parent_commitments"][:1]
    assert "A2 bridge" in found(export.signed_anew().verify())
