"""Lists of jobs: one's own, to operators all, in brief; paged and filtered, and steady while jobs end."""

from typing import Any, get_args, get_type_hints

import pytest
from sqlalchemy import update

from app.asks import JobsQuery
from app.store.schema import jobs
from tests.conftest import Fair, Person

SECRET = "prod_private"  # a name that only the account itself may see of its job


def put(fair: Fair, who: Person, name: str, at: str, kind: str = "export", state: str = "done") -> str:
    row = {"id": f"job_{name}", "account_id": who.account, "kind": kind, "state": state, "progress": "half way"}
    row |= {"created_at": at, "request_json": f'{{"quote":"{SECRET}"}}', "result_json": f'{{"order":"{SECRET}"}}'}
    fair.market.database.submit(lambda c: c.execute(jobs.insert().values(row)) and None).result()
    return row["id"]


def listed(fair: Fair, who: Person, query: str = "") -> Any:
    return fair.client.get(f"/v1/jobs{query}", headers=who.headers)


def names(response: Any) -> list[str]:
    assert response.status_code == 200, response.text
    return [each["job"] for each in response.json()]


@pytest.mark.parametrize("role", ["buyer", "owner", "analyst", "auditor"])
def test_everybody_sees_their_own_jobs_and_operators_all_in_brief(fair: Fair, role: str) -> None:
    who, other = fair.person(role), fair.person()
    mine, theirs = put(fair, who, "1", "2026-01-01"), put(fair, other, "2", "2026-01-02")
    assert (names(listed(fair, who)), names(listed(fair, other))) == ([mine], [theirs])
    seen = listed(fair, fair.operator)
    assert [(each["job"], each["account"]) for each in seen.json()] == [(theirs, other.account), (mine, who.account)]
    assert SECRET not in seen.text
    assert set(seen.json()[0]) == {"job", "account", "kind", "state", "progress", "created_at", "ended_at"}
    assert fair.client.get(f"/v1/jobs/{mine}", headers=fair.operator.headers).status_code == 404
    assert SECRET in fair.client.get(f"/v1/jobs/{mine}", headers=who.headers).text


def test_jobs_are_found_by_state_and_kind_newest_first(fair: Fair) -> None:
    who = fair.person()
    first = put(fair, who, "a", "2026-01-01", "order", "failed")
    second = put(fair, who, "b", "2026-01-02", "order")
    third = put(fair, who, "c", "2026-01-02", "export")
    assert names(listed(fair, who)) == [third, second, first]
    assert names(listed(fair, who, "?kind=order")) == [second, first]
    assert names(listed(fair, who, "?kind=order&state=failed")) == [first]
    assert names(listed(fair, who, "?state=running")) == []
    for bad in ("?state=ended", "?kind=secret", "?state=done&state=failed", "?owner=me", "?after=job_no"):
        assert listed(fair, who, bad).status_code == 400, bad


def test_a_page_goes_on_when_the_last_job_on_it_has_ended(fair: Fair) -> None:
    who, other = fair.person(), fair.person()
    made = [put(fair, who, str(number), f"2026-01-0{number}", "held", "running") for number in range(1, 4)]
    foreign = put(fair, other, "9", "2026-01-09")
    page = listed(fair, who, "?state=running&count=1")
    assert names(page) == made[2:]
    done = update(jobs).where(jobs.c.id == made[2]).values(state="done")
    fair.market.database.submit(lambda c: c.execute(done) and None).result()
    put(fair, who, "5", "2026-01-05", "held", "running")
    following = listed(fair, who, page.links["next"]["url"].removeprefix("/v1/jobs"))
    assert names(following) == made[1:2]
    assert names(listed(fair, who, following.links["next"]["url"].removeprefix("/v1/jobs"))) == made[:1]
    assert listed(fair, who, f"?after={foreign}").status_code == 400


def test_every_kind_of_job_may_be_asked_for(fair: Fair) -> None:
    (kinds, _) = get_args(get_type_hints(JobsQuery)["kind"])
    assert set(get_args(kinds)) == set(fair.market.jobs._kinds)
