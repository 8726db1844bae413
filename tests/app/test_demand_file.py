"""The demand file of `tiermarket price simulate`: one clear error for whatever is wrong with it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "app.cli", "price", "simulate"]


def simulate(file: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*COMMAND, str(file), *options], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"count": 1, "count": 50, "values_minor": [9]}]', "demand.json: expected JSON, got a repeated key"),
        ('[{"count": NaN, "values_minor": [9]}]', "demand.json: expected JSON, got a number that JSON does not have"),
        ("[" * 100_000, "demand.json: expected JSON of bounded depth, got deeper nesting"),
        ("[]", "values: expected one row a buyer"),
        ('[{"count": 1, "values_minor": [9, 4]}, {"count": 1, "values_minor": [9]}]', "values: expected"),
        ('[{"count": 1, "values_minor": [-9]}]', ">= 0"),
        ('[{"count": 1.5, "values_minor": [9]}]', "int"),
        ('[{"count": 1, "values_minor": [9], "extra": 1}]', "extra"),
        ('{"demand": []}', "length >= 1"),
        ('{"demand": [{"count": 1, "values_minor": [9]}], "product": "prod_1"}', "product: expected none"),
    ],
)
def test_a_faulty_file_is_refused_with_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "demand.json").write_text(text)
    done = simulate(tmp_path / "demand.json")
    assert done.returncode == 1
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_menu_is_set_beside_its_alternatives_and_labelled(tmp_path: Path) -> None:
    demand = [{"count": 80, "values_minor": [9000, 900, 20]}, {"count": 5, "values_minor": [9000, 4000, 1000]}]
    (tmp_path / "demand.json").write_text(json.dumps(demand))
    told = json.loads(simulate(tmp_path / "demand.json", "--current", "9000,3000,900", "--json").stdout)
    assert set(told["menus"]) == {"threshold", "envy_free", "single_tier", "current"}
    assert told["label"].startswith("up to:")
    (tmp_path / "request.json").write_text(json.dumps({"demand": demand}))
    again = simulate(tmp_path / "request.json", "--current", "9000,3000,900", "--json").stdout
    assert json.loads(again) == told, "the API's request is read too"
    table = simulate(tmp_path / "demand.json").stdout
    assert "up to" in table
    assert "not a forecast" in " ".join(table.split())
