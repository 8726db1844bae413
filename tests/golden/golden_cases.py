"""Every case of every JSON file of a golden folder, exactly as written: numbers become rationals, never doubles."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

__all__ = ["Case", "Checked", "folder", "load"]

Json = Any


@dataclass(frozen=True)
class Case:
    """One unit of checking: a case of a list, or a whole section where its cases only make sense together."""

    file: str
    section: str
    place: str
    data: Json

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.data) if isinstance(self.data, Mapping) else frozenset(self.data[0])

    @property
    def name(self) -> str:
        return f"{self.file}:{self.section}{self.place}"


class Checked:
    """Compares and counts, so that a check which compared nothing is seen."""

    def __init__(self, tolerance: Fraction) -> None:
        self.tolerance, self.count = tolerance, 0

    def close(self, got: object, want: object, tolerance: Fraction | None = None) -> None:
        """Relative to what is wanted, absolute where that is 0."""
        self.count += 1
        got_exactly, want_exactly = Fraction(got), Fraction(want)  # type: ignore[arg-type]  # a NaN is refused here
        bound = (self.tolerance if tolerance is None else tolerance) * (abs(want_exactly) or 1)
        assert abs(got_exactly - want_exactly) <= bound, f"got {float(got_exactly)!r}, want {float(want_exactly)!r}"

    def same(self, got: object, want: object) -> None:
        self.count += 1
        assert got == want


def folder() -> Path:
    """Return the folder named by GOLDEN_DIR, else the copies beside the tests."""
    return Path(os.environ.get("GOLDEN_DIR") or Path(__file__).parent / "data")


def load(where: Path, whole: frozenset[tuple[str, str]]) -> list[Case]:
    """Return all cases; sections in `whole` stay in one piece. A folder or section without cases is an error."""
    files = sorted(where.glob("*.json"))
    if not files:
        raise FileNotFoundError(f"golden folder {where}: expected JSON files, found none")
    found = []
    for path in files:
        text = json.loads(path.read_text(encoding="utf-8"), parse_float=Fraction)
        cases = list(_cases(path.name, text, whole))
        if not cases:
            raise ValueError(f"{path.name}: expected at least one case, found none")
        found.extend(cases)
    return found


def _cases(file: str, text: Json, whole: frozenset[tuple[str, str]]) -> Iterator[Case]:
    for section, content in text.items():
        if section == "about":
            continue
        if not content:
            raise ValueError(f"{file}: expected at least one case in {section}, found none")
        if isinstance(content, Mapping) or (file, section) in whole:
            yield Case(file, section, "", content)
        else:
            for place, data in enumerate(content):
                yield Case(file, _section(section, data), f"[{place}]", data)


def _section(section: str, data: Mapping[str, Json]) -> str:
    """The statistic's first word tells cases apart that have the same keys."""
    return str(data["statistic"]).split()[0] if "statistic" in data else section
