"""Verdicts on the live catalogue: what is compared with what, found beside the writer, kept, and never out of date."""

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import cosh
from typing import Any

import pytest
from sqlalchemy import select

from app.catalog.auditing import AUDIT, audit_due, nightly
from app.catalog.classes import Offer, check_catalogue
from app.catalog.shelf import Proposal
from app.catalog.verdicts import rulings_of
from app.founding import recorder_of
from app.jobs.runner import Jobs
from app.queries.canonical import canonicalise
from app.queries.component import components
from app.queries.model import Count, GroupByKeys, In, Mean, Query, Sum
from app.queries.schema import Column, DatasetSchema
from app.store.database import Database, open_engine
from app.store.schema import jobs, price_verdicts
from pricing.limit import Limit
from tests.app.judging import judge
from tests.conftest import CITIES, HISTOGRAM, Fair, tiers

SCHEMA = DatasetSchema(
    columns=(Column(name="city", type="text"), Column(name="amount", type="integer")),
    salt="0" * 64,
    max_rows_per_unit=1,
    max_groups_per_unit=1,
)


def offer(title: str, query: Query, *priced: tuple[float, int]) -> Offer:
    listed = tuple((f"{title} @ {variance}", variance, price) for variance, price in priced)
    return Offer("d", "s", title, title, canonicalise(query, SCHEMA), "EUR", listed)


def total(values: tuple[str, ...], **fields: Any) -> Query:
    return Query(measure=Count(of="rows"), where=In(column="city", values=values), **fields)


def summed(lower: int, upper: int, values: tuple[str, ...] = ("a", "b")) -> Query:
    measure = Sum(column="amount", lower=str(lower), upper=str(upper), grain_exponent=0)
    return Query(measure=measure, where=In(column="city", values=values))


def test_two_clamps_of_one_sum_are_two_questions() -> None:
    narrow, wide = offer("narrow", summed(0, 5), (1.0, 10)), offer("wide", summed(0, 10), (2.0, 9000))
    assert judge(wide, [narrow]).verdict == "safe"
    assert judge(wide, [offer("again", summed(0, 10), (1.0, 10))]).verdict == "arbitrage"


def test_a_clamp_both_of_whose_bends_others_have_is_not_called_safe() -> None:
    wide = offer("wide", summed(0, 10), (2.0, 9000))
    pieces = [offer("low", summed(0, 5), (1.0, 10)), offer("high", summed(5, 10), (1.0, 10))]
    ruling = judge(wide, pieces)
    assert (ruling.verdict, ruling.reason) == (
        "uncertified",
        "could be combined in ways that are not compared, with: high, low",
    )
    assert judge(wide, pieces[:1]).verdict == "safe", "nothing else bends at 10"


def test_the_same_clamp_over_other_rows_of_a_person_is_not_called_safe() -> None:
    persons = DatasetSchema(
        columns=(*SCHEMA.columns, Column(name="person", type="text")),
        salt="0" * 64,
        max_rows_per_unit=2,
        max_groups_per_unit=1,
        unit="person",
        ordering=("amount",),
    )

    def one(rows: int) -> Offer:
        mean = Mean(column="amount", centre="0", lower="0", upper="10", grain_exponent=0, sum_share="0.5")
        total, _ = components(canonicalise(Query(measure=mean, rows_per_unit=rows), persons))
        return Offer("d", "s", str(rows), str(rows), total.query, "EUR", ((str(rows), 1.0, 10),))

    assert judge(one(1), [one(2)]).verdict == "uncertified", "both bend where the other does"
    assert judge(one(1), []).verdict == "safe"


def test_a_histogram_of_the_column_that_is_summed_bears_on_the_sum() -> None:
    by = GroupByKeys(column="amount", keys=(1, 2, 3))
    counts = offer("by amount", Query(measure=Count(of="rows"), group_by=by), (1.0, 10))
    assert judge(offer("sum", summed(0, 5), (1.0, 9000)), [counts]).verdict == "uncertified"
    cities = offer(
        "by city", Query(measure=Count(of="rows"), group_by=GroupByKeys(column="city", keys=("a",))), (1.0, 10)
    )
    assert judge(offer("sum", summed(0, 5), (1.0, 9000)), [cities]).verdict == "safe"


