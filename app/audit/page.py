"""A report as one page that needs nothing else: no script, no font, no picture from elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader

__all__ = ["report_page"]

_templates = Environment(loader=PackageLoader("app.pages"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
_TREAD, _RISE, _TOP, _LEFT = 180, 58, 62, 16
_SIGNS = {"replayed": "✓", "closed": "○", "broken": "✗", "undrawn": "–"}
_SHORT = {"replayed": "replayed bit for bit", "broken": "broken: see below", "undrawn": "not drawn yet"}
_MEANINGS = {
    "A1": "plans: exact guarantees, residuals, error bars",
    "A2": "provenance: each tier from its neighbour, once",
    "A3": "ledger: charges, budgets, prices",
    "A4": "log: tree, signatures, order",
    "A5": "conformance: statistics of the noise",
    "A6": "coalitions: what buyers hold together",
    "A7": "replay: answers open, and follow from parent and key",
}


@dataclass(frozen=True, slots=True)
class _Step:
    """One tread with the riser that leads down to it, in pixels."""

    x: int
    y: int
    top: int
    tread: int
    tier: Mapping[str, Any]
    sign: str
    short: str


@dataclass(frozen=True, slots=True)
class _Stairs:
    """One chain as a staircase."""

    width: int
    height: int
    picture: Mapping[str, Any]
    steps: list[_Step]
    label: str


def report_page(report: Mapping[str, Any]) -> str:
    """Return a report (as `app.audit.reports.document_of` makes it) as a page."""
    found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in _MEANINGS}
    for finding in report["findings"]:
        found.setdefault(finding["check"], []).append(finding)
    checks = [(name, _MEANINGS.get(name, ""), len(found[name])) for name in found if name != "A6" or found[name]]
    stairs = [_stairs(picture) for picture in report["pictures"]]
    ranked = sorted(report["findings"], key=lambda finding: finding["severity"] == "notice")  # what is new is never cut
    shown = {**report, "findings": ranked}
    return _templates.get_template("report.html").render(report=shown, checks=checks, stairs=stairs)


def _stairs(picture: Mapping[str, Any]) -> _Stairs:
    steps = [
        _Step(
            x=_LEFT + _TREAD * number,
            y=_TOP + _RISE * number,
            top=_TOP + _RISE * (number - 1),
            tread=_TREAD - 12,
            tier=tier,
            sign=_SIGNS[tier["edge"]],
            short=_short(tier),
        )
        for number, tier in enumerate(picture["tiers"], start=1)
    ]
    count = len(steps) + 1
    return _Stairs(
        width=2 * _LEFT + _TREAD * count,
        height=_TOP + _RISE * count + 8,
        picture=picture,
        steps=steps,
        label=", ".join(f"tier {step.tier['rank']}: {step.short}" for step in steps),
    )


def _short(tier: Mapping[str, Any]) -> str:
    if tier["edge"] == "closed":
        return "truth draw: never shown" if tier["verdict"].startswith("a truth") else "parent not issued"
    return _SHORT[tier["edge"]]
