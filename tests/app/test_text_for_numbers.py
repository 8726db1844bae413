"""Text where a number or a bit is meant is refused at every depth of every body: readers differ on it."""

from typing import Any

from tests.conftest import HISTOGRAM, Fair


def refused(fair: Fair, key: dict[str, str], path: str, body: dict[str, Any]) -> None:
    before = fair.stored()
    response = fair.client.post(path, json=body, headers=key)
    assert (response.status_code, response.headers["content-type"]) == (400, "application/problem+json"), body
    assert response.json()["type"].endswith("/invalid-request")
    assert fair.stored() == before, body


def test_no_route_reads_text_as_a_number_or_a_bit(fair: Fair) -> None:
    owner, buyer, operator = fair.owner().headers, fair.person(), fair.operator.headers
    dataset = fair.dataset()
    product = fair.product(dataset)
    order = fair.buy(buyer, product, "1")["receipt"]["order"]
    offer = fair.product_body(dataset)
    threshold = {"type": "threshold", "of": "units"}
    for text in ("1", "1.0", "1e0"):
        deposit = {"currency": "EUR", "reference": "r", "amount_minor": text}
        refused(fair, operator, f"/v1/accounts/{buyer.account}/deposits", deposit)
        refused(fair, operator, f"/v1/orders/{order}/credits", {"amount_minor": text, "reason": "pricing error"})
        price = [{"epsilon": "1", "price_minor": text}]
        refused(fair, owner, "/v1/products", offer | {"tiers": price})
        refused(fair, owner, "/v1/products", offer | {"query": HISTOGRAM | {"rows_per_unit": text}})
        refused(fair, owner, "/v1/products", offer | {"query": {"measure": threshold | {"at": text}}})
        refused(fair, buyer.headers, "/v1/quotes", {"product": product["product"], "within": "9", "rows": text})
    for bit in ("true", "1", 1):
        refused(fair, owner, f"/v1/products/{product['product']}/withdrawal", {"reason": "r", "faulty": bit})
    held = {"currency": "EUR", "reference": "r", "amount_minor": 1}
    assert fair.client.post(f"/v1/accounts/{buyer.account}/deposits", json=held, headers=operator).status_code == 201
