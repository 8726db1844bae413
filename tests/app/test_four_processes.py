"""Four processes on one store: a right that is taken is gone from all, and one first sale has one draw."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from app.demo.run import open_operator
from app.embedded import die_with_parent
from app.settings import Limits, Settings
from app.store.database import open_engine
from app.store.schema import draws, orders
from tests.conftest import HISTOGRAM, rows, tiers
from tests.processes import end, quiet_port


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """No limits: what is counted here is answers and draws, of many buyers at once."""
    return replace(Settings.at(tmp_path / "market"), limits=Limits(0, 0, 0))


@contextmanager
def processes(settings: Settings, count: int) -> Iterator[list[str]]:
    """Serve a market by several processes on ports of their own; yield where they are."""
    with ExitStack() as stack:
        bases = []
        log = stack.enter_context((settings.state / "log").open("wb"))
        environment = os.environ | {
            "TIERMARKET_STATE": str(settings.state),
            "PROMETHEUS_MULTIPROC_DIR": str(settings.state / "metrics"),
        }
        (settings.state / "metrics").mkdir()
        for _ in range(count):
            port = quiet_port()
            command = ["granian", "--interface", "asgi", "--factory", "--log-level", "warning", "app.main:create_app"]
            server = subprocess.Popen(
                [sys.executable, "-m", *command, "--port", str(port)],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - before any thread starts
            )
            stack.callback(end, server)
            bases.append(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + 600
        for base in bases:
            while time.monotonic() < deadline:
                try:
                    if httpx.get(f"{base}/health/ready", timeout=60).status_code == 200:
                        break
                except httpx.HTTPError:
                    time.sleep(0.1)
        yield bases


def market_of_processes(settings: Settings) -> tuple[Any, dict[str, Any], str]:
    """A function that posts as somebody, the body of a product, and the operator's key."""
    operator = open_operator(settings)
    (settings.data / "people.csv").write_text(rows())

    def post(base: str, path: str, body: Any, key: str, **headers: str) -> Any:
        who = {"Authorization": f"Bearer {key}"} | headers
        return httpx.post(f"{base}{path}", json=body, headers=who, timeout=600)

    return post, {"query": HISTOGRAM, "tiers": tiers(("2", 900), ("1", 300))}, operator


def offered(post: Any, base: str, product: dict[str, Any], operator: str) -> str:
    from tests.conftest import COLUMNS

    owner = post(base, "/v1/accounts", {"role": "owner", "name": "o"}, operator).json()["api_key"]
    body = {"name": "people", "title": "People", "file": "people.csv", "columns": COLUMNS, "unit": "person"}
    body |= {"ordering": ["day", "amount"], "max_rows_per_unit": 10, "max_groups_per_unit": 3, "budget": "5"}
    dataset = post(base, "/v1/datasets", body, owner).json()["dataset"]
    made = {"dataset": dataset, "title": "t", "unit_label": "rows", "left_out": "", "licence": "x", "currency": "EUR"}
    return str(post(base, "/v1/products", made | product, owner).json()["product"])


def buyer_of(post: Any, base: str, operator: str) -> tuple[str, str]:
    made = post(base, "/v1/accounts", {"role": "buyer", "name": "b"}, operator).json()
    paid = {"amount_minor": 10**6, "currency": "EUR", "reference": "r"}
    assert post(base, f"/v1/accounts/{made['account']}/deposits", paid, operator).status_code == 201
    return made["account"], made["api_key"]


@pytest.mark.long
def test_four_processes_stop_answering_a_revoked_key_within_a_second_and_the_one_that_revoked_at_once(
    settings: Settings,
) -> None:
    post, product, operator = market_of_processes(settings)
    with processes(settings, 4) as bases:
        offer = offered(post, bases[0], product, operator)
        account, key = buyer_of(post, bases[0], operator)
        quote = post(bases[0], "/v1/quotes", {"product": offer, "epsilon": "1"}, key).json()["quote"]
        answer = post(bases[0], "/v1/orders", {"quote": quote, "licence": "x"}, key, **{"Idempotency-Key": "k"}).json()[
            "answer"
        ]
        with ExitStack() as stack:
            who = {"Authorization": f"Bearer {key}"}
            clients = [stack.enter_context(httpx.Client(base_url=base, headers=who, timeout=600)) for base in bases]
            path = f"/v1/answers/{answer['chain']}/{answer['law']}"
            for client in clients:
                assert [client.get(path).status_code for _ in range(20)] == [200] * 20
            admin = {"Authorization": f"Bearer {operator}"}
            (held,) = httpx.get(f"{bases[1]}/v1/accounts/{account}/keys", headers=admin).json()
            gone = httpx.delete(f"{bases[1]}/v1/accounts/{account}/keys/{held['key']}", headers=admin, timeout=600)
            revoked = time.monotonic()
            assert gone.status_code == 200
            assert clients[1].get(path).status_code == 401
            late: list[float] = []
            while time.monotonic() < revoked + 1.5:
                for client in clients:
                    asked = time.monotonic()
                    if client.get(path).status_code == 200:
                        late.append(asked - revoked)
            assert max(late, default=0.0) < 1.0
            assert [client.get(path).status_code for client in clients] == [401] * 4


@pytest.mark.long
def test_sixty_four_buyers_of_one_first_sale_on_four_processes_get_one_draw(settings: Settings) -> None:
    post, product, operator = market_of_processes(settings)
    with processes(settings, 4) as bases:
        offer = offered(post, bases[0], product, operator)
        keys = [buyer_of(post, bases[n % 4], operator)[1] for n in range(64)]
        quotes = [post(bases[0], "/v1/quotes", {"product": offer, "epsilon": "2"}, key).json()["quote"] for key in keys]
        gate, replies = threading.Barrier(64), list[Any]()

        def buy(place: int) -> None:
            gate.wait()
            body = {"quote": quotes[place], "licence": "x"}
            replies.append(post(bases[place % 4], "/v1/orders", body, keys[place], **{"Idempotency-Key": "k"}))

        threads = [threading.Thread(target=buy, args=(place,)) for place in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [reply.status_code for reply in replies] == [201] * 64
        assert len({str(reply.json()["answer"]) for reply in replies}) == 1
        assert sorted(reply.json()["receipt"]["charge_nano"] for reply in replies) == [0] * 63 + [2 * 10**9]
        admin = {"Authorization": f"Bearer {operator}"}
        metrics = httpx.get(f"{bases[0]}/metrics", headers=admin).text
        assert "tiermarket_queries_total 1.0" in metrics
    engine = open_engine(settings.database_url)
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(draws)).scalar_one() == 2
        assert connection.execute(select(func.count()).where(orders.c.charge_nano > 0)).scalar_one() == 1
    engine.dispose()