def test_one_tier_too_noisy_to_compare_is_uncertified_alone() -> None:
    noisy = offer("noisy", total(("a",)), (3e20, 1), (2.0, 400))
    whole = offer("whole", total(("a", "b")), (1.0, 9000))
    other = offer("other", total(("b",)), (2.0, 300))
    judged = {each.finding.name: (each.finding.verdict.value, each.reason) for each in check([noisy, whole, other])}
    assert judged == {
        "noisy @ 3e+20": ("uncertified", "a variance beyond what can be compared"),
        "noisy @ 2.0": ("safe", ""),
        "whole @ 1.0": ("safe", ""),
        "other @ 2.0": ("safe", ""),
    }


def test_the_noisiest_tier_that_can_be_compared_stands_in_for_none() -> None:
    edge = offer("edge", total(("a",)), (3e20, 1), (1e18, 5))
    judged = {each.finding.name: (each.finding.verdict.value, each.reason) for each in check([edge])}
    assert judged == {
        "edge @ 3e+20": ("uncertified", "a variance beyond what can be compared"),
        "edge @ 1e+18": ("safe", ""),
    }


def check(offers: list[Offer], limit: Limit | None = None) -> Any:
    return check_catalogue(offers, level=3, limit=limit or Limit())


def test_one_tier_too_accurate_to_compare_leaves_only_what_costs_more_open() -> None:
    keen = offer("keen", total(("a",)), (1e-14, 500))
    cheap, dear = offer("cheap", total(("b",)), (2.0, 500)), offer("dear", total(("a", "b")), (9.0, 501))
    judged = {each.finding.name: each.finding.verdict.value for each in check([keen, cheap, dear])}
    assert judged == {"keen @ 1e-14": "uncertified", "cheap @ 2.0": "safe", "dear @ 9.0": "uncertified"}


def test_of_two_tiers_too_accurate_to_compare_the_cheaper_decides() -> None:
    for keen in (((1e-14, 900), (1e-13, 500)), ((1e-13, 900), (1e-14, 500))):
        judged = check([offer("keen", total(("a",)), *keen), offer("dear", total(("a", "b")), (9.0, 501))])
        assert {each.finding.name: each.finding.verdict.value for each in judged}["dear @ 9.0"] == "uncertified"


def test_noise_that_stands_in_for_more_noise_proves_no_arbitrage() -> None:
    noisy = offer("noisy", total(("a",)), (3e18, 1))
    target = offer("target", total(("a",)), (2e18, 9))
    fine = offer("fine", total(("a",)), (1e18, 5))
    judged = {each.finding.name: each.finding.verdict.value for each in check([noisy, target])}
    assert judged["target @ 2e+18"] == "uncertified"
    assert {each.finding.name: each.finding.verdict.value for each in check([noisy, fine])}[
        "fine @ 1e+18"
    ] == "uncertified"


def test_two_titles_alike_are_told_apart() -> None:
    first = Offer("d", "s", "chain-one", "T", canonicalise(total(("a",)), SCHEMA), "EUR", (("T @ 1", 1.0, 10),))
    second = Offer("d", "s", "chain-two", "T", canonicalise(total(("a", "b")), SCHEMA), "EUR", (("T @ 1", 1.0, 10),))
    assert len({each.finding.name for each in check([first, second])}) == 2
    assert set(rulings_of([first, second], check([first, second]))) == {"chain-one", "chain-two"}


def test_out_of_time_says_so_and_is_never_safe() -> None:
    parts = [offer(name, total((name,)), (1 / (cosh(0.5) - 1), 1000)) for name in ("a", "b", "c")]
    whole = offer("whole", total(("a", "b", "c")), (1 / (cosh(0.25) - 1), 3001))
    late = Limit(seconds_left=lambda: 0.0)
    rulings = rulings_of([*parts, whole], check([*parts, whole], late))
    assert {ruling.verdict for ruling in rulings.values()} == {"uncertified"}
    assert rulings["whole"].reason == "out of time before it was settled"
    settled = rulings_of([*parts, whole], check([*parts, whole]))["whole"]
    assert (settled.verdict, settled.cost_minor, set(settled.bundle)) == (
        "arbitrage",
        3000,
        {f"{name} @ {1 / (cosh(0.5) - 1)}" for name in ("a", "b", "c")},
    )


CITY_ROWS = HISTOGRAM | {"rows_per_unit": 3, "groups_per_unit": 3}
ALL = {
    "measure": {"type": "count", "of": "rows"},
    "where": {"type": "in", "column": "city", "values": CITIES},
    "rows_per_unit": 3,
}


