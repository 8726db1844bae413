"""A log is audited in one pass: memory does not grow with its text, and only by some bytes with its sales."""

import json
import tracemalloc
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

import pytest

from app.audit.coalition import losses_of
from app.audit.export import HeadRecord, KeyRecord, OpeningRecord, bounded_lines, encode_line
from app.audit.opened import PICTURES_LIMIT
from app.audit.statistics import OpenedEdge, holdings_of
from app.audit.stream import FOUND_LIMIT, LogAudit
from app.audit.verify import FINDINGS_LIMIT, verify_export
from app.log.heads import TreeHead, public_hex
from app.log.leaves import ThawLeaf
from benchmarks._audit_export import SIGNER, write
from tests.audit.exports import Export, found
from tiers.audit.findings import Finding
from tiers.audit.once import Once
from tiers.audit.records import DrawRecord, SaleRecord
from tiers.identity import Role


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("streams")
    paths = folder / "short.ndjson", folder / "long.ndjson"
    for path, sales in zip(paths, (20, 220), strict=True):
        write(path, 30, sales)
    return paths


def read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as lines:
        yield from lines


def peak(path: Path) -> tuple[int, int]:
    tracemalloc.start()
    report = verify_export(read(path), public_hex(SIGNER))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.findings == ()
    return most, report.sales


def test_a_log_of_many_sales_needs_little_more_memory_than_one_of_few(exports: tuple[Path, Path]) -> None:
    short, long = exports
    peak(short)  # what is computed once for all
    (before, few), (after, many) = peak(short), peak(long)
    assert (few, many) == (600, 6600)
    text = long.stat().st_size - short.stat().st_size
    assert after - before < 110 * (many - few) < text / 4


def test_pictures_and_findings_are_bounded(exports: tuple[Path, Path]) -> None:
    short, _ = exports
    report = verify_export(read(short), public_hex(SIGNER))
    assert (report.chains, len(report.pictures)) == (30, PICTURES_LIMIT)
    lines = [line for line in read(short) if b'"record":"leaf"' not in line]
    wrong = verify_export([lines[0], *(b"{}\n" for _ in range(FINDINGS_LIMIT + 5))], public_hex(SIGNER))
    assert len(wrong.findings) == FINDINGS_LIMIT
    assert "more findings" in " ".join(wrong.notes)


class Watch:
    """A statistical check that counts, and alarms at the third edge."""

    def __init__(self) -> None:
        self.seen: list[OpenedEdge] = []
        self.records: list[int] = []

    def read(self, record: DrawRecord | SaleRecord) -> None:
        self.records.append(record.leaf)

    def take(self, edge: OpenedEdge) -> None:
        self.seen.append(edge)

    def findings(self) -> list[Finding]:
        if len(self.seen) < 3:
            return []
        return [Finding("A5", "alarm", f"leaf {self.seen[2].leaf}", "its law", "another", chain=self.seen[2].chain)]


def test_statistical_checks_see_every_opened_edge_and_their_alarms_refute(export: Export) -> None:
    watch = Watch()
    report = export.verify(edges=[watch])
    assert [finding.check for finding in report.findings] == ["A5"]
    assert len(watch.seen) == report.replayed
    told = [record["leaf"]["index"] for record in export.leaves if record["leaf"]["kind"] in ("draw", "sale")]
    assert watch.records == told
    for edge in watch.seen:
        assert edge.role is Role.RESIDUAL
        assert len(edge.answers) == len(edge.parents) == 1
        assert len(edge.answer) == len(edge.answers[0])
    held = {(opening["chain"], tuple(map(int, opening["answer"]))) for opening in export.openings}
    assert {(edge.chain, edge.answer) for edge in watch.seen} <= held


def test_holdings_are_the_tiers_that_accounts_bought(export: Export) -> None:
    lines = [json.dumps(json.loads(line), sort_keys=True, separators=(",", ":")).encode() for line in export.lines()]
    buyers = {leaf["pseudonym"] for leaf in export.kind("sale")}
    assert len(buyers) == 3
    every, more = holdings_of(lambda: lines, buyers)
    assert more is None
    assert {(each.buyer, each.chain, each.law.identity) for each in every} == {
        (leaf["pseudonym"], leaf["chain"], leaf["law"]) for leaf in export.kind("sale")
    }
    one = next(iter(buyers))
    assert set(holdings_of(lambda: lines, [one])[0]) == {each for each in every if each.buyer == one}
    assert holdings_of(lambda: lines, []) == ((), None)


