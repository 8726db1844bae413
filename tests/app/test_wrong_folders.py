"""Commands about a market, in a folder that holds none: refused, and nothing is made there."""

import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import main
from app.settings import Settings
from tests.conftest import Fair

COMMANDS = [
    ["rotate-key", "signing"],
    ["audit", "run"],
    ["audit", "report"],
    ["panel", "derive", "panel_1", "1"],
    ["panel", "derive", "panel_1", "1", "--engine", "spark"],
]


@pytest.mark.parametrize("exists", [True, False], ids=["empty", "absent"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_market_is_made_where_none_is(tmp_path: Path, command: list[str], exists: bool) -> None:
    folder = tmp_path / "here"
    if exists:
        folder.mkdir()
    done = CliRunner().invoke(main, [*command, "--state", str(folder)])
    assert (done.exit_code, "--state: expected the folder of a market, got" in done.output) == (1, True), done.output
    assert [path.name for path in tmp_path.rglob("*")] == (["here"] if exists else [])


def test_a_round_is_not_derived_on_a_cluster_that_nothing_here_reaches(
    fair: Fair, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("app.panels.cluster.find_spec", lambda name: None if name == "pyspark" else found(name))
    done = CliRunner().invoke(main, ["panel", "derive", "p", "1", "--engine", "spark", "--state", str(settings.state)])
    assert done.exit_code == 1
    assert "expected pyspark" in done.output
