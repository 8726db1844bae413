"""A1 of the question: what protects a unit follows from the question and the schema in the log, whatever the market says."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

import app.catalog.products as catalogue
from app.audit.gate import Gate
from app.audit.questions import read_question, read_schema, restated
from app.audit.verify import verify_export
from app.errors import InvalidQueryError
from app.log.leaves import plain_text
from app.queries.canonical import CanonicalQuery, canonicalise, fingerprint
from app.queries.sensitivity import Derivation, derive
from tests.audit.exports import Export, found
from tests.conftest import TOTAL, Fair
from tests.queries.support import queries, schema_of
from tiers.identity import chain_identity
from tiers.sensitivity import ChangeSet


def test_a_market_that_derives_a_smaller_sensitivity_is_refuted(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, honest = fair.dataset(), catalogue.derive
    small = Derivation(ChangeSet.scalar(1), ("Believe me: Δ₁ = 1.",))
    monkeypatch.setattr(catalogue, "derive", lambda _: small)
    product, buyer = fair.product(dataset, TOTAL), fair.person()
    refused = fair.order(buyer, fair.quote(buyer, product, "0.1"))
    assert refused.json()["rules"] == ["A1 change-set", "A1 derivation"], "the gate sees it first"
    monkeypatch.setattr(Gate, "check", lambda *_: ())
    lines, public = fair.export()
    assert found(verify_export(lines, public)) == {"A1 change-set", "A1 derivation"}
    worded = Derivation(ChangeSet.scalar(1), honest(canonicalise(catalogue_query(lines), schema(lines))).sentences)
    monkeypatch.setattr(catalogue, "derive", lambda _: worded)
    fair.product(fair.dataset(name="again", table="person,city,amount,score,day\np1,Cork,1,1,2026-01-01\n"), TOTAL)
    report = verify_export(*fair.export())
    assert [finding.rule for finding in report.findings] == ["derivation", "change-set", "change-set"]


def leaf_of(lines: list[bytes], kind: str) -> dict[str, Any]:
    return next(leaf for line in lines if (leaf := json.loads(line).get("leaf", {})).get("kind") == kind)


def schema(lines: list[bytes]) -> Any:
    return read_schema(leaf_of(lines, "dataset")["schema"])


def catalogue_query(lines: list[bytes]) -> Any:
    from app.queries.model import Query

    return msgspec.convert(TOTAL, Query)


@given(queries())
@settings(max_examples=150, deadline=None)
def test_every_canonical_question_survives_the_log_and_its_own_schema(query: Any) -> None:
    declared = schema_of()
    if query.ordering == ():
        return  # no product is published with an ordering of no columns
    try:
        question = canonicalise(query, declared)
    except InvalidQueryError:
        return
    assert read_question(plain_text(question)) == question
    assert read_schema(plain_text(declared)) == declared
    assert restated(question, declared) == question


@given(queries(unit=None))
@settings(max_examples=50, deadline=None)
def test_questions_where_each_row_is_a_unit_survive_too(query: Any) -> None:
    declared = schema_of(unit=None)
    try:
        question = canonicalise(query, declared)
    except InvalidQueryError:
        return
    assert restated(question, declared) == question


def test_extreme_literals_and_clamps_survive() -> None:
    from app.queries.model import And, Comparison, Count, Not, Or, Query, Sum, Where

    declared = schema_of()
    reals = ["0.000000000000000000000000000001", "9" * 30, "-0", "0.1", "123456789.987654321", "1" + "0" * 22]
    leaves = tuple(Comparison(column="score", operator="<", value=text) for text in reals)
    deep: Where = Not(operand=Or(operands=leaves))
    for _ in range(6):
        deep = Not(operand=And(operands=(deep, leaves[0])))
    for where in (Or(operands=leaves), deep):
        question = canonicalise(Query(measure=Count(of="units"), where=where), declared)
        assert restated(read_question(plain_text(question)), declared) == question
    sums = Sum(column="score", lower="-0." + "0" * 17 + "1", upper="0." + "3" * 18, grain_exponent=-62)
    question = canonicalise(Query(measure=sums), declared)
    assert abs(question.measure.upper) > 2**53  # type: ignore[union-attr]
    assert restated(read_question(plain_text(question)), declared) == question


def asked_as(export: Export, change: Callable[[dict[str, Any]], None], plan: int = 0) -> Export:
    """The first plan's question changed, and all that follows from it recomputed as an able liar would."""
    leaf = export.kind("product-plan")[plan]
    document = json.loads(leaf["question"])
    change(document)
    question = msgspec.convert(document, CanonicalQuery)
    old = leaf["chain"]
    leaf["question"] = plain_text(question)
    leaf["fingerprint"] = fingerprint(question.fingerprint_document())
    leaf["derivation"] = list(derive(question).sentences)
    new = chain_identity(leaf["lineage"], leaf["snapshot"], leaf["fingerprint"])
    for record in (*(record["leaf"] for record in export.leaves), *export.openings, *export.keys):
        if record.get("chain") == old:
            record["chain"] = new
    return export.signed_anew()


