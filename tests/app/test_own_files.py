"""Whose file and whose people: neither another owner's file nor a second dataset gives anybody another budget."""

from typing import Any

import pytest

from tests.conftest import COLUMNS, PEOPLE, Fair, Person, rows, tiers

ABSENT = "file: expected the name of a plain file in the data folder, got another"


def register(fair: Fair, who: Person, file: str, name: str) -> Any:
    body = {"name": name, "title": "P", "file": file, "columns": COLUMNS, "unit": "person", "budget": "5"}
    limits = {"max_rows_per_unit": 10, "max_groups_per_unit": 3}
    return fair.client.post("/v1/datasets", json=body | limits, headers=who.headers)


def test_a_file_that_is_named_by_an_owner_s_account_is_that_owner_s_alone(fair: Fair) -> None:
    mine, other = fair.owner(), fair.person("owner")
    data = fair.market.settings.data
    first, second, common = f"{mine.account}.people.csv", f"{mine.account}.next.csv", "common.csv"
    for place, name in enumerate((first, second, common)):
        (data / name).write_text(rows(seed=place))
    theirs = register(fair, other, common, "theirs").json()["dataset"]
    before = fair.stored()
    for name in (first, f"{mine.account}.nothing.csv"):
        refused = register(fair, other, name, "stolen")
        assert (refused.status_code, refused.json()["detail"]) == (400, ABSENT), "as where there is none"
    path = f"/v1/datasets/{theirs}/snapshots"
    assert fair.client.post(path, json={"file": second}, headers=other.headers).json()["detail"] == ABSENT
    assert fair.stored() == before
    dataset = register(fair, mine, first, "mine").json()["dataset"]
    path = f"/v1/datasets/{dataset}/snapshots"
    assert fair.client.post(path, json={"file": second}, headers=mine.headers).status_code == 201


def test_a_panel_takes_no_other_owner_s_file_of_reports(fair: Fair) -> None:
    other, data = fair.person("owner"), fair.market.settings.data
    body = {
        "title": "Colours",
        "domain": ["red", "green", "blue"],
        "tiers": tiers(("2", 900), ("1", 300)),
        "currency": "EUR",
        "licence": "terms/1",
        "budget": "4",
    }
    opened = fair.client.post("/v1/panels", json=body, headers=other.headers)
    assert opened.status_code == 201, opened.text
    name = f"{fair.owner().account}.reports.ndjson"
    path = f"/v1/panels/{opened.json()['panel']}/reports"
    for file in (name, f"{other.account}.reports.ndjson"):
        (data / file).write_text('{"device": "d-1", "report": [2]}\n')
    wanted = {"version": 1, "round": 1}
    refused = fair.client.post(path, json=wanted | {"file": name}, headers=other.headers)
    absent = fair.client.post(path, json=wanted | {"file": "nothing.ndjson"}, headers=other.headers)
    assert (refused.status_code, refused.json()) == (400, absent.json())
    taken = fair.client.post(path, json=wanted | {"file": f"{other.account}.reports.ndjson"}, headers=other.headers)
    assert taken.status_code == 201, taken.text


@pytest.mark.parametrize("same", [True, False])
def test_people_of_one_dataset_are_no_snapshot_of_another(fair: Fair, *, same: bool) -> None:
    """As at registration: other values of the same people, each as often, are not other people."""
    fair.dataset()
    second = fair.dataset(name="second", table=rows(seed=8, people=20))
    changed = "\n".join(line.replace("Athens", "Cork") for line in rows().splitlines())
    table = changed if same else changed.replace("\np0,", "\nsomebody,", 1)
    (fair.market.settings.data / "next.csv").write_text(table + "\n")
    before, files = fair.stored(), set(fair.market.settings.snapshots.iterdir())
    path = f"/v1/datasets/{second}/snapshots"
    reply = fair.client.post(path, json={"file": "next.csv"}, headers=fair.owner().headers)
    assert reply.status_code == (409 if same else 201), reply.text
    if same:
        assert fair.stored() == before
        assert set(fair.market.settings.snapshots.iterdir()) == files, "and no copy of the rows is left"


def test_a_dataset_s_own_people_are_in_its_next_snapshot(fair: Fair) -> None:
    dataset = fair.dataset()
    product = fair.product(dataset, PEOPLE)
    changed = "\n".join(line.replace("Athens", "Cork") for line in rows().splitlines())
    (fair.market.settings.data / "next.csv").write_text(changed + "\n")
    path = f"/v1/datasets/{dataset}/snapshots"
    assert fair.client.post(path, json={"file": "next.csv"}, headers=fair.owner().headers).status_code == 201
    buyer = fair.person()
    fair.buy(buyer, product, "1")
    fresh = fair.client.post(f"/v1/products/{product['product']}/refresh", headers=fair.owner().headers).json()
    fair.buy(buyer, fresh, "1")
    assert fair.ledger(dataset)["spent"] == "2", "one budget for both"
