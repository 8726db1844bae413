"""Operators: accounts in pages, keys issued and revoked, suspensions; what one worker revokes, all honour."""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.auth.accounts import Caller, Role
from app.auth.guard import Authenticator
from app.clock import utc_now
from app.demo.run import open_operator
from app.embedded import free_port
from app.errors import UnauthorizedError
from app.settings import Settings
from app.store.schema import api_keys
from tests.conftest import Fair, Person, open_fair
from tests.processes import end, serve


def whoami(fair: Fair, key: str) -> int:
    return int(fair.client.get("/v1/account", headers={"Authorization": f"Bearer {key}"}).status_code)


def issue(fair: Fair, who: Person, label: str = "second") -> dict[str, Any]:
    path = f"/v1/accounts/{who.account}/keys"
    response = fair.client.post(path, json={"label": label}, headers=fair.operator.headers)
    assert response.status_code == 201, response.text
    return dict(response.json())


def keys(fair: Fair, who: Person) -> list[dict[str, Any]]:
    return list(fair.client.get(f"/v1/accounts/{who.account}/keys", headers=fair.operator.headers).json())


def revoke(fair: Fair, account: str, key: str) -> Any:
    return fair.client.delete(f"/v1/accounts/{account}/keys/{key}", headers=fair.operator.headers)


def suspend(fair: Fair, account: str, reason: str = "unpaid") -> Any:
    path = f"/v1/accounts/{account}/suspension"
    return fair.client.post(path, json={"reason": reason}, headers=fair.operator.headers)


def next_of(response: Any) -> str | None:
    found = re.fullmatch(r'<(.+)>; rel="next"', response.headers.get("link", ""))
    return found.group(1) if found else None


def test_accounts_come_in_pages_each_once_also_while_new_ones_are_made(fair: Fair) -> None:
    made = [fair.operator.account, *(fair.person("owner").account for _ in range(6))]
    seen: list[str] = []
    path: str | None = "/v1/accounts?count=3"
    while path is not None:
        response = fair.client.get(path, headers=fair.operator.headers)
        assert 1 <= len(response.json()) <= 3
        seen += [holder["account"] for holder in response.json()]
        path = next_of(response)
        if len(seen) == 3:
            made.append(fair.person("owner").account)
    assert sorted(seen) == sorted(set(seen))
    assert set(made[:-1]) <= set(seen)
    assert "tm_" not in fair.client.get("/v1/accounts", headers=fair.operator.headers).text


def test_an_unknown_cursor_or_account_is_refused(fair: Fair) -> None:
    headers = fair.operator.headers
    assert fair.client.get("/v1/accounts?after=acc_nobody", headers=headers).status_code == 400
    assert fair.client.get("/v1/accounts/acc_nobody", headers=headers).status_code == 404
    assert fair.client.get("/v1/accounts/acc_nobody/keys", headers=headers).status_code == 404
    assert suspend(fair, "acc_nobody").status_code == 404


def test_a_second_key_opens_the_same_account_and_is_shown_once(fair: Fair) -> None:
    who = fair.person()
    made = issue(fair, who, "laptop")
    assert whoami(fair, made["api_key"]) == whoami(fair, who.key) == 200
    listed = keys(fair, who)
    assert {(key["label"], key["api_key"], key["revoked_at"]) for key in listed} == {
        ("first", None, None),
        ("laptop", None, None),
    }
    assert made["api_key"] not in str(listed)
    assert made["api_key"].startswith(made["prefix"])