def another_salt(question: dict[str, Any]) -> None:
    question["salt"] = "0" * 64


def no_salt(question: dict[str, Any]) -> None:
    question["salt"] = ""


def no_ordering(question: dict[str, Any]) -> None:
    question["ordering"] = []


def undeclared_ordering(question: dict[str, Any]) -> None:
    question["ordering"] = [{"id": "nowhere", "type": "text"}]


def another_unit(question: dict[str, Any]) -> None:
    question["unit"] = {"id": "city", "type": "text"}


def rows_as_units(question: dict[str, Any]) -> None:
    question["unit"] = None


def beyond_the_rows_ceiling(question: dict[str, Any]) -> None:
    question["rows"] = 11


def foreign_column(question: dict[str, Any]) -> None:
    question["group"] = {"id": "country", "type": "text"}


def another_type(question: dict[str, Any]) -> None:
    question["group"] = {"id": "city", "type": "integer"}


def unsorted_keys(question: dict[str, Any]) -> None:
    question["keys"] = question["keys"][::-1]


def a_key_twice(question: dict[str, Any]) -> None:
    question["keys"] = [*question["keys"], question["keys"][-1]]


def groups_beyond_keys(question: dict[str, Any]) -> None:
    question["groups"] = 4


FOREIGN = [
    another_salt,
    no_salt,
    no_ordering,
    undeclared_ordering,
    another_unit,
    rows_as_units,
    beyond_the_rows_ceiling,
    foreign_column,
    another_type,
    unsorted_keys,
    a_key_twice,
    groups_beyond_keys,
]


@pytest.mark.parametrize("change", FOREIGN, ids=lambda change: change.__name__)
def test_a_question_that_its_schema_does_not_allow_is_refuted(
    export: Export, change: Callable[[dict[str, Any]], None]
) -> None:
    assert "A1 question-of-schema" in found(asked_as(export, change).verify())


def uncanonical_literal(question: dict[str, Any]) -> None:
    question["where"] = {
        "type": "atom",
        "column": {"id": "amount", "type": "integer"},
        "operator": "<",
        "values": ["7"],
    }


def foreign_sum(question: dict[str, Any]) -> None:
    question["measure"]["column"] = {"id": "city", "type": "text"}


def fine_grain(question: dict[str, Any]) -> None:
    question["measure"]["grain_exponent"] = 63


@pytest.mark.parametrize("change", [uncanonical_literal, foreign_sum, fine_grain], ids=lambda change: change.__name__)
def test_so_is_a_sum_or_a_condition(export: Export, change: Callable[[dict[str, Any]], None]) -> None:
    assert "A1 question-of-schema" in found(asked_as(export, change, plan=2).verify())


def test_the_same_question_asked_anew_is_not_refuted_by_its_schema(export: Export) -> None:
    assert asked_as(export, lambda question: None).verify().findings == ()


def test_draws_have_the_length_and_the_grain_of_their_question(export: Export) -> None:
    """All draws of one chain together, so that they still have one shape."""
    chain = export.kind("draw")[0]["chain"]
    for leaf in export.kind("draw"):
        leaf["grain"] = 5 if leaf["chain"] == chain else leaf["grain"]
    rules = found(export.signed_anew().verify())
    assert "A1 draw-shape" in rules
    assert "A2 one-shape" not in rules


@pytest.mark.parametrize("text", ["", "{}", "[]", "[" * 5000, '{"measure":' * 3000, "null", '"\\ud800"'])
@pytest.mark.parametrize(("kind", "field"), [("product-plan", "question"), ("dataset", "schema")])
def test_a_question_or_schema_without_a_reading_is_a_finding(export: Export, kind: str, field: str, text: str) -> None:
    export.kind(kind)[0][field] = text
    assert f"A1 {'question' if field == 'question' else 'schema'}" in found(export.signed_anew().verify())


def test_blanks_in_a_question_or_a_schema_are_another_text(export: Export) -> None:
    export.kind("product-plan")[0]["question"] += " "
    export.kind("dataset")[0]["schema"] += " "
    assert {"A1 question", "A1 schema"} <= found(export.signed_anew().verify())


def test_a_deep_condition_is_refused_before_it_is_walked(export: Export) -> None:
    atom = {"type": "atom", "column": {"id": "city", "type": "text"}, "operator": "in", "values": ["Cork"]}
    for _ in range(200):
        atom = {"type": "junction", "operator": "and", "operands": [atom, atom]} if _ < 3 else atom | {}
        atom = {"type": "junction", "operator": "or", "operands": [atom]}
    leaf = export.kind("product-plan")[0]
    document = json.loads(leaf["question"]) | {"where": atom}
    leaf["question"] = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert "A1 question" in found(export.signed_anew().verify())
