"""The page on tiers runs: its examples, its commands, its pictures, its numbers."""

import doctest
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tiers.md"
COMMANDS = re.findall(r"^\$ tiermarket (.+)$", PAGE.read_text(), re.MULTILINE)


def test_every_example_of_the_page_runs() -> None:
    outcome = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0
    assert outcome.attempted > 25


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 0, result.output


def test_every_picture_of_the_page_exists() -> None:
    pictures = re.findall(r"\]\((img/[^)]+)\)", PAGE.read_text())
    assert len(pictures) == 4
    assert all((PAGE.parent / picture).is_file() for picture in pictures)
