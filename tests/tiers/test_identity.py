"""Identities are for ever: these values may never change, since they name and derive what has been sold."""

import itertools
from fractions import Fraction

import pytest

from tiers.budget import Ladder
from tiers.canonical import canonical_bytes, tagged_hash
from tiers.chain import answer_bytes, noise_of, plan, specs
from tiers.errors import InvalidParameterError
from tiers.identity import DrawSpec, Role, TierLaw, chain_identity, commitment, key_hash, opening_key, stream_key
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

SECRET = bytes(range(32))
CHAIN = chain_identity("data_1", "snap_1", "ab" * 32)
PLAN = plan(Ladder.parse(["2", "1", "0.5"]), ChangeSet(bins=2, step=10, total=10))
SPECS = specs(CHAIN, PLAN, epoch=1, grain=0, length=4)

LAWS = ["3c6b7871b5631b8a", "080a2d1a3c76c8a8", "537e3462f38016a8"]
# Keys and noise are those of stream layout 2 with tsg-digits/2: a draw's sampler and layout are part of its identity.
KEYS = ["0f3a3f3d60eb5f5460aa75a1151f2d66", "6d0f56a95cea0026a5c7507fef505c51", "f4421fb90ea93766f257c0d7323737c2"]
OPENING = "eb13eaeb125d3d0c19fc03158057bcac"
KEY_HASH = "1836ccc59b8db9f588dcdcfd3373d8d1"
COMMITMENT = "6b91a30b5612589ce46ab1710473b0f2"
NOISE = [(-5, 7, -1, 9), (0, 1, 0, 32), (-5, 66, -37, 0)]


def test_identities_are_frozen() -> None:
    assert CHAIN == "965c51b48830976566a19f048c125c62bcbb1577bfe35f2e34a904fb80f2b66f"
    assert [spec.law.identity[:16] for spec in SPECS] == LAWS
    assert [stream_key(SECRET, spec).hex()[:32] for spec in SPECS] == KEYS
    assert opening_key(SECRET, CHAIN, SPECS[0].law).hex()[:32] == OPENING
    assert key_hash(bytes(32))[:32] == KEY_HASH
    assert commitment(bytes(32), CHAIN, SPECS[0].law, answer_bytes([1, -2]))[:32] == COMMITMENT


def test_drawn_numbers_are_frozen() -> None:
    assert [noise_of(spec, stream_key(SECRET, spec)) for spec in SPECS] == NOISE


def variants() -> list[DrawSpec]:
    base, residual = SPECS[0], SPECS[1]
    other_law = TierLaw(TwoSidedGeometric(Fraction(3, 10)), base.law.change_set)
    wider = TierLaw(base.law.noise, ChangeSet(bins=3, step=10, total=10))
    changed = [
        DrawSpec("0" * 64, 1, base.role, base.law, (), 0, 4, base.sampler),
        DrawSpec(CHAIN, 2, base.role, base.law, (), 0, 4, base.sampler),
        DrawSpec(CHAIN, 1, base.role, other_law, (), 0, 4, base.sampler),
        DrawSpec(CHAIN, 1, base.role, wider, (), 0, 4, base.sampler),
        DrawSpec(CHAIN, 1, base.role, base.law, (), 1, 4, base.sampler),
        DrawSpec(CHAIN, 1, base.role, base.law, (), 0, 5, base.sampler),
        DrawSpec(CHAIN, 1, base.role, base.law, (), 0, 4, "another/1"),
        DrawSpec(CHAIN, 1, Role.RESIDUAL, base.law, (other_law,), 0, 4, base.sampler),
        DrawSpec(CHAIN, 1, Role.LATE_TOP, base.law, (residual.law,), 0, 4, base.sampler),
    ]
    return [*SPECS, *changed]


def test_draws_that_differ_in_anything_have_streams_of_their_own() -> None:
    keys = [stream_key(SECRET, spec) for spec in variants()]
    assert len(set(keys)) == len(keys)
    assert stream_key(bytes(32), SPECS[0]) != keys[0]
    openings = {opening_key(SECRET, CHAIN, spec.law) for spec in variants()}
    assert openings.isdisjoint(keys), "an opening never gives a draw's key"


def test_the_same_draw_is_the_same_however_often_it_is_made() -> None:
    for spec in SPECS:
        assert noise_of(spec, stream_key(SECRET, spec)) == noise_of(spec, stream_key(SECRET, spec))


def test_equal_rationals_are_one_law_and_a_law_reads_back() -> None:
    change = ChangeSet.scalar(4)
    assert TierLaw(TwoSidedGeometric(Fraction("0.25")), change) == TierLaw(TwoSidedGeometric(Fraction(1, 4)), change)
    for spec in SPECS:
        assert TierLaw.from_document(spec.law.document()) == spec.law


@pytest.mark.parametrize(
    "spoil",
    [
        {"family": "laplace"},
        {"delta": "0.0"},
        {"parameters": {"rate": "0.20"}},
        {"parameters": {"rate": "2/10"}},
        {"parameters": {"rate": "nan"}},
        {"parameters": {"rate": "-1"}},
        {"change_set": {"bins": "02", "step": "10", "total": "10"}},
        {"change_set": {"bins": "2", "step": "10", "total": "30"}},
        {"extra": "1"},
    ],
)
def test_a_law_document_that_is_not_canonical_is_refused(spoil: dict[str, object]) -> None:
    with pytest.raises(InvalidParameterError):
        TierLaw.from_document(dict(SPECS[0].law.document()) | spoil)


def test_tagged_hashes_never_collide_by_concatenation() -> None:
    parts = [(b"a", b"bc"), (b"ab", b"c"), (b"abc",), (b"", b"abc"), (b"abc", b"")]
    assert len({tagged_hash("t", *part) for part in parts}) == len(parts)
    assert tagged_hash("t", b"a") != tagged_hash("u", b"a")


@pytest.mark.parametrize("value", [1.0, float("nan"), 2**53, {1: "a"}, {"a": {1, 2}}, b"a", "\ud800", [0.5]])
def test_what_has_no_single_encoding_is_refused(value: object) -> None:
    with pytest.raises(InvalidParameterError):
        canonical_bytes(value)  # type: ignore[arg-type]


def test_a_commitment_binds_opening_chain_law_and_answer() -> None:
    other = SPECS[1].law
    choices = itertools.product([bytes(32), SECRET], [CHAIN, "0" * 64], [SPECS[0].law, other], [b'["1"]', b'["2"]'])
    made = [commitment(*choice) for choice in choices]
    assert len(set(made)) == len(made) == 16
