"""What no thaw answers: what nobody was told of, what is another chain's or a panel's, what is claimed anew."""

import json
import math
from typing import Any

import pytest
from sqlalchemy import select, update

from app.audit import reports, verify
from app.audit.page import report_page
from app.audit.reports import audit_market
from app.engine import release
from app.log.journal import append
from app.log.leaves import EpochLeaf
from app.store.schema import audit_reports, heads
from tests.app.panelling import opened
from tests.app.test_answered_alarms import POSITIVE, alerts, audited, kept_watch, outlying, spoil, thaw
from tests.app.test_audit_reports import edit, frozen, sold
from tests.conftest import PEOPLE, TOTAL, Fair
from tiers.audit.conformance import alarm_findings
from tiers.audit.findings import Finding
from tiers.audit.watch import Alarm
from tiers.chain import draw_chain


def rumour(fair: Fair, epoch: int = 1) -> None:
    """A leaf that is wrong on no chain in particular."""
    at = "2099-01-01T00:00:00Z"

    def made(index: int) -> EpochLeaf:
        return EpochLeaf(index=index, at=at, purpose="rumour", epoch=epoch, public_key=None)

    market = fair.market
    market.database.submit(lambda connection: append(connection, market.keyring, at, [made])).result()


def planned(fair: Fair) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A dataset with two products, of each of which its top tier is sold."""
    dataset, buyer = fair.dataset(), fair.person()
    first, second = fair.product(dataset), fair.product(dataset, PEOPLE)
    fair.buy(buyer, first, "1")
    fair.buy(buyer, second, "2")
    return dataset, first, second


def test_a_finding_of_the_whole_log_that_nobody_answered_freezes_what_is_planned_later(fair: Fair) -> None:
    """A thaw of long ago, of something else, answers nothing of it."""
    dataset, first, second = planned(fair)
    spoil(fair, first["chain"], 2)
    audited(fair)
    thaw(fair, first["chain"])
    rumour(fair)
    assert audited(fair)[0] == "refuted"
    assert set(frozen(fair)) == {first["chain"], second["chain"]}
    third = fair.product(dataset, TOTAL)
    assert audited(fair)[0] == "refuted"
    assert set(frozen(fair)) == {first["chain"], second["chain"], third["chain"]}


def test_a_further_thaw_takes_back_no_answer(fair: Fair) -> None:
    """What was not held against a chain that came later is not held against it when an older chain is thawed again."""
    dataset, first, second = planned(fair)
    rumour(fair)
    audited(fair)
    thaw(fair, first["chain"], second["chain"])
    third = fair.product(dataset, TOTAL)
    assert audited(fair)[0] == "answered"
    spoil(fair, first["chain"], 2)
    spoil(fair, second["chain"], 2)
    audited(fair)
    thaw(fair, first["chain"], second["chain"])
    assert audited(fair)[0] == "answered"
    assert third["chain"] not in frozen(fair)


def test_an_alarm_that_was_thawed_while_an_audit_ran_starts_anew_at_the_next(
    fair: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, dataset, buyer = draw_chain, fair.dataset(budget="20"), fair.person()
    monkeypatch.setattr(release, "draw_chain", outlying(honest))
    bad = fair.product(dataset)
    fair.buy(buyer, bad, "2")
    monkeypatch.setattr(release, "draw_chain", honest)
    assert audited(fair)[0] == "refuted"
    raised = kept_watch(fair).alarms()

    def meanwhile(text: str) -> None:
        if text == "keeping the report":
            thaw(fair, bad["chain"])

    assert audit_market(fair.market, meanwhile)["verdict"] == "answered"
    assert audited(fair)[0] == "answered"
    watch = kept_watch(fair)
    assert (watch.alarms(), [each.alarm for each in watch.answered()]) == ((), list(raised))
    monkeypatch.setattr(release, "draw_chain", outlying(honest))
    worse = fair.product(dataset, POSITIVE)
    fair.buy(buyer, worse, "2")
    verdict, found = audited(fair)
    assert (verdict, ("A5 pooled", "breach") in found) == ("refuted", True)


def test_every_start_of_a_process_makes_a_claim_of_its_own() -> None:
    """Else the alarm of a process that was started anew would pass for the one that was answered."""
    limits = [2 * i * (i + 1) * 10**6 for i in range(1, 3000)]
    found = alarm_findings([Alarm("pooled", "all pairs", 99.0, math.log(limit), 8) for limit in limits])
    assert len({finding.claimed for finding in found}) == len(limits)


def test_what_is_found_beyond_the_limit_of_a_report_freezes_all(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not listed cannot be answered: a log full of answered faults hides no new one."""
    first, second, _ = sold(fair)
    for place in (0, 1, 2):
        spoil(fair, first["chain"], place)
    kept = audit_market(fair.market, lambda _: None)
    thaw(fair, first["chain"])
    monkeypatch.setattr(verify, "FINDINGS_LIMIT", len(kept["findings"]))
    spoil(fair, second["chain"], 1)
    for _ in range(2):
        verdict, found = audited(fair)
        assert verdict == "refuted"
        assert ("A4 findings-left-out", "breach") in found
        assert set(frozen(fair)) == {first["chain"], second["chain"]}
        thaw(fair, first["chain"], second["chain"])