def verdict(fair: Fair, product: str) -> Any:
    return fair.client.get(f"/v1/products/{product}/verdict", headers=fair.owner().headers)


def finish(fair: Fair, job: str, headers: dict[str, str]) -> Any:
    for _ in range(1200):
        seen = fair.client.get(f"/v1/jobs/{job}", headers=headers).json()
        if seen["state"] != "running":
            return seen
        time.sleep(0.05)
    raise AssertionError("the job did not end")


def test_the_owner_reads_why_a_product_stands_as_it_does(fair: Fair) -> None:
    dataset = fair.dataset()
    product = fair.product(dataset, CITY_ROWS, title="By city", tiers=tiers(("1", 3000), ("0.5", 1200)))["product"]
    seen = verdict(fair, product).json()
    assert (seen["verdict"], seen["bundle"], seen["cost_minor"]) == ("safe", [], None)
    other = fair.person("owner")
    assert fair.client.get(f"/v1/products/{product}/verdict", headers=other.headers).status_code == 404
    assert fair.client.get(f"/v1/products/{product}/verdict", headers=fair.person().headers).status_code == 403


def test_an_audit_writes_its_verdicts_back(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.catalog import shelf

    dataset = fair.dataset()
    fair.product(dataset, CITY_ROWS, title="By city", tiers=tiers(("1", 3000), ("0.5", 1200)))
    monkeypatch.setattr(shelf, "check_catalogue", lambda *_, **__: [])  # a leak that got past publication
    leak = fair.product(dataset, ALL, title="All", tiers=tiers(("0.1", 4000)))["product"]
    monkeypatch.undo()
    assert verdict(fair, leak).json()["verdict"] == "safe"
    headers = fair.operator.headers
    done = finish(fair, fair.client.post("/v1/price-audits", headers=headers).json()["job"], headers)
    assert (done["result"]["verdict"], done["result"]["changed_meanwhile"]) == ("arbitrage", [])
    seen = verdict(fair, leak).json()
    assert (seen["verdict"], seen["bundle"], seen["cost_minor"]) == ("arbitrage", ["By city @ ε 0.5"], 1200)
    assert fair.client.get(f"/v1/products/{leak}", headers=fair.owner().headers).json()["arbitrage"] == "arbitrage"


def test_an_audit_keeps_no_verdict_on_prices_that_changed_meanwhile(
    fair: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.catalog import auditing

    dataset = fair.dataset()
    product = fair.product(dataset, CITY_ROWS, title="By city", tiers=tiers(("1", 3000), ("0.5", 1200)))["product"]
    checked, go = threading.Event(), threading.Event()
    check_for_real = auditing.check_catalogue

    def slow(*arguments: Any, **options: Any) -> Any:
        checked.set()
        assert go.wait(60)
        return check_for_real(*arguments, **options)

    monkeypatch.setattr(auditing, "check_catalogue", slow)
    headers = fair.operator.headers
    job = fair.client.post("/v1/price-audits", headers=headers).json()["job"]
    assert checked.wait(60)
    body = {"currency": "EUR", "prices_minor": [3000, 1100]}
    changed = fair.client.post(f"/v1/products/{product}/prices", json=body, headers=fair.owner().headers)
    assert changed.status_code == 201, "a running audit keeps nobody from writing"
    stored = fair.market.database.read_now(lambda connection: connection.execute(select(price_verdicts)).one())
    go.set()
    assert finish(fair, job, headers)["result"]["changed_meanwhile"] == ["By city"]
    assert fair.market.database.read_now(lambda connection: connection.execute(select(price_verdicts)).one()) == stored


def test_a_verdict_found_on_another_catalogue_is_found_again(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the total is checked, the histogram that undercuts it goes on sale: the write must not trust the verdict."""
    from app.catalog import checking

    dataset = fair.dataset()
    judged: list[int] = []
    judge_for_real = checking.judge_proposal

    def racing(proposal: Proposal, limit: Limit) -> Any:
        judged.append(len(proposal.shelf.offers) - 1)
        ruling = judge_for_real(proposal, limit)
        if len(judged) == 1:
            worker = threading.Thread(
                target=fair.product,
                args=(dataset, CITY_ROWS),
                kwargs={"title": "By city", "tiers": tiers(("1", 3000), ("0.5", 1200))},
            )
            worker.start()
            worker.join()
        return ruling

    monkeypatch.setattr(checking, "judge_proposal", racing)
    body = fair.product_body(dataset, ALL, title="All", tiers=tiers(("0.1", 4000)))
    refused = fair.client.post("/v1/products", json=body, headers=fair.owner().headers)
    assert (refused.status_code, refused.json()["reason"]) == (409, "arbitrage")
    assert judged == [0, 0, 1], "the total, the histogram in between, the total again"


def test_a_catalogue_that_never_stands_still_is_a_conflict(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.catalog import arbitrage

    dataset = fair.dataset()
    before = fair.stored()
    versions = iter(range(100))
    monkeypatch.setattr(arbitrage, "rivals_version", lambda *_: str(next(versions)))
    refused = fair.client.post("/v1/products", json=fair.product_body(dataset), headers=fair.owner().headers)
    assert (refused.status_code, refused.json()["reason"]) == (409, "catalogue-changed")
    assert fair.stored() == before


async def until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def several(looks: list[int]) -> None:
    """Ten more looks at the clock: each after all that the one before it led to."""
    enough = len(looks) + 10
    await until(lambda: len(looks) >= enough)


def test_the_nightly_audit_runs_once_a_night_and_only_at_night(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.catalog import auditing

    monkeypatch.setattr(auditing, "_LOOK_SECONDS", 0.01)
    fair.product(fair.dataset(), CITY_ROWS)
    database, hour, looks = fair.market.database, [13], list[int]()

    def moment() -> datetime:
        looks.append(hour[0])
        return datetime(2026, 5, 1, hour[0], 30, tzinfo=UTC)

    def audits() -> int:
        wanted = select(jobs.c.id).where(jobs.c.kind == AUDIT)
        return len(database.read_now(lambda connection: connection.execute(wanted).all()))

    async def night() -> None:
        work = {AUDIT: lambda database, progress: auditing.price_audit(database, "2026-05-01T02:30:00Z", progress)}
        runner = auditing.Jobs(database, moment, fair.market.turns, work)
        for process in range(2):
            task = asyncio.create_task(nightly(runner, moment))
            await several(looks)
            if process == 0:
                assert audits() == 0, "not by day"
                hour[0] = 2
                await until(lambda: audits() > 0)
            await several(looks)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await runner.close()

    asyncio.run(night())
    assert audits() == 1
    assert not database.read_now(lambda connection: audit_due(connection, datetime(2026, 5, 1, 21, tzinfo=UTC)))
    assert database.read_now(lambda connection: audit_due(connection, datetime(2026, 5, 2, 2, tzinfo=UTC)))


def test_of_two_processes_that_look_at_the_same_moment_one_audits(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look before either has stored its job: what decides is the transaction, not the look."""
    from app.catalog import auditing

    monkeypatch.setattr(auditing, "_LOOK_SECONDS", 0.05)
    settings = fair.market.settings
    stores = [Database(open_engine(settings.database_url), recorder_of(settings, fair.market.keyring)) for _ in "ab"]
    barrier = threading.Barrier(2)

    def process(store: Database) -> None:
        looks: list[int] = []

        def moment() -> datetime:
            looks.append(2)
            return datetime(2026, 5, 1, 2, 30, tzinfo=UTC)

        async def once() -> None:
            runner = auditing.Jobs(store, moment, fair.market.turns, {AUDIT: lambda *_: {"verdict": "safe"}})
            barrier.wait(60)
            task = asyncio.create_task(nightly(runner, moment))
            await several(looks)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await runner.close()

        asyncio.run(once())

    threads = [threading.Thread(target=process, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    wanted = select(jobs.c.id).where(jobs.c.kind == AUDIT)
    assert len(fair.market.database.read_now(lambda connection: connection.execute(wanted).all())) == 1


def test_whether_an_audit_is_due_is_decided_where_it_is_stored(fair: Fair) -> None:
    """Two claims are let in one after the other by the writer: the second sees the first one's job."""
    seen: list[int] = []
    account = fair.person("owner").account

    def due(connection: Any) -> str | None:
        seen.append(len(connection.execute(select(jobs.c.id)).all()))
        return account if seen[-1] == 0 else None

    async def both() -> list[str | None]:
        night = datetime(2026, 5, 1, 2, tzinfo=UTC)
        runner = Jobs(fair.market.database, lambda: night, fair.market.turns, {AUDIT: lambda *_: {}})
        made = await asyncio.gather(*(runner.start_for(due, AUDIT) for _ in range(2)))
        await runner.close()
        return list(made)

    first, second = asyncio.run(both())
    assert (first is None, second is None, seen) == (False, True, [0, 1])
