"""`tiermarket plan`: tables, documents and pictures; and each bad input as one named error, without a traceback."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.plots import PICTURES
from tiers.budget import Ladder
from tiers.chain import plan
from tiers.errors import InvalidParameterError

ROOT = Path(__file__).resolve().parents[2]
GOOD = ("--ladder", "2,1,0.5,0.1", "--sensitivity", "1")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments])


def test_the_table_says_what_each_tier_is() -> None:
    result = run(*GOOD)
    assert result.exit_code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert [row[:2] + row[4:5] + row[7:] for row in rows] == [
        ["1", "2", "1", "", "the truth"],
        ["2", "1", "3", "56.8%", "closed form"],
        ["3", "0.5", "6", "42.2%", "closed form"],
        ["4", "0.1", "30", "8.7%", "closed form"],
    ]


def test_the_document_is_the_plan() -> None:
    result = run("--ladder", "4, 1.5,0.1", "--sensitivity", "2", "--json")
    document = json.loads(result.stdout)
    chain = plan(Ladder.parse(["4", "1.5", "0.1"]), 2)
    assert [tier["epsilon"] for tier in document["tiers"]] == ["4", "1.5", "0.1"]
    assert [tier["family"] for tier in document["tiers"]] == ["msdlap", "tsg", "tsg"]
    assert [tier["law"] for tier in document["tiers"]] == [tier.law.identity for tier in chain.tiers]
    assert [tier["ratio"] for tier in document["tiers"]] == [tier.ratio for tier in chain.tiers]
    assert document["exact"] is True
    assert document["delta"] == "0"
    assert document["tiers"][0]["certificate"] is None
    assert document["tiers"][1]["certificate"]["checked_to"] == 3
    assert document["tiers"][2]["certificate"]["rests_on"] == "closed form"
    assert document["tiers"][2]["parameters"] == {"rate": "0.05"}


def test_epsilon_is_the_decimal_that_the_text_says() -> None:
    document = json.loads(run("--ladder", "0.3,0.1", "--sensitivity", "1", "--json").stdout)
    assert [tier["parameters"]["rate"] for tier in document["tiers"]] == ["0.3", "0.1"]
    assert document["tiers"][1]["guarantee"] == {"delta": 0.0, "epsilon": "0.1"}


def test_families_deltas_slack_and_vectors() -> None:
    skellam = json.loads(run(*GOOD, "--family", "skellam", "--delta", "0.000001", "--json").stdout)
    assert {tier["family"] for tier in skellam["tiers"]} == {"skellam"}
    assert skellam["tiers"][1]["guarantee"]["delta"] == pytest.approx(1e-6, rel=1e-12)
    vector = json.loads(run("--ladder", "1", "--bins", "2", "--step", "10", "--total", "15", "--json").stdout)
    assert vector["change_set"] == {"bins": 2, "step": 10, "total": 15}
    assert vector["tiers"][0]["parameters"]["rate"] == "1/15"
    gaussian = ("--ladder", "3,1", "--sensitivity", "1", "--family", "discrete-gaussian", "--delta", "0.000001")
    refused = run(*gaussian)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("SlackNotAllowedError: ")
    allowed = json.loads(run(*gaussian, "--allow-slack", "--json").stdout)
    assert allowed["exact"] is False
    assert 0 < allowed["tiers"][1]["certificate"]["slack"] < 1e-9
    assert "a finite table" in run(*gaussian, "--allow-slack").stdout


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_chain_is_plotted(tmp_path: Path, suffix: str) -> None:
    digests = []
    for name in ("one", "two"):
        result = run(*GOOD, "--plot", str(tmp_path / f"{name}{suffix}"))
        assert result.exit_code == 0
        digests.append(hashlib.sha256((tmp_path / f"{name}{suffix}").read_bytes()).hexdigest())
    assert digests[0] == digests[1]
    if suffix == ".svg":
        text = (tmp_path / "one.svg").read_text()
        assert "ε = 0.1" in text
        assert "± 30" in text
        assert "95 % error bar" in text


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_documents_are_made_by_the_code(name: str, tmp_path: Path) -> None:
    PICTURES[name](tmp_path / name)
    assert (tmp_path / name).read_bytes() == (ROOT / "docs" / "img" / name).read_bytes()


def test_a_picture_of_wide_and_narrow_tiers_and_of_one(tmp_path: Path) -> None:
    for ladder in ("50,0.000001", "1"):
        assert run("--ladder", ladder, "--sensitivity", "1000", "--plot", str(tmp_path / "a.svg")).exit_code == 0


BAD_LADDERS = {
    "empty": ("", "InvalidParameterError"),
    "blank": ("  ", "InvalidParameterError"),
    "zero": ("1,0", "InvalidParameterError"),
    "negative": ("1,-1", "InvalidParameterError"),
    "nan": ("nan", "InvalidParameterError"),
    "infinite": ("inf", "InvalidParameterError"),
    "overflow": ("1e999", "InvalidParameterError"),
    "denormal": ("1,5e-324", "InvalidParameterError"),
    "long": ("0." + "1" * 100_000, "InvalidParameterError"),
    "huge": ("1" + "0" * 5000, "InvalidParameterError"),
    "rising": ("1,2", "BudgetOrderError"),
    "equal": ("1,1", "BudgetOrderError"),
    "equal-in-value": ("1,0.5,0.50", "BudgetOrderError"),
    "ceiling": ("50.1", "InvalidParameterError"),
    "floor": ("0.0000009", "InvalidParameterError"),
    "a-thousand": (",".join(str(1 - n / 10**4) for n in range(1000)), "InvalidParameterError"),
    "65": (",".join(f"{50 - n * 0.5:.1f}" for n in range(65)), "InvalidParameterError"),
    "words": ("two", "InvalidParameterError"),
    "digits-of-another-script": ("٠.١", "InvalidParameterError"),
    "trailing-comma": ("1,", "InvalidParameterError"),
    "line-end": ("0.1\n", "InvalidParameterError"),
    "surrogate": ("\udcff", "InvalidParameterError"),
}


def assert_named(result: Result, error: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"{error}: "), result.stderr[:200]
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) < 400
    assert "Traceback" not in result.stderr
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("name", BAD_LADDERS)
def test_a_bad_ladder_is_one_named_error(name: str) -> None:
    text, error = BAD_LADDERS[name]
    assert_named(run("--ladder", text, "--sensitivity", "1"), error)


@pytest.mark.parametrize(
    "text", ["0", "-1", "1.5", "", "nan", "1e3", " 1", "٣", "9" * 19, "1" * 100_000, "0x10", "1_0"], ids=lambda t: t[:6]
)
def test_a_bad_sensitivity_is_one_named_error(text: str) -> None:
    assert_named(run("--ladder", "1", f"--sensitivity={text}"), "InvalidParameterError")
    assert_named(run("--ladder", "1", "--bins", "1", "--step", "1", f"--total={text}"), "InvalidParameterError")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--sensitivity", "1", "--bins", "1"),
        ("--bins", "1", "--step", "1"),
        ("--bins", "2", "--step", "1", "--total", "3"),
        ("--bins", "2", "--step", "3", "--total", "2"),
        ("--sensitivity", "1", "--family", "laplace"),
        ("--sensitivity", "1", "--family", "skellam"),
        ("--sensitivity", "1", "--family", "skellam", "--delta", "1"),
        ("--sensitivity", "1", "--delta", "1e-6"),
        ("--sensitivity", "1", "--delta=-0.1"),
        ("--sensitivity", "65", "--family", "msdlap"),
        ("--sensitivity", "1", "--family", "lattice-gaussian", "--delta", "0.000001"),
        ("--sensitivity", "1", "--plot", "chain.pdf"),
    ],
    ids=lambda arguments: " ".join(arguments) or "nothing",
)
def test_other_bad_input_is_one_named_error(arguments: tuple[str, ...]) -> None:
    assert_named(run("--ladder", "1", *arguments), "InvalidParameterError")


def test_a_pair_without_a_residual_is_told_with_its_witness() -> None:
    result = run("--ladder", "2,1", "--sensitivity", "5", "--family", "staircase", "--allow-slack")
    assert_named(result, "NoResidualError")
    assert "eigenvalue" in result.stderr


def test_a_picture_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    assert_named(run(*GOOD, "--plot", str(tmp_path / "none" / "a.svg")), "FileNotFoundError")


def test_options_that_do_not_exist_are_usage_errors() -> None:
    assert run("--sensitivity", "1").exit_code == 2
    assert run("--ladder", "1", "--noise", "1").exit_code == 2


def test_the_command_runs_as_a_program() -> None:
    environment = os.environ | {"COLUMNS": "60", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "app.cli", "plan", *GOOD]
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, cwd=ROOT)
    assert "56.8%" in shown.stdout
    bad = [*command[:4], "--ladder", "1,1", "--sensitivity", "1"]
    refused = subprocess.run(bad, capture_output=True, text=True, env=environment, check=False, cwd=ROOT)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "BudgetOrderError: tier 2: expected epsilon < '1' (the tier above), got '1'\n"


def test_a_parameter_error_names_its_parameter() -> None:
    with pytest.raises(InvalidParameterError, match="sensitivity"):
        plan(Ladder.parse(["1"]), True)
