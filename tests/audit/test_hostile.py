"""A hostile export yields findings or a refusal: it never crashes the auditor, and never makes it work without bound."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from app.audit.verify import LINE_LIMIT, AuditReport, verify_export
from tests.audit.exports import Export, found
from tiers import real
from tiers.errors import AuditError
from tiers.noise import tsg

NUMBERS = [
    "1e99999999",
    "1e9999999999",
    "9" * 100_000,
    "1/" + "9" * 100_000,
    "0." + "0" * 30 + "1",
    "0." + "0" * 400 + "1",
    "1/1" + "0" * 400,
    "1/1" + "0" * 40,
    "1/0",
    "0",
    "-1",
    "51",
    "0.0000001",
    "1e-5",
    "２",
    " 2",
    "2\n",
    "2.0",
    "007",
    "nan",
    "inf",
    "",
]


def deep(levels: int = 3000) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"a": made}
    return made


@contextmanager
def bounded_work() -> Iterator[list[int]]:
    """Count the error bars computed and the ball precision reached: what hostile numbers could drive up."""
    counted = [0, 0]
    half_width, floor_scaled = tsg.TwoSidedGeometric.half_width, real.floor_scaled

    def counting(self: Any, confidence: Any) -> int:
        counted[0] += 1
        return int(half_width(self, confidence))

    def scaled(value: Any, bits: int) -> int:
        counted[1] = max(counted[1], bits)
        return int(floor_scaled(value, bits))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tsg.TwoSidedGeometric, "half_width", counting)
        patch.setattr(tsg, "floor_scaled", scaled)
        yield counted


def verified(export: Export) -> AuditReport:
    with bounded_work() as counted:
        report = export.signed_anew().verify()
    assert counted[0] <= sum(len(plan.get("tiers", ())) for plan in export.kind("product-plan"))
    assert counted[1] <= 4096
    return report


@pytest.mark.parametrize("text", NUMBERS, ids=lambda text: f"{text[:12]!r}-{len(text)}")
def test_a_hostile_number_is_a_finding_wherever_it_stands(export: Export, text: str) -> None:
    tier = export.kind("product-plan")[0]["tiers"][0]
    places: list[tuple[dict[str, Any], str]] = [
        (tier, "epsilon"),
        (tier, "half_width"),
        (tier["law"]["parameters"], "rate"),
        (tier["law"], "delta"),
        (tier["law"]["change_set"], "total"),
        (export.kind("draw")[1]["law"]["parameters"], "rate"),
    ]
    for holder, name in places:
        honest = holder[name]
        holder[name] = text
        if text != honest:
            assert verified(export).verdict == "refuted", name
        holder[name] = honest
    assert verified(export).verdict == "verified"


@pytest.mark.parametrize("rate", ["0." + "0" * 29 + "1", "0." + "0" * 25 + "1", "10000", "9999"])
def test_an_epsilon_beyond_what_is_ever_sold_is_a_finding_before_any_work_on_it(export: Export, rate: str) -> None:
    for leaf in (export.kind("product-plan")[0]["tiers"][0], export.kind("draw")[0]):
        leaf["law"]["parameters"]["rate"] = rate
    assert "A1 epsilon-range" in {f"{f.check} {f.rule}" for f in verified(export).findings}


@pytest.mark.parametrize("answer", ["007", "-0", "+1", "1.0", "9" * 61, "", "1e5", "１"])
def test_an_answer_in_another_form_is_a_finding(export: Export, answer: str) -> None:
    export.openings[0]["answer"][0] = answer
    assert "A4 unreadable-line" in found(export.verify())


def test_an_answer_beyond_the_reach_of_keyed_noise_is_not_replayed(export: Export) -> None:
    from tiers.chain import answer_bytes
    from tiers.identity import TierLaw, commitment

    draw = [leaf for leaf in export.kind("draw") if leaf["role"] == "residual"][1]
    law = TierLaw.from_document(draw["law"])
    opening = next(o for o in export.openings if (o["chain"], o["law"]) == (draw["chain"], law.identity))
    opening["answer"][0] = "9" * 60
    answer = answer_bytes([int(value) for value in opening["answer"]])
    draw["commitment"] = commitment(bytes.fromhex(opening["opening"]), draw["chain"], law, answer)
    assert "A7 reach" in found(export.signed_anew().verify())


@pytest.mark.parametrize("levels", [100, 900, 3000, 100_000])
def test_nesting_is_a_finding(export: Export, levels: int) -> None:
    lines = export.lines()
    place = 1 + next(i for i, r in enumerate(export.leaves) if r["leaf"]["kind"] == "product-plan")
    lines[place] = lines[place].replace(
        b'"family"', b'"x": ' + b'{"a":' * levels + b"1" + b"}" * levels + b', "family"', 1
    )
    report = verify_export(lines, export.public)
    assert {finding.rule for finding in report.findings} & {"unreadable-line", "unreadable-leaf", "leaf-hash"}


def test_a_line_beyond_the_limit_is_not_parsed(export: Export) -> None:
    report = verify_export([*export.lines(), b" " * (LINE_LIMIT + 1)], export.public)
    assert {finding.rule for finding in report.findings} == {"unreadable-line"}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{}",
        b"null",
        b"\xff\xfe",
        b'{"record":"leaf","index":0,"hash":"' + b"0" * 64 + b'","leaf":{"a":"\\ud800"}}',
    ],
)
def test_a_line_that_is_no_record_is_a_finding(line: bytes) -> None:
    assert verify_export([line], "0" * 64).verdict == "refuted"


def test_a_family_or_a_delta_that_a_pure_ledger_does_not_sell_is_a_finding(export: Export) -> None:
    tier = export.kind("product-plan")[0]["tiers"][0]
    unreadable = "A4 unreadable-leaf"
    for law, rule in (
        ({"family": "skellam", "parameters": {"rate": "2"}, "delta": "0.1"}, "A1 chargeable"),
        ({"family": "skellam", "parameters": {"rate": "1" + "0" * 30}, "delta": "0.1"}, unreadable),
        ({"family": "skellam", "parameters": {"rate": "2"}, "delta": "0." + "0" * 40 + "1"}, unreadable),
        ({"family": "discrete-gaussian", "parameters": {"sigma": "0.02"}, "delta": "0.1"}, unreadable),
        (
            {"family": "staircase", "parameters": {"rate": "1", "period": "4096", "inner": "1"}, "delta": "0"},
            unreadable,
        ),
        ({"family": "msdlap", "parameters": {"rate": "0.000000001", "scales": "9"}, "delta": "0"}, "A1 rank-of-chain"),
        ({"family": "msdlap", "parameters": {"rate": "1", "scales": "99"}, "delta": "0"}, unreadable),
        ({"family": "tsg", "parameters": {"rate": "1"}, "delta": "0.1"}, "A1 pure"),
        ({"family": ["tsg"], "parameters": {}, "delta": "0"}, unreadable),
    ):
        tier["law"] = law | {"change_set": tier["law"]["change_set"]}
        assert rule in {f"{f.check} {f.rule}" for f in verified(export).findings}, law


HOSTILE = st.one_of(
    st.sampled_from([*(text for text in NUMBERS if len(text) < 2000), None, True, [], {}, -1, 0, 2**53, 2**64, 1.5]),
    st.text(max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(st.integers(), max_size=3),
    st.just(deep(200)),
)


def paths(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(item, (*here, key))


@given(data=st.data(), signed=st.booleans())
@settings(
    max_examples=120,
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_any_mutation_of_an_honest_export_gives_a_report_or_a_refusal(
    whole: Export, data: st.DataObject, signed: bool
) -> None:
    export = copy.deepcopy(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        records = data.draw(st.sampled_from([export.leaves, export.openings, export.keys, [export.header]]))
        record = data.draw(st.sampled_from(records))
        holder = record.get("leaf", record)
        path = data.draw(st.sampled_from([path for path in paths(holder) if path]))
        for step in path[:-1]:
            holder = holder[step]
        if data.draw(st.booleans()):
            holder[path[-1]] = copy.deepcopy(data.draw(HOSTILE))
        elif isinstance(holder, dict):
            del holder[path[-1]]
    if signed:
        try:
            export.signed_anew()
        except (ValueError, TypeError, AttributeError, KeyError):
            return  # beyond what canonical JSON can hold: such a log has no hash
    lines = export.lines()
    place = data.draw(st.integers(0, len(lines) - 1))
    if data.draw(st.integers(0, 3)) == 0:
        lines[place] = lines[place][: data.draw(st.integers(0, len(lines[place])))]
    try:
        with bounded_work() as counted:
            report = verify_export(lines, export.public)
    except AuditError:
        return
    assert report.verdict in ("verified", "refuted")
    assert counted[1] <= 4096
    assert not any(finding.rule == "unreadable-log" for finding in report.findings), report.findings


def test_hostile_text_in_every_text_field_of_every_leaf(export: Export) -> None:
    """One at a time, signed by the market: a report each time."""
    for text in ("1e99999999", "x" * 5000):
        for place, record in enumerate(export.leaves):
            kind = record["leaf"]["kind"]
            if kind == "draw" and place % 5:
                continue
            for name, value in list(record["leaf"].items()):
                if not isinstance(value, str) or name == "kind":
                    continue
                record["leaf"][name] = text
                lines = export.lines()
                record["leaf"][name] = value
                assert json.loads(lines[place + 1])["leaf"][name] == text
                assert verify_export(lines[: place + 2], export.public).verdict == "refuted"


def test_leaves_that_claim_one_index_are_still_told_apart(export: Export) -> None:
    first, fourth = export.kind("product-plan")[0], export.kind("product-plan")[3]
    assert len(first["tiers"]) != len(fourth["tiers"])
    first["index"] = fourth["index"]
    rules = {finding.rule for finding in verify_export(export.lines(), export.public).findings}
    assert "leaf-index" in rules
    assert "unreadable-log" not in rules
