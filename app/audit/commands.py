"""The commands of auditors, witnesses and buyers; all but `audit run` trust nothing of the market but a public key."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rich_click as click

from app.errors import AppError
from app.operations import market_at, spoken

__all__ = ["audit", "coalition", "receipt", "report", "run", "verify", "verify_receipt", "witness"]

_STATE = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_NEW = click.Path(dir_okay=False, path_type=Path)
_KEY = "The market's public key (64 hex digits), from a source you trust."


@click.group()
def audit() -> None:
    """Prove, from a market's log, that it kept its promises."""


@audit.command()
@click.argument("export", type=_FILE)
@click.option("--public-key", required=True, help=_KEY)
@click.option("--head", "head_file", type=_FILE, default=None, help="A signed head seen earlier, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--html", type=_NEW, default=None, help="Write the report as a page.")
def verify(export: Path, public_key: str, head_file: Path | None, as_json: bool, html: Path | None) -> None:
    """Verify an EXPORT offline: plans, provenance, ledger, log, noise and replay. Exits 1 on any finding."""
    from dataclasses import asdict

    import msgspec

    from app.audit.export import bounded_lines
    from app.audit.page import report_page
    from app.audit.reports import document_of
    from app.audit.showing import show_audit
    from app.audit.verify import LINE_LIMIT, verify_export
    from app.audit.watching import Watching
    from app.log.heads import TreeHead
    from tiers.audit.watch import Watch
    from tiers.errors import AuditError

    try:
        earlier = None if head_file is None else msgspec.json.decode(head_file.read_bytes(), type=TreeHead)
        with export.open("rb") as lines:
            made = verify_export(
                bounded_lines(lines, LINE_LIMIT), public_key, earlier=earlier, edges=(Watching(Watch()),)
            )
    except msgspec.MsgspecError:
        raise click.ClickException("--head: expected a signed tree head as JSON, got something else") from None
    except AuditError as error:
        raise click.ClickException(str(error)) from None
    if html is not None:
        html.write_text(report_page(document_of(made)))
    if as_json:
        click.echo(msgspec.json.encode(asdict(made) | {"head": made.head}).decode())
    else:
        show_audit(made)
    sys.exit(1 if made.findings else 0)


@audit.command()
@click.option("--state", type=_STATE, required=True, help="Folder of the market, which may be serving.")
@click.option("--json", "as_json", is_flag=True, help="Print the kept report as JSON.")
@click.option("--html", type=_NEW, default=None, help="Write the kept report as a page.")
def run(state: Path, as_json: bool, html: Path | None) -> None:
    """Audit a market's whole log here, keep, sign and log the report, freeze what it refutes. Exits 1 if refuted."""
    from app.audit.reports import audit_market
    from app.audit.showing import give_report
    from app.market import Market
    from tiers.errors import AuditError

    async def work() -> dict[str, Any]:
        market = Market(settings)
        try:
            return await asyncio.to_thread(audit_market, market, lambda text: click.echo(text, err=True))
        finally:
            await market.close()

    settings = market_at(state)
    with spoken():
        try:
            kept = asyncio.run(work())
        except AuditError as error:
            raise click.ClickException(str(error)) from None
    give_report(kept, as_json=as_json, html=html)
    sys.exit(1 if kept["verdict"] == "refuted" else 0)


@audit.command()
@click.argument("name", metavar="[REPORT]", required=False)
@click.option("--state", type=_STATE, default=None, help="Folder of the market that keeps the report (newest if none).")
@click.option("--file", "file", type=_FILE, default=None, help="A report as JSON, got from a market.")
@click.option("--public-key", default=None, help="Check the report's signature with this key.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--html", type=_NEW, default=None, help="Write the report as a page.")
def report(
    name: str | None, state: Path | None, file: Path | None, public_key: str | None, as_json: bool, html: Path | None
) -> None:
    """Show a kept REPORT: from a market's folder, or a file. Exits 1 where it refutes, 2 where it is not signed."""
    import msgspec

    from app.audit.reports import signed_by
    from app.audit.showing import give_report

    if (state is None) == (file is None):
        raise click.ClickException("report: expected exactly one of --state and --file, got both or neither")
    try:
        if file is not None:
            kept = dict(msgspec.json.decode(file.read_bytes()))
        else:
            assert state is not None
            kept = _kept(state, name)
        if public_key is not None and not signed_by(kept, public_key):
            click.echo("the report is not signed by this key", err=True)
            sys.exit(2)
        give_report(kept, as_json=as_json, html=html)
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError):
        raise click.ClickException("report: expected a report as JSON and a public key, got something else") from None
    sys.exit(1 if kept["verdict"] == "refuted" else 0)