def test_what_buyers_hold_is_read_off_an_export_of_any_length(exports: tuple[Path, Path]) -> None:
    """With a further tier and without: memory grows by what the buyers hold, never by what others do."""
    peaks = []
    for path in exports:
        sale = next(json.loads(line)["leaf"] for line in read(path) if b'"kind":"sale"' in line)
        also = f"{sale['chain']}:{sale['law']}"
        losses_of(lambda path=path: read(path), [sale["pseudonym"]], also)  # what is computed once for all
        tracemalloc.start()
        (loss,) = losses_of(lambda path=path: read(path), [sale["pseudonym"]], also)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (loss.added, loss.chains) == ("0", 1)
    assert peaks[1] < 1.2 * peaks[0] < exports[0].stat().st_size / 4


def test_repeats_are_found_among_many_and_only_they() -> None:
    once = Once()
    for at in range(5000):
        once.add(f"order {at}", at)
    assert once.repeated() == []
    once.add("order 77", 9000)
    once.add("order 77", 9001)
    once.add("order 4999", 9002)
    assert once.repeated() == [(77, 9000), (77, 9001), (4999, 9002)]
    assert (once.first("order 12"), once.first("order 5000"), once.place(5001)) == (12, None, 9001)


def test_an_opening_or_a_key_of_a_chain_that_nobody_plans_is_a_finding(export: Export) -> None:
    stray = OpeningRecord(chain="a" * 64, law="b" * 64, opening="c" * 64, answer=["1"])
    key = KeyRecord(chain="a" * 64, law="b" * 64, key="c" * 64)
    for record in (stray, key):
        assert found(verify_export([*export.lines(), encode_line(record)], export.public)) == {"A7 evidence-of-nothing"}


def test_evidence_of_nothing_is_not_kept(export: Export) -> None:
    """However much of it a file holds."""
    chain = export.openings[-1]["chain"]
    stray = [
        OpeningRecord(chain=chain, law=f"{law:064x}", opening="c" * 64, answer=["123456"] * 500) for law in range(999)
    ]
    lines = [*export.lines(), *map(encode_line, stray)]
    tracemalloc.start()
    report = verify_export(lines, export.public)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found(report) == {"A7 evidence-of-nothing"}
    assert len(report.findings) == 999
    assert most < 999 * 500 * 8


class Endless(RawIOBase):
    """A file of one line without an end, up to a number of bytes; it keeps none of it."""

    def __init__(self, size: int) -> None:
        self.left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self.left)
        buffer[:count] = b" " * count
        self.left -= count
        return count


def test_a_line_that_never_ends_is_not_held_in_memory() -> None:
    tracemalloc.start()
    lengths = [len(line) for line in bounded_lines(BufferedReader(Endless(50_000_000)), 1000)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lengths == [1001]
    assert most < 100_000


def test_a_log_that_is_wrong_in_every_leaf_is_refuted_in_bounded_memory() -> None:
    audit = LogAudit()
    for index in range(FOUND_LIMIT + 25):
        audit.leaf(ThawLeaf(index=index, at="2026-01-01T00:00:00Z", chain="a" * 64, reason="none"))
    assert len(audit.finish()) == FOUND_LIMIT
    assert audit.dropped == 26, "each thaws what is not frozen; the first is no announcement either"


def test_a_head_that_no_key_s_leaf_asks_for_is_a_finding_and_is_not_kept(export: Export) -> None:
    """A file may repeat it without end."""
    lines = export.lines()
    head = encode_line(HeadRecord(head=TreeHead(**export.header["head"])))
    assert found(
        verify_export([*lines[: len(export.leaves) + 1], head, *lines[len(export.leaves) + 1 :]], export.public)
    ) == {"A4 head-in-place"}
