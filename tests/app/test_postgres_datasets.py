"""Datasets whose rows PostgreSQL keeps: named by the operator, copied once, checked before each truth is read."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from app.engine.snapshots import SnapshotFiles
from app.errors import InvalidRequestError
from app.locations.desk import location_of, table_of
from app.locations.people import read_points
from app.locations.replay import replay_location
from app.settings import Settings
from app.sources import Source, read_sources
from tests.app import locating
from tests.conftest import HISTOGRAM, PEOPLE, TOTAL, Fair, open_fair, rows, tiers
from tests.engines.postgres import READER, served


@pytest.fixture
def source() -> Source:
    address = served()
    return Source(writer=f"{address} user=owner", reader=f"{address} user={READER}", role=READER, schema="kept")


@pytest.fixture
def warehouse(settings: Settings, source: Source) -> Iterator[Fair]:
    yield from open_fair(replace(settings, sources={"warehouse": source}))


def superuser() -> Any:
    return psycopg.connect(f"{served()} user=postgres", autocommit=True)


def tables() -> set[str]:
    with superuser() as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'kept'").fetchall()
    return {name for (name,) in found}


def few_rows(prefix: str) -> str:
    """A table where nobody has more rows than any question counts: whose they are, and so their hash, is all one."""
    header, *lines = rows().splitlines()
    kept = [
        line for place, line in enumerate(lines) if line.split(",")[0] not in {x.split(",")[0] for x in lines[:place]}
    ]
    return "\n".join([header, *(line.replace("p", prefix, 1) for line in kept)]) + "\n"


@pytest.mark.parametrize("question", [HISTOGRAM, PEOPLE, TOTAL], ids=["histogram", "count", "sum"])
def test_the_truth_is_the_one_that_a_file_gives(warehouse: Fair, question: dict[str, Any]) -> None:
    seen: list[tuple[int, ...]] = []
    truth = SnapshotFiles.truth

    def watched(self: SnapshotFiles, chain: Any) -> tuple[int, ...]:
        seen.append(truth(self, chain))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SnapshotFiles, "truth", watched)
        kept = warehouse.dataset(name="kept", keep_in="warehouse", table=few_rows("p"))
        assert list(warehouse.market.settings.snapshots.iterdir()) == [], "no file is left beside the table"
        warehouse.buy(warehouse.person(), warehouse.product(kept, question), "1")
        filed = warehouse.dataset(name="filed", table=few_rows("q"))  # the same rows, of other people
        warehouse.buy(warehouse.person(), warehouse.product(filed, question), "1")
    assert seen[0] == seen[1]
    assert sum(seen[0]) > 0


def test_a_late_top_reads_the_same_table_again(warehouse: Fair) -> None:
    dataset = warehouse.dataset(keep_in="warehouse", budget="10")
    warehouse.buy(warehouse.person(), warehouse.product(dataset, tiers=tiers(("1", 1000))), "1")
    late = warehouse.product(dataset, tiers=tiers(("4", 4000)))
    assert warehouse.buy(warehouse.person(), late, "4")["receipt"]["charge_nano"] == 3 * 10**9


def test_an_altered_table_is_refused_before_anything_is_drawn(warehouse: Fair) -> None:
    before = tables()
    product = warehouse.product(warehouse.dataset(keep_in="warehouse"))
    (table,) = tables() - before
    with superuser() as connection:
        connection.execute(f'UPDATE kept."{table}" SET "c:city" = \'Cork\' WHERE "c:city" = \'Athens\'')
    buyer = warehouse.person()
    quote, stored = warehouse.quote(buyer, product, "1"), warehouse.stored()
    refused = warehouse.order(buyer, quote)
    assert (refused.status_code, refused.json()["type"].rsplit("/")[-1]) == (500, "integrity")
    assert warehouse.stored() == stored


def test_a_table_that_is_gone_is_an_opaque_refusal(warehouse: Fair) -> None:
    before = tables()
    product = warehouse.product(warehouse.dataset(keep_in="warehouse"))
    (table,) = tables() - before
    with superuser() as connection:
        connection.execute(f'DROP TABLE kept."{table}"')
    buyer = warehouse.person()
    refused = warehouse.order(buyer, warehouse.quote(buyer, product, "1"))
    assert refused.status_code == 503
    assert table not in refused.text


def test_the_next_snapshot_goes_where_the_first_one_is(warehouse: Fair) -> None:
    dataset, before = warehouse.dataset(keep_in="warehouse"), tables()
    (warehouse.market.settings.data / "next.csv").write_text(rows(seed=9))
    path, headers = f"/v1/datasets/{dataset}/snapshots", warehouse.owner().headers
    assert warehouse.client.post(path, json={"file": "next.csv"}, headers=headers).status_code == 201
    assert len(tables() - before) == 1
    again = warehouse.client.post(path, json={"file": "next.csv"}, headers=headers)
    assert again.status_code == 409, "the same rows, twice"
    assert len(tables() - before) == 1, "nothing is left behind"


@pytest.mark.parametrize("name", ["elsewhere", "host=evil", "../warehouse", "warehouse\n", "", "postgresql://x@y/z"])
def test_a_source_is_named_by_the_operator_only(warehouse: Fair, name: str) -> None:
    before, stored = tables(), warehouse.stored()
    (warehouse.market.settings.data / "x.csv").write_text("a\n1\n")
    body = {
        "name": "x",
        "title": "X",
        "file": "x.csv",
        "columns": [{"name": "a", "type": "integer"}],
        "max_rows_per_unit": 1,
        "max_groups_per_unit": 1,
        "budget": "1",
        "keep_in": name,
    }
    refused = warehouse.client.post("/v1/datasets", json=body, headers=warehouse.owner().headers)
    assert refused.status_code == 400
    stored["accounts"] += 1
    stored["api_keys"] += 1
    assert warehouse.stored() == stored
    assert tables() == before


def test_first_sales_at_once_read_one_table_through_one_session(warehouse: Fair) -> None:
    dataset = warehouse.dataset(keep_in="warehouse")
    sold: list[dict[str, Any]] = []
    products = [warehouse.product(dataset, question) for question in (HISTOGRAM, PEOPLE, TOTAL)]
    buyers = [warehouse.person() for _ in products]

    def buy(place: int) -> None:
        sold.append(warehouse.buy(buyers[place], products[place], "0.5"))

    threads = [threading.Thread(target=buy, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sold) == 3


def test_sources_come_from_a_file_and_tell_nothing(tmp_path: Path, source: Source) -> None:
    file = tmp_path / "sources.json"
    file.write_text(json.dumps({"warehouse": {"writer": "password=hush", "reader": "r", "role": "reader"}}))
    found = read_sources(str(file))
    assert found["warehouse"].schema == "tiermarket"
    settings = Settings.from_environment({"TIERMARKET_STATE": str(tmp_path), "TIERMARKET_SOURCES": str(file)})
    assert settings.sources == found
    assert "hush" not in repr(settings)
    for bad in ("{", '{"a": {"writer": "password=hush"}}', '{"A": {}}', "[]"):
        file.write_text(bad)
        with pytest.raises(InvalidRequestError) as refused:
            read_sources(str(file))
        assert "hush" not in str(refused.value)
        assert refused.value.__cause__ is None
        assert refused.value.__context__ is None
    with pytest.raises(InvalidRequestError):
        read_sources(str(tmp_path / "missing.json"))
    assert repr(source) == "Source(<secret>)"


# --- places of people -------------------------------------------------------------------------------------------------


def people_in(shop: Fair, panel: dict[str, Any]) -> list[tuple[str, list[float]]]:
    def read(connection: Any) -> Any:
        return table_of(connection, shop.market.settings.snapshots, location_of(connection, panel["panel"]))

    names, points = read_points(shop.market.files, shop.market.database.read_now(read))
    return sorted((name.split("-")[1], point.tolist()) for name, point in zip(names, points, strict=True))


def test_people_in_a_server_s_table_are_asked_as_those_in_a_file_are(warehouse: Fair) -> None:
    kept = locating.opened(warehouse, "kept", keep_in="warehouse")
    filed = locating.opened(warehouse, "filed")
    assert len(list(warehouse.market.settings.snapshots.iterdir())) == 1, "no file is left beside the table"
    assert people_in(warehouse, kept) == people_in(warehouse, filed)
    assert len(people_in(warehouse, kept)) == 40
    told = locating.buy(warehouse, warehouse.person(), kept)
    assert told.status_code == 201, told.text
    assert told.json()["receipt"]["charge_nano"] > 0
    lines, public = locating.disclosure(warehouse, kept)
    assert replay_location(lines, [public]).verdict == "verified"


def test_an_altered_table_asks_nobody(warehouse: Fair) -> None:
    before = tables()
    panel, buyer = locating.opened(warehouse, "altered", keep_in="warehouse"), warehouse.person()
    (table,) = tables() - before
    with superuser() as connection:
        connection.execute(f'UPDATE kept."{table}" SET "c:x" = "c:x" + 1')
    quote, stored = locating.quoted(warehouse, buyer, panel).json()["quote"], warehouse.stored()
    refused = locating.order(warehouse, buyer, panel, quote)
    assert (refused.status_code, refused.json()["type"].rsplit("/")[-1]) == (500, "integrity")
    assert warehouse.stored() == stored
    with superuser() as connection:
        connection.execute(f'DROP TABLE kept."{table}"')
    away = locating.order(warehouse, buyer, panel, quote, "again")
    assert away.status_code == 503
    paths = warehouse.client.get("/schema/openapi.json").json()["paths"]
    for method, path in (
        ("post", "/v1/locations"),
        ("post", "/v1/locations/{location}/orders"),
        ("get", "/v1/locations/{location}/replay"),
    ):
        content = paths[path][method]["responses"]["503"]["content"]["application/problem+json"]
        told = content["schema"]["allOf"][1]["properties"]["type"]["enum"]
        assert away.json()["type"] in told, path
        assert any(kind.endswith("/snapshot-absent") for kind in told)
    assert warehouse.stored() == stored


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ("id,x,y\n", "at least one person"),
        ("id,x,y\nada,1,1\nada,2,2\n", "one row a person"),
        ("id,x,y\nada,1,\nbob,2,2\n", "finite coordinates"),
    ],
    ids=["nobody", "somebody twice", "no coordinate"],
)
def test_rows_that_are_no_places_open_nothing(warehouse: Fair, rows: str, rule: str) -> None:
    made = locating.dataset(warehouse, "bad", rows, keep_in="warehouse")
    before = warehouse.stored()
    refused = warehouse.client.post("/v1/locations", json=locating.body(made), headers=warehouse.owner().headers)
    assert refused.status_code == 400, refused.text
    assert rule in refused.json()["detail"]
    assert warehouse.stored() == before
