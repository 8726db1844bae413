"""The gate of a release, on a market that sells."""

import time
from pathlib import Path
from typing import Any

from app.audit.gate import Gate
from app.demo.flights import DATASET, provide_file
from app.main import build_app
from app.settings import Settings
from benchmarks._audit_market import KEYS

__all__ = ["gate_times"]


def gate_times(folder: Path, sales: int) -> tuple[float, list[float]]:
    """Return milliseconds of the gate at a chain's first release, and at each later one."""
    from litestar.testing import TestClient

    from app.demo.run import open_operator

    settings = Settings.at(folder)
    settings.prepare()
    provide_file(settings.data)
    operator = open_operator(settings)
    times: list[float] = []
    honest = Gate.check

    def timed(self: Gate, *arguments: Any) -> Any:
        started = time.perf_counter()
        found = honest(self, *arguments)
        times.append((time.perf_counter() - started) * 1000)
        return found

    Gate.check = timed  # type: ignore[method-assign]
    try:
        with TestClient(build_app(settings)) as client:

            def post(path: str, body: dict[str, Any], key: str, **headers: str) -> dict[str, Any]:
                made = client.post(path, json=body, headers={"Authorization": f"Bearer {key}"} | headers)
                assert made.is_success, made.text
                return dict(made.json())

            owner = post("/v1/accounts", {"role": "owner", "name": "owner"}, operator)["api_key"]
            buyer = post("/v1/accounts", {"role": "buyer", "name": "buyer"}, operator)
            money = {"amount_minor": 10**9, "currency": "EUR", "reference": "r"}
            post(f"/v1/accounts/{buyer['account']}/deposits", money, operator)
            dataset = post("/v1/datasets", DATASET | {"budget": "1000"}, owner)["dataset"]
            product = post("/v1/products", _product(dataset), owner)["product"]
            for number in range(sales + 1):
                epsilon = ("0.1", "2", "1", "0.5")[number % 4]
                quote = post("/v1/quotes", {"product": product, "epsilon": epsilon}, buyer["api_key"])["quote"]
                post(
                    "/v1/orders",
                    {"quote": quote, "licence": "bench/1"},
                    buyer["api_key"],
                    **{"Idempotency-Key": f"k{number}"},
                )
    finally:
        Gate.check = honest  # type: ignore[method-assign]
    return times[0], times[1:]


def _product(dataset: str) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "title": "Late by more than 30",
        "unit_label": "flights",
        "left_out": "flights of one aircraft beyond 10",
        "licence": "bench/1",
        "currency": "EUR",
        "query": {
            "measure": {"type": "count", "of": "rows"},
            "where": {"type": "comparison", "column": "arr_delay", "operator": ">", "value": 30},
            "group_by": {"type": "keys", "column": "carrier", "keys": list(KEYS)},
            "rows_per_unit": 10,
            "groups_per_unit": 2,
        },
        "tiers": [{"epsilon": text, "price_minor": 100} for text in ("2", "1", "0.5", "0.1")],
    }
