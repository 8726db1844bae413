"""Closing a round after a crash, and deriving it again where its reports are gone."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.errors import IntegrityError
from app.panels.acts import _folder
from app.panels.mechanism import plan_of
from app.panels.rounds import close_round, derive_again
from app.settings import Settings
from tests.app.panelling import close, deliver, opened, rows
from tests.app.test_panel_mechanisms import stored
from tests.conftest import open_fair
from tiers.budget import Ladder
from tiers.errors import InvalidParameterError


def test_what_a_crash_left_of_a_closing_is_written_anew(settings: Settings) -> None:
    opening = open_fair(settings)
    shop = next(opening)
    panel = opened(shop)
    deliver(shop, panel, reports=rows(panel, [0, 1, 2]))
    left = _folder(shop.market, panel["panel"]) / "round-1.part"
    left.mkdir(parents=True)
    (left / "0.bin").write_bytes(b"half")
    assert close(shop, panel).status_code == 201
    assert not left.exists()
    assert (left.with_name("round-1") / "0.bin").stat().st_size == 3 * 2
    opening.close()


def test_a_round_whose_reports_are_gone_is_not_derived_again_from_none(tmp_path: Path) -> None:
    plan = plan_of("subset", 5, Ladder.parse(["2", "1"]))
    raw, folder = stored(plan, [0, 1, 2, 3]), tmp_path / "round-1"
    record = close_round(plan, bytes(32), "p", 1, 1, [raw], folder, "now").record
    left: Any = SimpleNamespace(count=lambda _: 0, runs=lambda *_, **__: iter([]))
    with pytest.raises(IntegrityError, match="others or none"):
        derive_again(plan, bytes(32), left, record, folder)
    assert (folder / "0.bin").read_bytes() == raw, "what is there stays"


def test_a_round_is_not_derived_again_from_as_many_other_reports(tmp_path: Path) -> None:
    plan = plan_of("subset", 5, Ladder.parse(["2", "1"]))
    raw, folder = stored(plan, [0, 1, 2, 3]), tmp_path / "round-1"
    record = close_round(plan, bytes(32), "p", 1, 1, [raw], folder, "now").record
    other: Any = SimpleNamespace(count=lambda _: 4, runs=lambda *_, **__: iter([raw[2:] + raw[:2]]))
    assert raw[2:] + raw[:2] != raw
    with pytest.raises(IntegrityError, match="got others"):
        derive_again(plan, bytes(32), other, record, folder)
    assert not folder.exists(), "what is not as signed is not kept"
    same: Any = SimpleNamespace(count=lambda _: 4, runs=lambda *_, **__: iter([raw]))
    derive_again(plan, bytes(32), same, record, folder)
    assert (folder / "0.bin").read_bytes() == raw


@pytest.mark.parametrize("size", [5, 65, 70, 130])
def test_a_stored_report_with_more_bits_than_there_are_thresholds_is_not_derived(size: int) -> None:
    plan = plan_of("flips", size, Ladder.parse(["2", "1"]))
    keys, raw = plan.keys(bytes(32), "p/1"), bytearray(stored(plan, [0, 1]))
    for bit in range(size - 1, 8 * plan.width):
        raw[bit // 8] |= 1 << bit % 8
        with pytest.raises(InvalidParameterError, match=f"{size - 1} bits"):
            plan.derive(keys, 0, bytes(raw))
        raw[bit // 8] &= ~(1 << bit % 8) & 255
    assert len(plan.derive(keys, 0, bytes(raw))) == 2
