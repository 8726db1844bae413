"""Audits and kept reports as lines of text."""

from pathlib import Path
from typing import Any

import msgspec
import rich_click as click
from rich.console import Console

from app.audit.page import report_page
from app.audit.verify import AuditReport

__all__ = ["give_report", "show_audit"]


def give_report(kept: dict[str, Any], *, as_json: bool, html: Path | None) -> None:
    """Print a kept report, and write it as a page where one is asked for."""
    if html is not None:
        html.write_text(report_page(kept))
    if as_json:
        click.echo(msgspec.json.encode(kept).decode())
        return
    panels = f", {kept['panels']} panels" if "panels" in kept else ""  # reports did not always count them
    click.echo(f"{kept['verdict']}: {kept['leaves']} leaves, {kept['chains']} chains{panels}, {kept['sales']} sales")
    click.echo(f"{kept['opened']} answers opened, {kept['replayed']} of {kept['draws']} draws replayed bit for bit")
    for reason, count in kept["not_replayable"].items():
        click.echo(f"not replayable: {count} draw{'' if count == 1 else 's'}: {reason}")
    for found in kept["findings"]:
        at = f"{found['check']} {found['rule']} at {found['where']}"
        told = "" if found["severity"] == "breach" else "answered by a thaw: "
        click.echo(f"{told}{at}: claimed {found['claimed']}, recomputed {found['recomputed']}")


def show_audit(made: AuditReport) -> None:
    """Print what verifying an export came to."""
    console = Console(highlight=False)
    colour = "red" if made.findings else "green"
    counted = f"{made.leaves} leaves, {made.chains} chains, {made.panels} panels, {made.sales} sales"
    console.print(f"[bold {colour}]{made.verdict}[/]: {counted}")
    console.print(f"{made.opened} answers opened, {made.replayed} of {made.draws} draws replayed bit for bit")
    for closed in made.not_replayable[:20]:
        console.print(f"[dim]not replayable: chain {closed.chain[:12]}, law {closed.law[:12]}: {closed.reason}[/dim]")
    if len(made.not_replayable) > 20:
        console.print(f"[dim]not replayable: {len(made.not_replayable) - 20} more[/dim]")
    for note in made.notes:
        console.print(f"[dim]note: {note}[/dim]")
    for finding in made.findings:
        console.print(f"[red]{finding.text()}[/red]", soft_wrap=True)
