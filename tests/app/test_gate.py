"""The gate: a release that an audit would refute is neither revealed nor charged, and its chain is sold no more."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, func, select, update

from app.audit.gate import Gate
from app.catalog import ladders
from app.catalog import products as products_module
from app.clock import time_text
from app.engine import release
from app.errors import ConflictError
from app.log.journal import append
from app.log.leaves import WithdrawalLeaf
from app.store.schema import chains, datasets, draws, heads, leaves, planned_tiers
from tests.app.test_order_jobs import ended, ordered
from tests.app.test_simulator import killed_at
from tests.conftest import PEOPLE, Fair, Person, tiers
from tiers.audit import plans, provenance
from tiers.chain import extension, insertion, plan, plan_of, steps
from tiers.identity import Role


def change(fair: Fair, statement: Any) -> None:
    """Change the store behind the market's back, as somebody with the database could."""
    fair.market.database.submit(lambda connection: connection.execute(statement)).result()


def forget_what_was_sold(fair: Fair, chain: str) -> None:
    change(fair, update(chains).where(chains.c.id == chain).values(highest_nano=0, highest_rank=None))


def pretend_it_was_sold(fair: Fair, chain: str) -> None:
    change(fair, update(chains).where(chains.c.id == chain).values(highest_nano=2_000_000_000, highest_rank=1))


def forget_what_was_spent(fair: Fair, chain: str) -> None:
    change(fair, update(datasets).values(spent_nano=0))


def commit_to_another_answer(fair: Fair, chain: str) -> None:
    change(fair, update(draws).where(draws.c.chain_id == chain, draws.c.place == 1).values(commitment="c" * 64))


def understate_a_level(fair: Fair, chain: str) -> None:
    change(fair, update(planned_tiers).where(planned_tiers.c.rank == 2).values(level_nano=900_000_000))


EDITS: list[tuple[Callable[[Fair, str], None], str, str]] = [
    (forget_what_was_sold, "0.5", "A3 increment"),
    (pretend_it_was_sold, "1", "A3 increment"),
    (commit_to_another_answer, "1", "A2 stored-answer"),
    (understate_a_level, "1", "A3 increment"),
]


def refused(fair: Fair, buyer: Person, product: dict[str, Any], epsilon: str) -> list[str]:
    """Order, and return the rules for which the gate refused: nothing is left of the order but a frozen chain."""
    quote = fair.quote(buyer, product, epsilon)
    before, money = fair.stored(), fair.client.get("/v1/account", headers=buyer.headers).json()
    response = fair.order(buyer, quote, "refused")
    assert (response.status_code, response.json()["type"].rsplit("/", 1)[-1]) == (500, "audit-finding"), response.text
    assert set(response.json()) == {"status", "type", "title", "detail", "rules"}, "nothing is revealed"
    after = fair.stored()
    assert {name for name in after if after[name] != before[name]} == {"frozen_chains", "leaves", "heads"}
    assert (after["frozen_chains"], after["leaves"]) == (before["frozen_chains"] + 1, before["leaves"] + 1)
    assert fair.client.get("/v1/account", headers=buyer.headers).json() == money, "nothing is charged"
    return list(response.json()["rules"])


@pytest.mark.parametrize(("edit", "epsilon", "rule"), EDITS, ids=[edit.__name__ for edit, _, _ in EDITS])
def test_a_store_that_was_edited_sells_nothing_and_its_chain_is_frozen(
    fair: Fair, edit: Callable[[Fair, str], None], epsilon: str, rule: str
) -> None:
    product, other = fair.product(dataset := fair.dataset()), fair.product(dataset, PEOPLE)
    ada, bruno = fair.person(), fair.person()
    sold = fair.buy(ada, product, "0.5")
    spent = fair.ledger(dataset)
    edit(fair, product["chain"])
    assert rule in refused(fair, bruno, product, epsilon)
    if edit is commit_to_another_answer:
        assert fair.ledger(dataset) == spent
    body = {"product": product["product"], "epsilon": "0.1"}
    again = fair.client.post("/v1/quotes", json=body, headers=bruno.headers)
    assert (again.status_code, again.json()["type"].rsplit("/", 1)[-1]) == (409, "chain-frozen")
    if edit in (pretend_it_was_sold, understate_a_level):
        assert fair.answer(ada, sold).status_code == 200, "what was sold stays readable"
    if edit is not understate_a_level:
        fair.buy(bruno, other, "0.5")


