"""Rounds derived elsewhere: the job that is written, what comes back, and that it is byte for byte what this process makes."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import main
from app.errors import IntegrityError, StoreUnavailableError
from app.panels import acts, rounds
from app.panels.acts import _folder
from app.panels.cluster import on_cluster
from app.settings import Settings
from tests.app.panelling import buy, close, deliver, disclosure, opened, rows
from tests.conftest import Fair, open_fair

STAND_IN = """
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from app.panels.spark import Job, derive_batches

for shown in (Path(sys.argv[1]), Path(sys.argv[1]).parent, Path(sys.argv[2])):
    assert not shown.stat().st_mode & 0o077, "others may read the keys, or the reports"
job = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Job)
assert job.laws
table = pa.concat_tables([pq.read_table(path) for path in Path(sys.argv[2]).glob("*.parquet")])
target, width = Path(sys.argv[3]), job.plan().width
target.mkdir()
for place, start in enumerate(range(0, table.num_rows, 17)):  # later parts get earlier names
    part = derive_batches(job.derive(), width, table.slice(start, 17).combine_chunks().to_batches())
    pq.write_table(pa.Table.from_batches(list(part)), target / f"{99 - place}.parquet")
"""


@pytest.fixture
def shop(settings: Settings) -> Iterator[Fair]:
    yield from open_fair(settings)


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    file = tmp_path / "stand_in.py"
    file.write_text(STAND_IN)
    return file


def engine(shop: Fair, script: Path) -> Any:
    return on_cluster(shop.market.settings.state / "cluster" / "job", f"{sys.executable} {script}")


def files(shop: Fair, panel: dict[str, Any]) -> dict[str, bytes]:
    folder = _folder(shop.market, panel["panel"]) / "round-1"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def filled(shop: Fair, mechanism: str) -> dict[str, Any]:
    promise = "steps" if mechanism == "flips" else "values"
    panel = opened(shop, mechanism=mechanism, promise=promise)
    deliver(shop, panel, reports=rows(panel, [place % 5 for place in range(60)]))
    return panel


@pytest.mark.parametrize("mechanism", ["subset", "mixed", "local-hash", "randomized-response", "flips"])
def test_a_round_closed_on_a_cluster_is_the_one_that_this_process_makes(
    shop: Fair, stand_in: Path, mechanism: str
) -> None:
    panel = filled(shop, mechanism)
    assert acts.derive(shop.market, panel["panel"], 1, engine(shop, stand_in))
    made = files(shop, panel)
    assert not (shop.market.settings.state / "cluster" / "job").exists(), "the job held keys"
    assert not acts.derive(shop.market, panel["panel"], 1, rounds.here)
    assert files(shop, panel) == made
    assert buy(shop, shop.person(), panel, "1.5").status_code == 201
    assert len(disclosure(shop, panel)[0]) == 61


def test_a_closed_round_s_files_come_back_from_a_cluster_and_late_tiers_with_them(shop: Fair, stand_in: Path) -> None:
    panel = filled(shop, "subset")
    close(shop, panel)
    sent = {"epsilon": "1", "price_minor": 200}
    path = f"/v1/panels/{panel['panel']}/tiers"
    assert shop.client.post(path, json=sent, headers=shop.owner().headers).status_code == 201
    before = files(shop, panel)
    for name in before:
        (_folder(shop.market, panel["panel"]) / "round-1" / name).unlink()
    assert not acts.derive(shop.market, panel["panel"], 1, engine(shop, stand_in))
    assert files(shop, panel) == before


def test_files_that_are_derived_anew_are_never_missed_and_mended_where_they_were_wrong(
    shop: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit that found a file gone for a moment would stop the panel."""
    panel = filled(shop, "subset")
    close(shop, panel)
    path = f"/v1/panels/{panel['panel']}/tiers"
    sent = {"epsilon": "1", "price_minor": 200}
    assert shop.client.post(path, json=sent, headers=shop.owner().headers).status_code == 201
    before, seen, put = files(shop, panel), list[set[str]](), rounds.replace

    def watched(source: Path, target: Path) -> None:
        put(source, target)
        seen.append(set(files(shop, panel)))

    for name, whole in before.items():
        (_folder(shop.market, panel["panel"]) / "round-1" / name).write_bytes(whole[::-1])
    monkeypatch.setattr(rounds, "replace", watched)
    monkeypatch.setattr(rounds.shutil, "rmtree", lambda folder, **_: kept(folder, "round-1"))
    assert not acts.derive(shop.market, panel["panel"], 1, rounds.here)
    assert files(shop, panel) == before
    assert len(seen) > 2
    assert all(names >= set(before) for names in seen[1:])
    assert all(path.name == "round-1" for path in _folder(shop.market, panel["panel"]).glob("round-*"))


def kept(folder: Path, name: str) -> None:
    assert folder.name != name, "the files that are read"


@pytest.mark.parametrize(
    ("lie", "error"),
    [
        ("raise SystemExit(3)", StoreUnavailableError),
        ("(target / '99.parquet').unlink()", StoreUnavailableError),
        ("(target / '99.parquet').write_bytes((target / '98.parquet').read_bytes())", StoreUnavailableError),
        (
            "t = pq.read_table(target / '99.parquet'); n = t['tier_2'].to_pylist()\n"
            "pq.write_table(t.set_column(3, 'tier_2', pa.array(n[1:] + n[:1], pa.binary())), target / '99.parquet')",
            IntegrityError,
        ),
    ],
)
def test_a_cluster_that_fails_or_lies_changes_nothing_of_a_closed_round(
    shop: Fair, stand_in: Path, lie: str, error: type[Exception]
) -> None:
    panel = filled(shop, "subset")
    close(shop, panel)
    before = files(shop, panel)
    stand_in.write_text(f"{STAND_IN}\n{lie}\n")
    with pytest.raises(error):
        acts.derive(shop.market, panel["panel"], 1, engine(shop, stand_in))
    assert files(shop, panel) == before
    assert not (shop.market.settings.state / "cluster" / "job").exists()


def test_a_cluster_that_fails_leaves_the_open_round_open(shop: Fair, stand_in: Path) -> None:
    panel, stored = filled(shop, "subset"), shop.stored()
    stand_in.write_text("raise SystemExit(1)")
    with pytest.raises(StoreUnavailableError, match="exit status 1"):
        acts.derive(shop.market, panel["panel"], 1, engine(shop, stand_in))
    assert shop.stored() == stored
    assert close(shop, panel).status_code == 201


@pytest.mark.long
def test_the_command_closes_a_round_on_spark_byte_for_byte(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.engines import spark

    spark.java()
    interpreter = str(spark.python())
    submit = "--master local[2] --driver-memory 1g --conf spark.ui.enabled=false pyspark-shell"
    told = {"PYSPARK_PYTHON": interpreter, "PYSPARK_DRIVER_PYTHON": interpreter, "PYSPARK_SUBMIT_ARGS": submit}
    for name, value in {**told, "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    shop_of = open_fair(settings)
    shop = next(shop_of)
    panel = filled(shop, "subset")
    shop_of.close()
    arguments = ["panel", "derive", panel["panel"], "1", "--state", str(settings.state)]
    done = CliRunner().invoke(main, [*arguments, "--engine", "spark", "--with", f"{interpreter} -m app.panels.spark"])
    assert done.exit_code == 0, done.output
    folder = settings.state / "panels" / panel["panel"] / "round-1"
    made = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    assert len(made) == 3
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, "as they were signed" in done.output) == (0, True), done.output
    assert {path.name: path.read_bytes() for path in sorted(folder.iterdir())} == made
