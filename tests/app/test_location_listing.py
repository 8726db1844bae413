"""Location panels as everybody sees them: on the storefront's page, and in lists by words."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from app.pages.storefront import _up
from app.settings import Settings
from tests.app import panelling
from tests.app.locating import buy, dataset, opened, points, table
from tests.conftest import Fair, open_fair


@pytest.fixture
def shop(settings: Settings) -> Iterator[Fair]:
    yield from open_fair(settings)


def page(shop: Fair) -> str:
    response = shop.client.get("/")
    assert response.status_code == 200
    assert "default-src 'none'" in response.headers["content-security-policy"]
    return str(response.text)


def articles(text: str) -> list[str]:
    return re.findall(r"<article>.*?</article>", text, re.DOTALL)


def rows(article: str) -> list[tuple[str, ...]]:
    """The table's rows, as they are read."""
    return [
        tuple(re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row))
        for row in re.findall(r"<tr>(.*?)</tr>", article, re.DOTALL)
    ]


def test_a_location_panel_says_what_it_sells_and_what_it_promises_across_its_space(shop: Fair) -> None:
    axes = [{"column": "x", "low": "0", "high": "100"}, {"column": "y", "low": "-5", "high": "100"}]
    panel = opened(shop, "shown", budget="10", query_budget="4", beta="0.025", axes=axes)
    assert buy(shop, shop.person(), panel).status_code == 201
    (article,) = articles(page(shop))
    assert "A city <small>location panel</small>" in article
    assert rows(article) == [
        ("Question", "Price at ρ = 4"),
        ("how many are in a disc, a box or a polygon", "9.00 EUR"),
        ("how dense it is at a point", "5.00 EUR"),
        ("which people, by number, are nearest to a point", "7.00 EUR"),
    ]
    assert "x 0 to 100, y −5 to 100; people are moved to the nearest place of a grid of 0.01 km" in article
    assert "<dd>40; who they are is public" in article
    assert "rho-cgp: all answers together tell two places of one person apart by at most ρ = 10 times the" in article
    assert panel["promise"]["diagonal"].startswith("145.0")
    assert "Λ = 145.01 km: at that distance ρ comes to 210,260" in article
    assert f"from {panel['least_budget']} on" in article
    assert "97.5 %, all of an answer at once" in article
    assert "<dd>1 question</dd>" in article
    assert panel["panel"] in article


def test_what_is_shown_of_a_promise_is_rounded_up_and_never_down() -> None:
    shown = {"5700.87890625": "5,700.9", "97500.0001": "97,501", "99999.1": "100,000", "0.0000001": "0.0000001"}
    shown |= {"1": "1", "12345": "12,345", "123456": "123,460", "0.1234501": "0.12346", "141.42135624": "141.43"}
    for exact, text in shown.items():
        assert _up(exact) == text
        assert float(text.replace(",", "")) >= float(exact)


def test_only_kinds_with_a_price_are_on_the_page(shop: Fair) -> None:
    opened(shop, "counts", prices={"range": 0})
    opened(shop, "others", points(seed=6), prices={"density": 150, "nearest": 1})
    one, two = articles(page(shop))
    assert [row[1] for row in rows(one)[1:]] == ["0.00 EUR"]
    assert [row[1] for row in rows(two)[1:]] == ["1.50 EUR", "0.01 EUR"]


def test_words_of_an_owner_are_words_on_the_page(shop: Fair) -> None:
    hostile = "<script>alert('&')</script>"
    panel = opened(shop, "hostile", title=f"Homes {hostile}", unit=f"km{hostile}", licence=f"{hostile}/1")
    text = page(shop)
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;") == 6, (
        "title twice, unit three times, licence"
    )
    assert panel["panel"] in text


def test_a_page_with_nothing_says_so_and_one_with_location_panels_alone_does_not(shop: Fair) -> None:
    assert "Nothing is on sale yet." in page(shop)
    assert articles(page(shop)) == []
    dataset(shop, "unopened", table(points(), "unopened"))
    assert "Nothing is on sale yet." in page(shop), "a dataset is no panel"
    opened(shop, "alone")
    assert "Nothing is on sale yet." not in page(shop)
    assert len(articles(page(shop))) == 1


def test_location_panels_stand_after_the_panels_in_the_order_in_which_they_opened(shop: Fair) -> None:
    first, second = opened(shop, "one", title="North"), opened(shop, "two", points(seed=6), title="South")
    shop.product(shop.dataset(name="beside"))
    panel = panelling.opened(shop)
    panelling.deliver(shop, panel, reports=panelling.rows(panel, [0, 1, 2]))
    assert panelling.close(shop, panel).status_code == 201
    found = articles(page(shop))
    assert len(found) == 4
    assert [each["panel"] in article for each, article in zip((panel, first, second), found[1:], strict=True)] == [
        True
    ] * 3


def test_location_panels_are_found_by_words_of_title_unit_and_axes(shop: Fair) -> None:
    city = opened(shop, "city", title="A city of Kites", unit="kilometres")
    opened(shop, "sea", points(seed=6), title="A sea", unit="miles")
    anybody = shop.person("auditor")

    def found(words: str) -> Any:
        sent = shop.client.get("/v1/locations", params={"q": words}, headers=anybody.headers)
        return [each["panel"] for each in sent.json()]

    assert found("KITES city") == [city["panel"]]
    assert found("kilometres a") == [city["panel"]]
    assert len(found("x y a")) == 2
    assert found("kites sea") == []
    assert found("kites miles") == []
