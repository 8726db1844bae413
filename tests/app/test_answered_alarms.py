"""What a thaw answers: what was told before it is a notice from then on, and freezes nothing again; what is new does."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from sqlalchemy import select, update

from app.audit.reports import audit_market
from app.engine import release
from app.log.journal import append
from app.log.leaves import EpochLeaf
from app.log.merkle import leaf_hash
from app.store.schema import audit_reports, draws, leaves
from tests.app.test_audit_reports import edit, frozen, sold
from tests.conftest import HISTOGRAM, PEOPLE, TOTAL, Fair
from tiers.audit.watch import Watch, WatchState
from tiers.canonical import canonical_bytes
from tiers.chain import Draw

POSITIVE = HISTOGRAM | {"where": {"type": "comparison", "column": "amount", "operator": ">", "value": 0}}


def audited(fair: Fair) -> tuple[str, set[tuple[str, str]]]:
    """The verdict of an audit, and its findings with their severity."""
    kept = audit_market(fair.market, lambda _: None)
    return kept["verdict"], {(f"{each['check']} {each['rule']}", each["severity"]) for each in kept["findings"]}


def thaw(fair: Fair, *chains: str) -> None:
    for chain in chains:
        path, reason = f"/v1/chains/{chain}/thaw", {"reason": "looked at, and answered"}
        assert fair.client.post(path, json=reason, headers=fair.operator.headers).status_code == 201


def alerts(fair: Fair) -> dict[str, float]:
    """The metrics that call for somebody."""
    lines = fair.client.get("/metrics", headers=fair.operator.headers).text.splitlines()
    wanted = ("tiermarket_audit_findings_total", "tiermarket_frozen_chains")
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(wanted)}


def health(fair: Fair) -> str:
    return str(fair.client.get("/health/ready").json()["audit"])


def spoil(fair: Fair, chain: str, place: int) -> None:
    edit(fair, update(draws).where(draws.c.chain_id == chain, draws.c.place == place).values(sealed_answer=b"x"))


def test_what_a_thaw_answered_is_a_notice_and_freezes_nothing_again(fair: Fair) -> None:
    first, second, _ = sold(fair)
    spoil(fair, first["chain"], 2)
    verdict, found = audited(fair)
    assert (verdict, {severity for _, severity in found}) == ("refuted", {"breach"})
    assert (health(fair), set(frozen(fair))) == ("1 chains are frozen", {first["chain"]})
    thaw(fair, first["chain"])
    before = alerts(fair)
    assert (health(fair), before["tiermarket_frozen_chains"]) == ("clear", 0)
    for _ in range(2):
        assert audited(fair) == ("answered", {(rule, "notice") for rule, _ in found})
        assert (health(fair), frozen(fair), alerts(fair)) == ("clear", {}, before)
    fair.buy(fair.person(), first, "1")
    spoil(fair, second["chain"], 1)
    verdict, later = audited(fair)
    assert (verdict, set(frozen(fair))) == ("refuted", {second["chain"]})
    assert {severity for _, severity in later} == {"breach", "notice"}
    assert alerts(fair)["tiermarket_frozen_chains"] == 1
    spoil(fair, first["chain"], 1)
    audited(fair)
    assert set(frozen(fair)) == {first["chain"], second["chain"]}, "what is new of a thawed chain is not answered"


def test_what_was_mended_and_breaks_again_is_new(fair: Fair) -> None:
    """An audit that did not tell it ends the answer: the same fault at the same place freezes again."""
    first, second, _ = sold(fair)
    of_first = (draws.c.chain_id == first["chain"]) & (draws.c.place == 2)
    wanted = select(draws.c.sealed_answer).where(of_first)
    whole = fair.market.database.read_now(lambda connection: connection.execute(wanted).scalar_one())
    spoil(fair, first["chain"], 2)
    spoil(fair, second["chain"], 2)
    _, found = audited(fair)
    edit(fair, update(draws).where(of_first).values(sealed_answer=whole))
    thaw(fair, first["chain"], second["chain"])
    assert audited(fair)[0] == "answered", "the second chain's, which was left as it is"
    assert frozen(fair) == {}
    spoil(fair, first["chain"], 2)
    assert audited(fair) == ("refuted", found | {(rule, "notice") for rule, _ in found})
    assert set(frozen(fair)) == {first["chain"]}
    thaw(fair, first["chain"])
    assert audited(fair) == ("answered", {(rule, "notice") for rule, _ in found}), "a further thaw answers it again"
    assert frozen(fair) == {}


def test_a_thaw_before_the_report_answers_nothing(fair: Fair) -> None:
    first, second, _ = sold(fair)
    spoil(fair, second["chain"], 2)
    audited(fair)
    thaw(fair, second["chain"])
    spoil(fair, first["chain"], 2)
    assert audited(fair)[0] == "refuted"
    assert set(frozen(fair)) == {first["chain"]}


def test_a_finding_of_the_whole_log_is_answered_chain_by_chain(fair: Fair) -> None:
    dataset, buyer, market = fair.dataset(), fair.person(), fair.market
    first, second = fair.product(dataset), fair.product(dataset, PEOPLE)
    fair.buy(buyer, first, "1")

    def rumour(index: int) -> EpochLeaf:
        return EpochLeaf(index=index, at="2099-01-01T00:00:00Z", purpose="rumour", epoch=1, public_key=None)

    market.database.submit(
        lambda connection: append(connection, market.keyring, "2099-01-01T00:00:00Z", [rumour])
    ).result()
    assert audited(fair) == ("refuted", {("A4 key-purpose", "breach")})
    assert set(frozen(fair)) == {first["chain"], second["chain"]}
    thaw(fair, second["chain"])
    third = fair.product(dataset, TOTAL)
    assert audited(fair) == ("refuted", {("A4 key-purpose", "breach")}), "it is not answered everywhere"
    assert set(frozen(fair)) == {first["chain"]}, "neither the thawed chain nor one that came later is frozen for it"
    thaw(fair, first["chain"])
    assert audited(fair) == ("answered", {("A4 key-purpose", "notice")})
    assert frozen(fair) == {}
    fair.buy(buyer, third, "0.5")


def test_a_root_that_is_not_the_signed_one_is_never_answered(fair: Fair) -> None:
    """Each head makes a claim of its own: what broke the last one does not excuse the next."""
    first, second, receipts = sold(fair)
    index = receipts[0]["receipt"]["leaf_index"]

    def work(connection: Any) -> None:
        body = connection.execute(select(leaves.c.body).where(leaves.c.log_index == index)).scalar_one()
        changed = canonical_bytes(json.loads(body) | {"pseudonym": "another"})
        row = {"body": changed, "leaf_hash": leaf_hash(changed)}
        connection.execute(update(leaves).where(leaves.c.log_index == index).values(row))

    fair.market.database.submit(work).result()
    for _ in range(2):
        verdict, found = audited(fair)
        assert (verdict, ("A4 root", "breach") in found) == ("refuted", True)
        assert set(frozen(fair)) == {first["chain"], second["chain"]}
        thaw(fair, first["chain"], second["chain"])


def outlying(honest: Callable[..., tuple[Draw, ...]]) -> Callable[..., tuple[Draw, ...]]:
    """An engine whose lower tiers lie a million off in all of their entries."""

    def drawn(truth: Any, specs: Any, key_of: Any) -> tuple[Draw, ...]:
        made = honest(truth, specs, key_of)
        return (made[0], *(Draw(each.spec, tuple(value + 10**6 for value in each.answer)) for each in made[1:]))

    return drawn


def kept_watch(fair: Fair) -> Watch:
    newest = select(audit_reports.c.watch_json).order_by(audit_reports.c.leaf_index.desc()).limit(1)
    text = fair.market.database.read_now(lambda connection: connection.execute(newest).scalar_one())
    return Watch.of(msgspec.json.decode(text, type=WatchState))


def test_an_alarm_of_the_noise_that_a_thaw_answered_starts_its_process_anew(
    fair: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, dataset, buyer = release.draw_chain, fair.dataset(budget="20"), fair.person()
    good = fair.product(dataset, PEOPLE)
    fair.buy(buyer, good, "2")
    assert audited(fair) == ("verified", set())
    monkeypatch.setattr(release, "draw_chain", outlying(honest))
    bad = fair.product(dataset)
    fair.buy(buyer, bad, "2")
    monkeypatch.setattr(release, "draw_chain", honest)
    verdict, found = audited(fair)
    assert verdict == "refuted"
    assert {("A5 law", "breach"), ("A5 pooled", "breach")} <= found
    raised = kept_watch(fair).alarms()
    assert set(frozen(fair)) == {good["chain"], bad["chain"]}, "the pooled alarm is about every chain"
    thaw(fair, good["chain"], bad["chain"])
    before = alerts(fair)
    for _ in range(2):
        verdict, again = audited(fair)
        assert (verdict, {severity for _, severity in again}) == ("answered", {"notice"})
        assert {rule for rule, _ in again} == {rule for rule, _ in found}, "no alarm is ever taken back"
        assert (frozen(fair), alerts(fair), health(fair)) == ({}, before, "clear")
        watch = kept_watch(fair)
        assert watch.alarms() == ()
        assert [each.alarm for each in watch.answered()] == list(raised)
    fine = fair.product(dataset, TOTAL)
    fair.buy(buyer, fine, "2")
    assert audited(fair)[0] == "answered", "a chain that came after the alarm is not frozen for it"
    assert frozen(fair) == {}
    monkeypatch.setattr(release, "draw_chain", outlying(honest))
    worse = fair.product(dataset, POSITIVE)
    fair.buy(buyer, worse, "2")
    verdict, later = audited(fair)
    assert (verdict, ("A5 law", "breach") in later) == ("refuted", True), "the same fault again is a new alarm"
    assert worse["chain"] in frozen(fair)


def test_two_audits_are_one_long_look(fair: Fair) -> None:
    """The second goes on from the watch of the first: each draw is seen once, and evidence adds up over audits."""
    dataset, buyer = fair.dataset(budget="20"), fair.person()
    fair.buy(buyer, fair.product(dataset), "2")
    audit_market(fair.market, lambda _: None)
    first = kept_watch(fair).state()
    audit_market(fair.market, lambda _: None)
    second = kept_watch(fair).state()
    assert sum(pair.process.values for pair in first.pairs) > 0
    assert second.pairs == first.pairs
    assert (second.pooled, second.repeats, second.habits) == (first.pooled, first.repeats, first.habits)
    fair.buy(buyer, fair.product(dataset, PEOPLE), "2")
    audit_market(fair.market, lambda _: None)
    third = kept_watch(fair).state()
    more = [pair.process.values for pair in third.pairs]
    grown = {pair.name: pair.process.values for pair in first.pairs}
    assert {pair.name: pair.process.values for pair in third.pairs if pair.name in grown}.keys() == grown.keys()
    assert sum(more) == sum(grown.values()) + 3, "three residuals of one entry each"
