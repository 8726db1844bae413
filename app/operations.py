"""The commands of whoever runs a market: backup, restore, rotate-key."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rich_click as click

from app.errors import AppError
from app.settings import Settings

__all__ = [
    "OPERATORS",
    "backup_command",
    "compact_command",
    "market_at",
    "restore_command",
    "rotate_key",
    "settings_at",
    "spoken",
]

_STATE = click.Path(file_okay=False, path_type=Path)
_NEW = click.Path(dir_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def settings_at(state: Path) -> Settings:
    """Return the settings of a state folder; everything else comes from the environment."""
    return Settings.from_environment({**os.environ, "TIERMARKET_STATE": str(state)})


def market_at(state: Path) -> Settings:
    """Return the settings of a market that is there: nothing is made in a folder that holds none.

    Raises:     click.ClickException: no key ring.
    """
    settings = settings_at(state)
    if not settings.keys.is_file():
        raise click.ClickException(f"--state: expected the folder of a market, got {state}")
    return settings


@contextmanager
def spoken() -> Iterator[None]:
    """Turn a refusal, or a folder or store that cannot be used, into one line on standard error."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except AppError as error:
        raise click.ClickException(error.detail) from None
    except OSError as error:
        raise click.ClickException(f"state: expected a folder that can be used, got {error.strerror}") from None
    except SQLAlchemyError:
        raise click.ClickException("store: expected a database that can be opened, got none") from None


@click.command("backup")
@click.option("--state", type=_STATE, required=True, help="Folder of the market, which may be serving.")
@click.option("--to", "target", type=_NEW, required=True, help="A new file for store, snapshots and data.")
@click.option("--keys", type=_NEW, default=None, help="A new file for the key ring; keep it in another place.")
def backup_command(state: Path, target: Path, keys: Path | None) -> None:
    """Write a consistent backup. It holds owners' data in clear: keep it as you keep those."""
    from app.backup import back_up

    with spoken():
        manifest = back_up(settings_at(state), target, keys=keys)
    leaves = 0 if manifest.head is None else manifest.head.size
    click.echo(f"backed up: {manifest.written} transactions, {leaves} leaves, {len(manifest.files)} files")


@click.command("restore")
@click.option("--state", type=_STATE, required=True, help="Folder of the market, which must not be serving.")
@click.option("--from", "source", type=_FILE, default=None, help="The backup; without it, only replay what is missing.")
@click.option("--keys", type=_FILE, default=None, help="A copy of the key ring, where the market's own is lost.")
@click.option("--redo", type=_FILE, default=None, help="A copy of the redo file, where the market's own is lost.")
@click.option("--without-redo", is_flag=True, help="There is no redo file: give up what was sold since the backup.")
def restore_command(state: Path, source: Path | None, keys: Path | None, redo: Path | None, without_redo: bool) -> None:
    """Bring a backup back and replay everything that was acknowledged after it."""
    from app.backup import restore
    from app.instance import claim_state
    from app.rollback import replay

    settings = settings_at(state)
    with spoken():
        settings.prepare()
        with claim_state(settings.state):
            if source is None:
                done = replay(settings)
            else:
                _, done = restore(settings, source, keys=keys, redo=redo, without_redo=without_redo)
    click.echo(
        f"replayed: {done.transactions} transactions, {done.leaves} leaves; {len(done.redrawn)} chains drawn again"
    )
    for chain in done.not_redrawn:
        click.echo(f"not drawn again (its secret or snapshot is lost; what was sold of it is not): {chain[:12]}")


@click.command("compact-redo")
@click.option("--state", type=_STATE, required=True, help="Folder of the market, which may be serving.")
@click.option("--backup", "source", type=_FILE, required=True, help="The oldest backup that you will ever restore.")
def compact_command(state: Path, source: Path) -> None:
    """Leave out of the redo file what a backup holds; the backup is read and checked first."""
    from app.backup import compact_redo

    with spoken():
        count = compact_redo(settings_at(state), source)
    click.echo(f"left out: {count} transactions; older backups can no longer be brought up to date")


@click.command("rotate-key")
@click.argument("purpose")
@click.option(
    "--state",
    type=_STATE,
    required=True,
    help="Folder of the market, which must not be serving; restart its other machines' workers afterwards.",
)
@click.option("--reseal", "again", is_flag=True, help="Seal what is stored under the newest storage key.")
def rotate_key(purpose: str, state: Path, again: bool) -> None:
    """Bring a new key of a PURPOSE into force: noise, signing, cache, pepper or storage. Old ones keep their work."""
    from app.instance import claim_state
    from app.rotation import reseal, rotate

    settings = market_at(state)
    with spoken(), claim_state(state):  # a worker with the old ring would refuse every write until its restart
        number = rotate(settings, purpose)
        click.echo(f"{purpose}: key {number} is in force and in the log; back up the key ring and restart the workers")
        if again:
            click.echo(f"sealed anew: {reseal(settings)} stored values")


OPERATORS = (backup_command, restore_command, compact_command, rotate_key)