def test_a_revoked_key_is_dead_at_once_where_it_was_revoked_and_the_others_live(
    fair: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = fair.person()
    product = fair.product(fair.dataset())
    sold = fair.buy(who, product, "1")
    second = issue(fair, who)
    assert fair.answer(who, sold).status_code == 200
    first = next(key for key in keys(fair, who) if key["label"] == "first")
    revoked = revoke(fair, who.account, first["key"])
    assert revoked.status_code == 200
    assert revoked.json()["revoked_at"]
    assert fair.answer(who, sold).status_code == 401
    assert fair.answer(Person(who.account, "buyer", second["api_key"]), sold).status_code == 200
    monkeypatch.setattr(fair.market, "clock", lambda: utc_now() + timedelta(days=1))
    assert revoke(fair, who.account, first["key"]).json() == revoked.json(), "a second revocation changes nothing"


def test_a_key_is_revoked_only_under_its_own_account_and_never_by_itself(fair: Fair) -> None:
    who, other = fair.person(), fair.person()
    key = keys(fair, who)[0]["key"]
    assert revoke(fair, other.account, key).status_code == 404
    assert whoami(fair, who.key) == 200
    own = keys(fair, fair.operator)[0]["key"]
    refused = revoke(fair, fair.operator.account, own)
    assert refused.status_code == 409
    assert whoami(fair, fair.operator.key) == 200


def test_a_suspended_account_opens_nothing_until_it_is_lifted(fair: Fair) -> None:
    who = fair.person()
    sold = fair.buy(who, fair.product(fair.dataset()), "1")
    second = issue(fair, who)
    assert suspend(fair, who.account, "chargeback").json()["suspension_reason"] == "chargeback"
    for key in (who.key, second["api_key"]):
        refused = fair.answer(Person(who.account, "buyer", key), sold)
        assert refused.status_code == 403
        assert refused.json()["type"].endswith("/account-suspended")
        assert "chargeback" not in refused.text
    lifted = fair.client.delete(f"/v1/accounts/{who.account}/suspension", headers=fair.operator.headers)
    assert (lifted.status_code, lifted.json()["suspended_at"]) == (200, None)
    assert fair.answer(who, sold).status_code == 200


def test_an_operator_cannot_suspend_itself(fair: Fair) -> None:
    assert suspend(fair, fair.operator.account).status_code == 409
    assert whoami(fair, fair.operator.key) == 200


def test_the_markets_own_accounts_have_no_holder(fair: Fair) -> None:
    fair.buy(fair.person(), fair.product(fair.dataset()), "1")
    headers = fair.operator.headers
    assert "market_eur" not in fair.client.get("/v1/accounts", headers=headers).text
    assert fair.client.get("/v1/accounts/market_eur", headers=headers).status_code == 404
    body = {"amount_minor": 1, "currency": "EUR", "reference": "r"}
    assert fair.client.post("/v1/accounts/market_eur/deposits", json=body, headers=headers).status_code == 404
    assert fair.client.post("/v1/accounts/market_eur/keys", json={"label": "x"}, headers=headers).status_code == 404


def test_a_deposit_is_booked_once_by_its_reference(fair: Fair) -> None:
    person = fair.person(deposit=0)
    path = f"/v1/accounts/{person.account}/deposits"
    for amount, status in ((700, 201), (700, 409), (900, 409)):
        body = {"amount_minor": amount, "currency": "EUR", "reference": "wire-17"}
        assert fair.client.post(path, json=body, headers=fair.operator.headers).status_code == status
    assert fair.client.get("/v1/account", headers=person.headers).json()["balance_minor"] == 700


# --- several workers -----------------------------------------------------------------------------------------------


@pytest.fixture
def two_workers(settings: Settings) -> Iterator[tuple[Fair, Fair]]:
    first, second = open_fair(settings), open_fair(settings)
    try:
        yield next(first), next(second)
    finally:
        second.close()
        first.close()


@pytest.mark.parametrize("act", ["revoke", "suspend"])
def test_what_one_worker_revokes_another_honours_within_a_second(two_workers: tuple[Fair, Fair], act: str) -> None:
    here, there = two_workers
    now = [0.0]
    there.market.authenticator._clock = lambda: now[0]
    who = here.person()
    assert whoami(there, who.key) == 200
    if act == "revoke":
        assert revoke(here, who.account, keys(here, who)[0]["key"]).status_code == 200
    else:
        assert suspend(here, who.account).status_code == 201
    gone = 401 if act == "revoke" else 403
    assert whoami(here, who.key) == gone
    assert whoami(there, who.key) in (200, gone)
    now[0] = 1.0
    assert whoami(there, who.key) == gone


class SlowStore:
    """A store whose answer was read before a revocation and arrives after it."""

    def __init__(self) -> None:
        self.meanwhile: Any = lambda: None

    async def read(self, _work: Any) -> Caller:
        self.meanwhile()
        return Caller("acc_1", Role.BUYER, "p_1", None)


async def test_an_answer_read_before_a_revocation_is_not_kept_after_it(fair: Fair) -> None:
    store = SlowStore()
    authenticator = Authenticator(store, fair.market.keyring)  # type: ignore[arg-type]
    store.meanwhile = authenticator.forget
    await authenticator.caller("Bearer tm_x")
    assert not authenticator._known
    store.meanwhile = lambda: None
    await authenticator.caller("Bearer tm_x")
    assert len(authenticator._known) == 1


async def test_a_copy_of_a_caller_is_as_old_as_the_beginning_of_its_read(fair: Fair) -> None:
    now, store = [0.0], SlowStore()
    authenticator = Authenticator(store, fair.market.keyring, lambda: now[0])  # type: ignore[arg-type]
    store.meanwhile = lambda: now.__setitem__(0, 0.9)
    await authenticator.caller("Bearer tm_x")
    asked: list[int] = []
    store.meanwhile = lambda: asked.append(1)
    now[0] = 0.99
    await authenticator.caller("Bearer tm_x")
    assert not asked
    now[0] = 1.0
    await authenticator.caller("Bearer tm_x")
    assert asked


async def test_a_key_is_compared_as_a_keyed_digest_only(fair: Fair) -> None:
    """Two keys that differ in their last letter share nothing that is compared, so time tells nothing of a guess."""
    digests = [fair.market.keyring.key_digest(f"tm_{'a' * 42}{letter}") for letter in "xy"]
    same = sum(a == b for a, b in zip(*digests, strict=True))
    assert same < 24
    rows = fair.market.database.read_now(lambda connection: connection.execute(api_keys.select()).all())
    assert all(len(row.key_digest) == 64 for row in rows)
    with pytest.raises(UnauthorizedError):
        await fair.market.authenticator.caller(f"Bearer {rows[0].key_digest}")


@pytest.mark.long
def test_four_processes_honour_a_revocation_within_a_second(tmp_path: Path) -> None:
    settings = Settings.at(tmp_path / "market")
    operator = open_operator(settings)
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    server = serve(settings, port, tmp_path / "log", "--workers", "4")
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{base}/health/ready", timeout=5).status_code == 200:
                    break
            time.sleep(0.2)
        time.sleep(1.5)  # granian ends cleanly only once all its workers are up
        headers = {"Authorization": f"Bearer {operator}"}
        made = httpx.post(
            f"{base}/v1/accounts", json={"role": "buyer", "name": "b"}, headers=headers, timeout=60
        ).json()
        who = {"Authorization": f"Bearer {made['api_key']}"}

        def statuses() -> list[int]:
            """One fresh connection each, so that all workers are asked."""
            return [httpx.get(f"{base}/v1/account", headers=who, timeout=60).status_code for _ in range(40)]

        assert set(statuses()) == {200}
        (key,) = httpx.get(f"{base}/v1/accounts/{made['account']}/keys", headers=headers, timeout=60).json()
        path = f"{base}/v1/accounts/{made['account']}/keys/{key['key']}"
        assert httpx.delete(path, headers=headers, timeout=60).status_code == 200
        time.sleep(1.0)
        assert set(statuses()) == {401}
        counted = r'requests_total\{method="GET",route="/v1/account",status="200"\} ([0-9.]+)'
        deadline, served = time.monotonic() + 60, 0.0
        while served < 40 and time.monotonic() < deadline:  # a worker that is held up writes its own down later
            found = re.search(counted, httpx.get(f"{base}/metrics", headers=headers, timeout=60).text)
            served = float(found.group(1)) if found else 0.0
        assert served == 40, "workers' counters add up"
    finally:
        end(server)


def test_a_statement_is_every_deposit_payment_and_credit_of_the_account_and_of_no_other(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer, other = fair.person(deposit=10_000), fair.person(deposit=10_000)
    orders = []
    for epsilon in ("0.5", "1"):
        fair.buy(other, product, epsilon)
        orders.append(fair.buy(buyer, product, epsilon)["receipt"])
    credit = {"amount_minor": 500, "reason": "pricing error"}
    fair.client.post(f"/v1/orders/{orders[0]['order']}/credits", json=credit, headers=fair.operator.headers)
    lines = fair.client.get("/v1/account/postings", headers=buyer.headers).json()
    seen = [(line["entry"], line["kind"], line["amount_minor"], line["currency"]) for line in lines]
    assert seen == [
        (1, "deposit", 10_000, "EUR"),
        (2, "payment", -1200, "EUR"),
        (3, "payment", -1800, "EUR"),
        (4, "credit", 500, "EUR"),
    ]
    assert [line["reference"] for line in lines[1:3]] == [receipt["order"] for receipt in orders]
    held = fair.client.get("/v1/account", headers=buyer.headers).json()["balance_minor"]
    assert sum(line["amount_minor"] for line in lines) == held
    first = fair.client.get("/v1/account/postings?count=3", headers=buyer.headers)
    assert (first.json(), first.headers["link"]) == (
        lines[:3],
        '</v1/account/postings?count=3&after=3>; rel="next"',
    )
    rest = fair.client.get("/v1/account/postings?count=3&after=3", headers=buyer.headers)
    assert (rest.json(), "link" in rest.headers) == (lines[3:], False)
    assert fair.client.get("/v1/account/postings?count=0", headers=buyer.headers).status_code == 400
    fair.client.post("/v1/payouts", json={"currency": "EUR"}, headers=fair.operator.headers)
    (paid,) = fair.client.get("/v1/account/postings", headers=fair.owner().headers).json()
    assert (paid["entry"], paid["kind"], paid["amount_minor"] > 0) == (1, "payout", True)