def test_a_signature_that_does_not_verify_is_never_answered(fair: Fair) -> None:
    first, _, _ = sold(fair)
    for _ in range(2):
        newest = select(heads.c.size).order_by(heads.c.size.desc()).limit(1).scalar_subquery()
        edit(fair, update(heads).where(heads.c.size == newest).values(signature="00" * 64))
        verdict, found = audited(fair)
        assert (verdict, ("A4 head-signature", "breach") in found) == ("refuted", True)
        assert first["chain"] in frozen(fair)
        thaw(fair, *frozen(fair))


def test_no_chain_s_thaw_answers_what_was_found_of_a_panel(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, _ = sold(fair)
    panel = opened(fair)["panel"]
    wrong = Finding("A7", "commitment", f"{panel}/1", "one that opens", "another")
    monkeypatch.setattr(reports, "replay_rounds", lambda market, progress: [wrong])
    assert audited(fair) == ("refuted", {("A7 commitment", "breach")})
    spoil(fair, first["chain"], 2)
    spoil(fair, second["chain"], 2)
    audited(fair)
    before = alerts(fair)
    thaw(fair, first["chain"], second["chain"])
    verdict, found = audited(fair)
    assert (verdict, ("A7 commitment", "breach") in found) == ("refuted", True)
    assert frozen(fair) == {}
    assert alerts(fair) != before


def test_a_report_that_was_edited_has_told_nothing(fair: Fair) -> None:
    """Whoever writes a finding into a kept report has not had it answered by the thaw that came after."""
    first, _, _ = sold(fair)
    spoil(fair, first["chain"], 2)
    kept = audit_market(fair.market, lambda _: None)
    thaw(fair, first["chain"])
    whole = {each["where"] for each in kept["findings"]}
    spoil(fair, first["chain"], 1)
    forged = [each | {"where": f"leaf {int(each['where'].removeprefix('leaf ')) - 1}"} for each in kept["findings"]]
    text = json.dumps(kept | {"findings": kept["findings"] + forged})
    edit(fair, update(audit_reports).where(audit_reports.c.id == kept["report"]).values(report_json=text))
    again = audit_market(fair.market, lambda _: None)
    new = [each for each in again["findings"] if each["check"] == "A7" and each["where"] not in whole]
    assert {each["severity"] for each in new} == {"breach"}
    assert frozen(fair)[first["chain"]]


def test_a_page_shows_what_is_new_before_what_was_answered() -> None:
    """It lists 200 findings: a log with more that are answered hides no breach from its reader."""
    old = {"check": "A7", "rule": "missing-opening", "claimed": "c", "recomputed": "r", "chain": None}
    told = [old | {"where": f"leaf {place}", "severity": "notice"} for place in range(300)]
    new = old | {"rule": "replay", "where": "leaf 301", "severity": "breach"}
    numbers = dict.fromkeys(("leaves", "chains", "sales", "opened", "replayed", "draws"), 1)
    empty: dict[str, Any] = {"head": None, "not_replayable": {}, "notes": [], "pictures": []}
    page = report_page(numbers | empty | {"verdict": "refuted", "findings": [*told, new]})
    assert "A7 replay" in page