@pytest.mark.parametrize("drawn", [True, False], ids=["drawn", "to be drawn"])
def test_an_order_that_is_not_waited_for_freezes_its_chain_just_the_same(
    fair: Fair, drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    product, buyer = fair.product(fair.dataset()), fair.person()
    if drawn:
        fair.buy(fair.person(), product, "0.5")
        pretend_it_was_sold(fair, product["chain"])
    else:
        honest = release.draw_leaf
        monkeypatch.setattr(
            release, "draw_leaf", lambda index, **how: msgspec.structs.replace(honest(index, **how), key_hash="a" * 64)
        )
    placed = ordered(fair, buyer, fair.quote(buyer, product, "1"))
    assert placed.status_code == (500 if drawn else 202)
    if not drawn:
        assert ended(fair, buyer, placed.json()["job"])["state"] == "failed"
    assert fair.stored()["frozen_chains"] == 1
    assert fair.stored()["orders"] == drawn


def test_a_quote_from_before_the_freeze_buys_nothing(fair: Fair) -> None:
    product, ada = fair.product(fair.dataset()), fair.person()
    fair.buy(ada, product, "0.5")
    held = fair.quote(ada, product, "0.1")
    pretend_it_was_sold(fair, product["chain"])
    refused(fair, fair.person(), product, "1")
    assert fair.order(ada, held, "late").status_code == 409


def test_overspending_is_seen_where_the_store_forgot_what_was_spent(fair: Fair) -> None:
    dataset = fair.dataset(budget="2")
    first, second = fair.product(dataset), fair.product(dataset, PEOPLE)
    fair.buy(fair.person(), first, "2")
    forget_what_was_spent(fair, first["chain"])
    assert refused(fair, fair.person(), second, "1") == ["A3 budget"]


def test_a_tier_of_less_noise_than_was_reserved_is_not_sold_though_its_level_would_fit(
    fair: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, made = fair.dataset(budget_kind="zcdp"), {"family": "skellam", "delta": "0.000001"}
    first = fair.product(dataset, PEOPLE, **made, tiers=tiers(("0.0797", 500), ("0.01", 100)))
    fair.buy(fair.person(), first, "0.01")
    with monkeypatch.context() as careless:
        careless.setattr(ladders, "more_accurate", lambda *_: False)
        above = fair.product(dataset, PEOPLE, **made, tiers=tiers(("0.0802", 900)), title="above")
    assert refused(fair, fair.person(), above, "0.0802") == ["A3 above-reserve"]


def test_an_engine_that_draws_a_star_or_shares_a_stream_sells_nothing(
    fair: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, honest = fair.dataset(), release.draw_leaf

    tops: list[Any] = []

    def starry(index: int, *, place: int, draw: Any, **how: Any) -> Any:
        leaf = honest(index, place=place, draw=draw, **how)
        tops.append(draw)
        if place < 2:
            return leaf
        return type(leaf)(
            **{name: getattr(leaf, name) for name in leaf.__struct_fields__}
            | {"parents": [tops[0].spec.law.document()], "parent_commitments": [tops[0].commitment]}
        )

    def shared(index: int, **how: Any) -> Any:
        leaf = honest(index, **how)
        return type(leaf)(**{name: getattr(leaf, name) for name in leaf.__struct_fields__} | {"key_hash": "a" * 64})

    for engine, query, rule in ((starry, None, "A2 nearest-parents"), (shared, PEOPLE, "A2 reused-key")):
        product = fair.product(dataset, query)
        monkeypatch.setattr(release, "draw_leaf", engine)
        assert rule in refused(fair, fair.person(), product, "1")
        monkeypatch.setattr(release, "draw_leaf", honest)


def test_an_operator_sees_frozen_chains_and_thaws_them_in_the_open(fair: Fair) -> None:
    product, ada = fair.product(fair.dataset()), fair.person()
    fair.buy(ada, product, "0.5")
    pretend_it_was_sold(fair, product["chain"])
    refused(fair, fair.person(), product, "1")
    ((frozen),) = fair.client.get("/v1/frozen-chains", headers=fair.operator.headers).json()
    assert (frozen["chain"], frozen["finding"], frozen["found_by"]) == (product["chain"], "A3 increment", "gate")
    assert fair.client.get("/health/ready").json()["audit"] == "1 chains are frozen"
    metrics = fair.client.get("/metrics", headers=fair.operator.headers).text
    assert 'tiermarket_audit_findings_total{rule="A3 increment"} 1.0' in metrics
    assert "tiermarket_frozen_chains 1.0" in metrics
    assert product["chain"] not in metrics
    change(fair, update(chains).values(highest_nano=500_000_000, highest_rank=3))
    path, reason = f"/v1/chains/{product['chain']}/thaw", {"reason": "the store agrees with the log again"}
    assert fair.client.post(path, json=reason, headers=ada.headers).status_code == 403
    assert fair.client.post(path, json=reason, headers=fair.operator.headers).json() == []
    assert fair.client.post(path, json=reason, headers=fair.operator.headers).status_code == 409, "it is not frozen"
    assert fair.client.get("/health/ready").json()["audit"] == "clear"
    fair.buy(ada, product, "1")
    kinds = fair.market.database.read_now(
        lambda connection: list(connection.execute(select(leaves.c.kind).order_by(leaves.c.log_index)).scalars())
    )
    assert kinds[-3:] == ["freeze", "thaw", "sale"]


def test_the_gate_follows_other_workers_and_forgets_what_did_not_commit(fair: Fair) -> None:
    product, ada = fair.product(fair.dataset()), fair.person()
    quote = fair.quote(ada, product, "0.5")
    fair.buy(fair.person(), product, "0.1")
    bruno = fair.person()
    counted = fair.quote(bruno, product, "0.1")
    with killed_at(fair, 10_000) as ran:
        assert fair.order(bruno, counted, "counted").status_code == 201
    before = fair.stored()
    with killed_at(fair, len(ran) - 2):  # after the gate, before the record
        assert fair.order(ada, quote, "killed").status_code in (500, 503)
    assert fair.stored() == before
    fair.market.desk.gate.__init__()  # type: ignore[misc]  # another worker's gate, which has seen nothing
    fair.buy(fair.person(), product, "0.5")
    fair.buy(fair.person(), product, "1")
    assert fair.order(ada, quote, "after").status_code == 201
    size = fair.market.database.read_now(
        lambda connection: connection.execute(select(func.max(heads.c.size))).scalar_one()
    )
    gate = Gate()
    fair.market.database.read_now(lambda connection: gate.follow(connection, size))
    assert len(gate._ledger.orders) == 5


def test_what_was_undone_before_it_committed_is_forgotten(fair: Fair) -> None:
    product, market = fair.product(fair.dataset()), fair.market
    fair.buy(fair.person(), product, "0.1")
    at = time_text(market.clock())

    def make(index: int) -> WithdrawalLeaf:
        return WithdrawalLeaf(index=index, at=at, product=product["product"], reason="undone")

    def undone(connection: Connection) -> None:
        (leaf,) = append(connection, market.keyring, at, [make])
        market.desk.gate.follow(connection, leaf.index + 1)
        raise ConflictError("write: expected one that commits, got another")

    with pytest.raises(ConflictError):
        market.database.submit(undone).result()
    fair.buy(fair.person(), product, "0.5")


def test_a_chain_is_certified_once_for_the_same_plans_and_draws(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.audit import gate

    audits = []
    honest = gate.LogAudit
    monkeypatch.setattr(gate, "LogAudit", lambda: audits.append(1) or honest())
    dataset = fair.dataset()
    product = fair.product(dataset)
    for epsilon in ("0.1", "0.5", "1"):
        fair.buy(fair.person(), product, epsilon)
    assert len(audits) == 1
    fair.buy(fair.person(), fair.product(dataset), "1")
    assert len(audits) == 2, "another plan on the chain"


@contextmanager
def slack_allowed() -> Iterator[pytest.MonkeyPatch]:
    """An engine that plans steps with slack, and puts tiers between them as if they were exact."""

    def forget() -> None:
        steps.between.cache_clear()
        provenance._due_sampler.cache_clear()

    with pytest.MonkeyPatch.context() as patch:
        forget()
        patch.setattr(products_module, "plan", partial(plan, allow_slack=True))
        for module in (extension, ladders):
            patch.setattr(module, "plan_of", partial(plan_of, allow_slack=True))
        patch.setattr(insertion, "_slack_edge", lambda _known: None)
        patch.setattr(insertion, "residual", partial(insertion.residual, allow_slack=True))
        patch.setattr(steps, "_exact", lambda upper, lower: steps.step_law(Role.RESIDUAL, lower, (upper,)))
        try:
            yield patch
        finally:
            forget()


def test_an_engine_that_bridges_a_slack_edge_sells_nothing(fair: Fair) -> None:
    dataset = fair.dataset(budget_kind="approx", budget="50", budget_delta="0.000001")
    how = {"family": "discrete-gaussian", "delta": "0.000001"}
    with slack_allowed() as patch:
        first = fair.product(dataset, PEOPLE, tiers=tiers(("4", 900), ("1", 90)), **how)
        assert "A1 residual" in refused(fair, fair.person(), first, "4"), "no chain with slack is sold at all"
        path = f"/v1/chains/{first['chain']}/thaw"
        assert fair.client.post(path, json={"reason": "a drill"}, headers=fair.operator.headers).status_code == 201
        with patch.context() as blind:
            blind.setattr(plans, "_witness", lambda _upper, _lower: None)
            fair.buy(fair.person(), first, "4")
            late = fair.product(dataset, PEOPLE, tiers=tiers(("2", 500)), **how)
            rules = refused(fair, fair.person(), late, "2")
    assert rules == ["A2 slack-bridged"]
    drawn = fair.market.database.read_now(
        lambda connection: connection.execute(select(draws.c.role).order_by(draws.c.place)).scalars().all()
    )
    assert list(drawn) == ["base", "residual"], "the bridge is neither kept nor logged"
