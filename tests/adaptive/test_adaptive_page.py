"""The page on adaptive queries runs, its pictures are made by the code, and its command answers and refuses."""

import doctest
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.adaptive import plots
from app.adaptive.commands import _TAKEN
from app.adaptive.data import DATA, load, uniforms
from app.adaptive.experiments import Trial, savings, sequences
from app.adaptive.panel import PanelRow, panel_rows
from app.adaptive.plots import ADAPTIVE_PICTURES
from app.cli import main
from app.errors import AppError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adaptive.md"


def test_every_example_of_the_page_runs() -> None:
    outcome = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0
    assert outcome.attempted > 20


def test_every_picture_of_the_page_is_one_that_the_code_makes() -> None:
    assert set(re.findall(r"\]\(img/([^)]+)\)", PAGE.read_text())) == set(ADAPTIVE_PICTURES)
    for name in ADAPTIVE_PICTURES:
        assert (PAGE.parent / "img" / name).is_file()


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_pictures_are_drawn(suffix: str, tmp_path: Path) -> None:
    trials = list(savings(people=60, budgets=("1", "10"), centres=1))
    rows = list(sequences(people=60, budget="1", lengths=(2, 3)))
    begins = {".svg": b"<?xml", ".png": b"\x89PNG"}[suffix]
    for name, draw in (
        ("a", lambda path: plots.plot_trials(trials, path)),
        ("b", lambda path: plots.plot_sequences(rows, path)),
        ("c", plots.plot_widths),
        ("d", lambda path: plots.plot_panel(list(panel_rows(people=60, budget="100", questions=3)), path)),
    ):
        path = tmp_path / f"{name}{suffix}"
        draw(path)
        assert path.read_bytes().startswith(begins)


def run(*arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(main, ["adaptive", "run", *arguments])
    return outcome.exit_code, outcome.output


def test_the_command_prints_rows() -> None:
    code, text = run("--people", "60", "--budgets", "1,100", "--question", "count", "--json")
    assert code == 0
    rows = [Trial(**row) for row in json.loads(text)]
    assert [row.budget for row in rows] == ["1", "100"]
    assert rows[0].saved < rows[1].saved <= 1
    assert all(row.baseline_saved < 0.02 for row in rows)
    code, text = run("--people", "60", "--data", "traffic", "--queries", "3", "--budgets", "5")
    assert code == 0
    assert "linear" in text


def test_a_panel_s_questions_keep_what_they_saved_and_go_on_where_the_baseline_has_ended(tmp_path: Path) -> None:
    picture = tmp_path / "panel.svg"
    arguments = ("--data", "panel", "--people", "300", "--queries", "12", "--budgets", "100")
    code, text = run(*arguments, "--json", "--plot", str(picture))
    assert code == 0, text
    assert picture.read_bytes().startswith(b"<?xml")
    rows = [PanelRow(**row) for row in json.loads(text)]
    assert [row.question for row in rows] == list(range(1, 13))
    assert [row.kind for row in rows[:4]] == ["range", "density", "nearest", "range"]
    left = 1.0
    for row in rows:
        assert row.asked + row.left_out == row.people == 300
        assert row.mean_left == pytest.approx(left - row.charged)
        assert 0 < row.charged < 0.1, "a question may spend a tenth"
        assert row.baseline_left == pytest.approx(max(0.0, 1 - row.question / 10))
        assert row.baseline_left - 1e-9 <= row.least_left <= row.mean_left < left
        left = row.mean_left
    assert rows[-1].baseline_left == 0
    assert rows[-1].mean_left > 0.6
    assert rows[-1].asked == 300
    code, text = run(*arguments)
    assert code == 0
    assert "12 nearest" in text
    assert f"{rows[-1].mean_left:.1%}" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--budgets", "NaN"], "budget"),
        (["--budgets", "0"], "budget"),
        (["--budgets", "1,"], "budget"),
        (["--data", "mars"], "data: expected one of ['airports', 'city', 'digits', 'panel', 'traffic'], got 'mars'"),
        (["--data", "traffic", "--queries", "0"], "queries"),
        (["--data", "traffic", "--queries", "٣"], "queries"),
        (["--data", "panel", "--budgets", "0.000001"], "query_budget"),
        (["--data", "panel", "--queries", "x"], "queries"),
        (["--split", "tripling"], "split"),
        (["--mode", "both"], "mode"),
        (["--question", "why"], "question"),
        (["--budgets", "0.000001"], "allowances"),
        (["--budgets", "0.0000000001"], "budget: expected a rational from 10⁻⁹ to 4·10⁹, got 1/10000000000"),
        (["--question", "nearest", "--people", "5"], "k"),
        (["--plot", "picture.gif", "--question", "count", "--people", "30", "--budgets", "1"], "plot"),
        (["--plot", "no/folder.svg", "--people", "1000000"], "a folder that is there, got 'no/folder.svg'"),
    ],
)
def test_the_command_refuses_in_one_line(arguments: list[str], said: str) -> None:
    code, text = run(*arguments)
    assert code == 2
    assert said in text
    assert "Traceback" not in text
    assert len(text.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("data", "option", "came"),
    [
        ("panel", "--question", "count"),
        ("panel", "--mode", "point"),
        ("panel", "--mode", "distance"),
        ("panel", "--split", "even4"),
        ("panel", "--split", "tripling"),
        ("traffic", "--question", "nearest"),
        ("city", "--queries", "3"),
        ("digits", "--queries", "x"),
    ],
)
def test_an_option_that_the_data_would_not_heed_is_refused(data: str, option: str, came: str) -> None:
    """The default too, where it is spelt out: it says of an experiment what is not so."""
    code, text = run("--data", data, option, came, "--people", "60", "--budgets", "100")
    assert (code, text.strip()) == (2, f"InvalidRequestError: {option}: expected none with --data {data}, got {came!r}")


def test_every_data_set_is_known_to_the_command_and_named_by_its_help() -> None:
    said = run("--help")[1]
    assert set(_TAKEN) == {*DATA, "panel", "traffic"}
    assert all(name in said for name in _TAKEN)


@pytest.mark.parametrize("name", sorted(DATA))
def test_data_are_the_same_everywhere_and_within_their_space(name: str) -> None:
    one, again = load(name, 30), load(name, 30)
    assert (one.places == again.places).all()
    assert one.space.check(one.places) is one.places
    assert len(one.places) == 30


def test_unknown_data_are_refused() -> None:
    with pytest.raises(AppError):
        load("mars", 3)
    assert abs(uniforms("x", 10_000).mean() - 0.5) < 0.02