@audit.command()
@click.argument("export", type=_FILE)
@click.option("--public-key", required=True, help=_KEY)
@click.option("--buyer", "buyers", required=True, multiple=True, help="A pseudonym of the coalition's; repeat it.")
@click.option("--add", default=None, metavar="CHAIN:LAW", help="A tier that the first buyer would buy in addition.")
@click.option("--json", "as_json", is_flag=True, help="Print the losses as JSON.")
def coalition(export: Path, public_key: str, buyers: tuple[str, ...], add: str | None, as_json: bool) -> None:
    """Say what a set of buyers of an EXPORT has learnt together, dataset by dataset, exactly. Exits 1 if it is refuted.

    It holds where the set is closed under influence: whoever acts visibly on an answer belongs to it.
    """
    import msgspec

    from app.audit.coalition import losses_of
    from app.audit.export import bounded_lines
    from app.audit.reading import UNREADABLE
    from app.audit.verify import LINE_LIMIT, verify_export
    from tiers.errors import AuditError

    def read() -> Iterator[bytes]:
        with export.open("rb") as lines:
            yield from bounded_lines(lines, LINE_LIMIT)

    try:
        if verify_export(read(), public_key).findings:
            click.echo("the export is refuted: tiermarket audit verify says by what", err=True)
            sys.exit(1)
        losses = losses_of(read, buyers, add)
    except AuditError as error:
        raise click.ClickException(str(error)) from None
    except UNREADABLE as error:
        raise click.ClickException(f"coalition: {error}") from None
    if as_json:
        click.echo(msgspec.json.encode(losses).decode())
        return
    if not losses:
        click.echo("no tier of a dataset is held: what is bought of panels is not in these sums")
    for loss in losses:
        chains = "1 chain" if loss.chains == 1 else f"{loss.chains} chains"
        rho = "" if loss.rho is None else f", ρ {loss.rho}"
        click.echo(f"dataset {loss.lineage}: ε {loss.epsilon}, δ {loss.delta}{rho}, from {chains}")
        if loss.added is not None:
            click.echo(f"  with the tier in addition: ε {loss.epsilon_after}, {loss.added} more")


@audit.command()
@click.argument("market", metavar="URL")
@click.option("--keep", "file", type=_NEW, required=True, help="Where the last head seen is kept.")
@click.option("--public-key", "keys", required=True, multiple=True, help=_KEY + " Repeat it after a rotation.")
def witness(market: str, file: Path, keys: tuple[str, ...]) -> None:
    """Look at the market's newest head; keep it if it continues the last one seen. Exits 1 on a fork or rollback.

    The API key comes from the environment: TIERMARKET_API_KEY.
    """
    import httpx
    import msgspec

    from app.audit.witness import advance, keep_head, kept_head
    from app.log.heads import TreeHead

    token = os.environ.get("TIERMARKET_API_KEY", "")
    try:
        with httpx.Client(base_url=market, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:

            def got(path: str, **query: int) -> bytes:
                return client.get(path, params=query).raise_for_status().content

            def proof(earlier: int, size: int) -> list[str]:
                asked = got("/v1/log/proofs/consistency", earlier=earlier, size=size)
                return list(msgspec.json.decode(asked)["proof"])

            before = kept_head(file)
            head = advance(before, msgspec.json.decode(got("/v1/log/head"), type=TreeHead), keys, proof)
    except AppError as error:
        click.echo(error.detail, err=True)
        sys.exit(1)
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        known = "TIERMARKET_API_KEY: expected a live API key of the market" if status == 401 else "market: expected 200"
        raise click.ClickException(f"{known}, got status {status}") from None
    except (httpx.HTTPError, httpx.InvalidURL):
        raise click.ClickException(f"market: expected one that answers at {market}, got none") from None
    except (msgspec.MsgspecError, ValueError, LookupError, TypeError):
        raise click.ClickException("market: expected a head, a proof and a public key, got something else") from None
    keep_head(file, head)
    since = "the first seen" if before is None else f"continues {before.size} leaves"
    click.echo(f"{head.size} leaves of {head.at}: {since}")


@click.group()
def receipt() -> None:
    """What a buyer can prove."""


@receipt.command("verify")
@click.argument("file", type=_FILE)
@click.option("--public-key", "keys", required=True, multiple=True, help=_KEY + " Repeat it after a rotation.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def verify_receipt(file: Path, keys: tuple[str, ...], as_json: bool) -> None:
    """Verify an order with its proof (what GET /v1/orders/ORDER/proof gives), offline. Exits 1 on any finding."""
    import msgspec

    from app.audit.location_receipts import verify_any_bundle
    from tiers.errors import AuditError

    try:
        bundle, found = verify_any_bundle(file.read_bytes(), keys)
    except (msgspec.MsgspecError, RecursionError):
        raise click.ClickException("receipt: expected an order with its proof as JSON, got something else") from None
    except AuditError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        verdict = "refuted" if found else "verified"
        click.echo(msgspec.json.encode({"verdict": verdict, "findings": found}).decode())
    elif not found:
        sold = bundle.receipt
        unit = "ρ" if "measure" in sold else "ε"
        click.echo(f"verified: order {sold['order']}, {unit} {sold['epsilon']}, leaf {sold['leaf_index']}")
        click.echo(
            f"in the log of {bundle.head.size} leaves, head of {bundle.head.at}; the answer is the one committed to"
        )
    for finding in () if as_json else found:
        click.echo(finding.text(), err=True)
    sys.exit(1 if found else 0)


def _kept(state: Path, name: str | None) -> dict[str, Any]:
    from sqlalchemy import select

    from app.audit.reports import kept_report
    from app.errors import NotFoundError
    from app.store.database import open_engine
    from app.store.schema import audit_reports

    settings = market_at(state)
    with spoken():
        engine = open_engine(settings.database_url)
        try:
            with engine.connect() as connection:
                newest = select(audit_reports.c.id).order_by(audit_reports.c.leaf_index.desc()).limit(1)
                wanted = name or connection.execute(newest).scalar_one_or_none()
                if wanted is None:
                    raise NotFoundError("report: expected a kept one, got none yet")
                return kept_report(connection, wanted)
        finally:
            engine.dispose()
