"""The page on adaptive queries runs, its pictures are made by the code, and its command answers and refuses."""

import doctest
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.adaptive import plots
from app.adaptive.data import DATA, load, uniforms
from app.adaptive.experiments import Trial, savings, sequences
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--budgets", "NaN"], "budget"),
        (["--budgets", "0"], "budget"),
        (["--budgets", "1,"], "budget"),
        (["--data", "mars"], "data"),
        (["--data", "traffic", "--queries", "0"], "queries"),
        (["--data", "traffic", "--queries", "٣"], "queries"),
        (["--split", "tripling"], "split"),
        (["--mode", "both"], "mode"),
        (["--question", "why"], "question"),
        (["--budgets", "0.000001"], "allowances"),
        (["--question", "nearest", "--people", "5"], "k"),
        (["--plot", "picture.gif", "--question", "count", "--people", "30", "--budgets", "1"], "plot"),
    ],
)
def test_the_command_refuses_in_one_line(arguments: list[str], said: str) -> None:
    code, text = run(*arguments)
    assert code == 2
    assert said in text
    assert "Traceback" not in text
    assert len(text.strip().splitlines()) == 1


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
