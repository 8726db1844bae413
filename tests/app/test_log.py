"""The Merkle tree against its definition, the signed heads, the leaves, the proofs that the API gives."""

import hashlib

import pytest

from app.log.heads import TreeHead, public_hex, public_key, sign
from app.log.leaves import EpochLeaf, decode, encode
from app.log.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from tests.conftest import Fair

# The published test leaves of RFC 6962's reference implementation, and roots over the first n of them.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = {
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
SIZES = range(1, 34)


def definition(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + definition(leaves[:split]) + definition(leaves[split:])).digest()


def hashes(size: int) -> list[bytes]:
    return [leaf_hash(bytes([number])) for number in range(size)]


def test_the_root_is_the_definitions_and_the_published_one() -> None:
    assert root_of([]) == EMPTY_ROOT == definition([])
    for size, root in ROOTS.items():
        assert root_of([leaf_hash(leaf) for leaf in LEAVES[:size]]).hex() == root
    for size in SIZES:
        assert root_of(hashes(size)) == definition([bytes([number]) for number in range(size)])


def test_a_frontier_survives_its_encoding_and_refuses_another_size() -> None:
    frontier = Frontier()
    for digest in hashes(13):
        frontier = frontier.append(digest)
    assert Frontier.decode(13, frontier.encode()) == frontier
    with pytest.raises(ValueError, match="peaks"):
        Frontier.decode(12, frontier.encode())


def test_inclusion_proofs_hold_for_their_leaf_place_and_size_alone() -> None:
    for size in SIZES:
        root = root_of(hashes(size))
        for index in range(size):
            proof = inclusion_proof(hashes(size), index)
            leaf = hashes(size)[index]
            assert verify_inclusion(leaf, index, size, proof, root)
            assert not verify_inclusion(leaf_hash(b"other"), index, size, proof, root)
            assert not verify_inclusion(leaf, index, size, [*proof, leaf], root)
            assert not verify_inclusion(leaf, size, size, proof, root)
            if size > 1:
                assert not verify_inclusion(leaf, (index + 1) % size, size, proof, root)
                assert not verify_inclusion(leaf, index, size, proof[:-1], root)


def test_consistency_proofs_hold_for_true_prefixes_alone() -> None:
    for size in SIZES:
        root = root_of(hashes(size))
        for earlier in range(1, size + 1):
            before = root_of(hashes(earlier))
            proof = consistency_proof(hashes(size), earlier)
            assert verify_consistency(earlier, before, size, root, proof)
            assert not verify_consistency(earlier, leaf_hash(b"fork"), size, root, proof)
            if earlier < size:
                assert not verify_consistency(earlier, before, size, leaf_hash(b"fork"), proof)
                assert not verify_consistency(earlier, before, size, root, proof[:-1])


def test_a_head_is_signed_over_all_its_fields() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.from_private_bytes(bytes(32))
    head = sign(3, bytes(32), "2026-01-01T00:00:00Z", 1, private)
    public = public_key(public_hex(private))
    assert head.signed_by(public)
    for change in ({"size": 4}, {"root": "1" * 64}, {"at": "2027"}, {"key": 2}, {"signature": "0" * 128}):
        fields = {name: getattr(head, name) for name in TreeHead.__struct_fields__} | change
        assert not TreeHead(**fields).signed_by(public)


def test_a_leaf_has_one_encoding() -> None:
    leaf = EpochLeaf(index=0, at="2026-01-01T00:00:00Z", purpose="noise", epoch=1, public_key=None)
    raw = encode(leaf)
    assert decode(raw) == leaf
    for other in (raw.replace(b":", b": "), raw.replace(b'"epoch":1', b'"epoch":1,"epoch":1'), raw[:-1]):
        with pytest.raises(ValueError, match=r".*"):
            decode(other)


def test_the_api_proves_inclusion_and_consistency_against_its_own_heads(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()

    def get(path: str) -> dict:  # type: ignore[type-arg]
        response = fair.client.get(path, headers=buyer.headers)
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]

    before = get("/v1/log/head")
    sold = fair.buy(buyer, product, "1")
    head = get("/v1/log/head")
    receipt = sold["receipt"]
    proof = get(f"/v1/log/proofs/inclusion?index={receipt['leaf_index']}&size={head['size']}")["proof"]
    steps = [bytes.fromhex(step) for step in proof]
    leaf, root = bytes.fromhex(receipt["leaf_hash"]), bytes.fromhex(head["root"])
    assert verify_inclusion(leaf, receipt["leaf_index"], head["size"], steps, root)
    proof = get(f"/v1/log/proofs/consistency?earlier={before['size']}&size={head['size']}")["proof"]
    steps = [bytes.fromhex(step) for step in proof]
    assert verify_consistency(before["size"], bytes.fromhex(before["root"]), head["size"], root, steps)
    for bad in (
        "/v1/log/proofs/inclusion?index=999&size=2",
        "/v1/log/proofs/inclusion?index=0&size=999",
        "/v1/log/proofs/consistency?earlier=0&size=2",
    ):
        assert fair.client.get(bad, headers=buyer.headers).status_code == 400
    auditor = fair.person("auditor")
    for bad in ("start=-1", "count=100000", "count=x", f"start={10**40}"):
        assert fair.client.get(f"/v1/log/leaves?{bad}", headers=auditor.headers).status_code == 400
    assert fair.client.get("/v1/log/leaves", headers=buyer.headers).status_code == 403, "charges are not a buyer's"
    assert len(fair.client.get("/v1/log/leaves", headers=auditor.headers).json()) == head["size"]
