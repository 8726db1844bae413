"""Golden values: every case of every file in GOLDEN_DIR meets its check, is listed as pending, or fails loudly."""

from fractions import Fraction
from pathlib import Path

import pytest

from tests.golden.golden_cases import Case, Checked, folder, load
from tests.golden.golden_table import CHECKS, PENDING, WHOLE, issue_of

CASES = load(folder(), WHOLE)
RUNNING = [case for case in CASES if issue_of(case) is None]


@pytest.mark.parametrize("case", RUNNING, ids=lambda case: case.name)
def test_golden_case_holds(case: Case) -> None:
    check, tolerance = CHECKS.get((case.file, case.section, case.keys), (None, Fraction(0)))
    assert check is not None, f"{case.name}: no check is bound to the keys {sorted(case.keys)}"
    checked = Checked(tolerance)
    check(case.data, checked)
    assert checked.count > 0, f"{case.name}: its check compared nothing"


def test_golden_run_checks_something() -> None:
    assert RUNNING, f"{folder()}: every case waits for a later issue"


def test_nothing_is_both_bound_and_pending() -> None:
    bound = {(file, section) for file, section, _ in CHECKS}
    pending = [(file, section) for entries in PENDING.values() for file, section in entries]
    assert len(pending) == len(set(pending))
    assert not [entry for entry in bound if issue_of(Case(*entry, "", {})) is not None]


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("other.json", '{"cases": [{"kind": "exact", "answer": 42}]}', "no check is bound"),
        ("tiers.json", '{"tsg": [{"eps_hi": "2", "extra": 1}]}', "no check is bound"),
        ("tiers.json", '{"surprise": [{"eps_hi": "2"}]}', "no check is bound"),
        ("001_unheard.json", '{"cases": [{"kind": "exact"}]}', "no check is bound"),
    ],
)
def test_an_unknown_shape_fails_loudly(tmp_path: Path, name: str, text: str, error: str) -> None:
    (tmp_path / name).write_text(text)
    (case,) = load(tmp_path, WHOLE)
    assert issue_of(case) is None
    with pytest.raises(AssertionError, match=error):
        test_golden_case_holds(case)


def test_an_empty_folder_or_file_fails_loudly(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="found none"):
        load(tmp_path, WHOLE)
    (tmp_path / "tiers.json").write_text('{"tsg": []}')
    with pytest.raises(ValueError, match="at least one case"):
        load(tmp_path, WHOLE)


@pytest.mark.parametrize("got", [1 + 2e-12, float("nan"), float("inf"), -1.0])
def test_a_wrong_value_is_seen(got: float) -> None:
    with pytest.raises((AssertionError, ValueError, OverflowError)):
        Checked(Fraction(1, 10**12)).close(got, "1")
