"""Golden values: every case of every file in GOLDEN_DIR meets its check, is listed as pending, or fails loudly."""

import copy
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.golden.golden_cases import Case, Checked, folder, load
from tests.golden.golden_table import CHECKS, PENDING, WHOLE, issue_of
from tiers.errors import TierError

CASES = load(folder(), WHOLE)
RUNNING = [case for case in CASES if issue_of(case) is None]


@pytest.mark.parametrize("case", RUNNING, ids=lambda case: case.name)
def test_golden_case_holds(case: Case) -> None:
    check, tolerance = CHECKS.get((case.file, case.section, case.keys), (None, Fraction(0)))
    assert check is not None, f"{case.name}: no check is bound to the keys {sorted(case.keys)}"
    kind = case.data.get("kind", "exact") if isinstance(case.data, dict) else "exact"
    wanted = "mc" if case.file == "monte_carlo.json" else "exact"
    assert kind == wanted, f"{case.name}: the bound check expects kind {wanted!r}, got {kind!r}"
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


# Inputs that some cases do not depend on: a refused request, an upgrade that costs nothing, a δ where ln⁺ is 0, a
# domain of one value more that has the same plan.
INSENSITIVE = {"B", "Lam", "chain", "d", "delta", "eps", "kind", "latch", "requests", "s", "sound_charge_tolerance"}
# decisions that so small a change does not turn, noise of rounds that nobody was asked for, coordinates along a border
INSENSITIVE |= {"beta0", "noise", "points", "tight_h", "true_count", "x"}
INSENSITIVE |= {"S_size", "edge", "m", "phi", "prefix", "xs"}  # a place within a range, a search that ends the same


def test_every_wanted_number_is_compared() -> None:
    """Change any one leaf of any committed case by 10⁻⁵: its check fails, but for the inputs named above."""
    unread = set()
    for case in load(Path(__file__).parent / "data", WHOLE):
        if issue_of(case) is not None:
            continue
        check, tolerance = CHECKS[case.file, case.section, case.keys]
        for path, value in leaves(case.data):
            changed = copy.deepcopy(case.data)
            place = changed
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = nudged(value)
            try:
                check(changed, Checked(tolerance))
            except (AssertionError, TierError, LookupError, ValueError):
                continue
            unread.add(next(step for step in reversed(path) if isinstance(step, str)))
    assert unread <= INSENSITIVE


def leaves(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(data, dict | list):
        for step, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from leaves(value, (*path, step))
    else:
        yield path, data


def nudged(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        try:
            return str(float(nudged(Fraction(value))))
        except ValueError:
            return {"CONT": "HALT", "HALT": "CONT"}.get(value, value + "x")
    return value + 1 if isinstance(value, int) else (value or Fraction(1)) * (1 + Fraction(1, 10**5))


@pytest.mark.parametrize("got", [1 + 2e-12, float("nan"), float("inf"), -1.0])
def test_a_wrong_value_is_seen(got: float) -> None:
    with pytest.raises((AssertionError, ValueError, OverflowError)):
        Checked(Fraction(1, 10**12)).close(got, "1")
