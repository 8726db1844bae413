"""The page on panels runs: its examples and its pictures."""

import doctest
import re
from pathlib import Path

import pytest

from app.panel_plots import PANEL_PICTURES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "panels.md"


def test_every_example_of_the_page_runs() -> None:
    outcome = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0
    assert outcome.attempted > 15


@pytest.mark.parametrize("name", PANEL_PICTURES)
def test_every_picture_is_made_by_the_code(name: str, tmp_path: Path) -> None:
    assert set(re.findall(r"\]\(img/([^)]+)\)", PAGE.read_text())) == set(PANEL_PICTURES)
    PANEL_PICTURES[name](tmp_path / name)
    assert (tmp_path / name).read_bytes()[:5] == b"<?xml"
    assert (PAGE.parent / "img" / name).is_file()
