"""The storefront: bundles, products, panels and location panels, with prices and promises. Public; holds no answer."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from pathlib import Path

from jinja2 import Environment, PackageLoader
from litestar import MediaType, Response, get
from litestar.di import NamedDependency
from sqlalchemy import Connection

from app.catalog.bundle_views import list_bundles
from app.catalog.views import list_products
from app.locations.listing import locations_after
from app.locations.views import LocationView
from app.market import Market
from app.panels.listing import panels_after
from app.views import BundlePartView, BundleView, PanelView, ProductView, TierView
from pricing.money import Money
from tiers.budget import decimal_text

__all__ = ["storefront", "stylesheet"]

_HERE = Path(__file__).parent
_templates = Environment(loader=PackageLoader("app.pages"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_BAR_WIDTH = 160
_SHOWN = 200
_VALUES = 24
_DIGITS = 5
_KINDS = {
    "range": "how many are in a disc, a box or a polygon",
    "density": "how dense it is at a point",
    "nearest": "which people, by number, are nearest to a point",
}


@dataclass(frozen=True, slots=True)
class _Shelf:
    """A product as the page shows it."""

    view: ProductView
    tiers: list["_Rung"]


@dataclass(frozen=True, slots=True)
class _Rung:
    """A tier as the page shows it: `bar` is its error bar in pixels, the widest tier's being the whole width."""

    view: TierView
    price: str
    bar: int
    bound: str
    same: str


@dataclass(frozen=True, slots=True)
class _Pack:
    """A bundle as the page shows it: prices as texts, and each part with its price alone and its error bar."""

    view: BundleView
    price: str
    alone: str
    saving: str
    parts: list[tuple[BundlePartView, str, str]]


@dataclass(frozen=True, slots=True)
class _Panel:
    """A panel as the page shows it; each tier's bar is that of one value's count in its newest round."""

    view: PanelView
    values: str
    rounds: int
    reports: str
    tiers: list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class _Places:
    """A location panel as the page shows it: Λ and ρ across it rounded up, and each kind of question with its price."""

    view: LocationView
    people: str
    space: str
    diagonal: str
    across: str
    kept: str
    kinds: list[tuple[str, str]]


@get("/", opt={"public": True}, media_type=MediaType.HTML)
async def storefront(market: NamedDependency[Market]) -> Response[str]:
    """Show what is on sale."""

    def read(
        connection: Connection,
    ) -> tuple[list[ProductView], list[BundleView], list[PanelView], list[LocationView]]:
        return (
            list_products(connection, after=-1, count=_SHOWN),
            list_bundles(connection, after=-1, count=_SHOWN),
            panels_after(connection, "", after=-1, count=_SHOWN),
            locations_after(connection, "", after=-1, count=_SHOWN),
        )

    views, bundles, opened, located = await market.database.read(read)
    html = _templates.get_template("storefront.html").render(
        shelves=[_shelf(view) for view in views],
        packs=[_pack(bundle) for bundle in bundles],
        panels=[_panel(view) for view in opened if view.rounds],
        locations=[_places(view) for view in located],
    )
    return Response(html, media_type=MediaType.HTML, headers=_HEADERS)


@get("/static/site.css", opt={"public": True}, media_type="text/css", sync_to_thread=False)
def stylesheet() -> Response[str]:
    """Return the pages' one style sheet."""
    return Response(
        (_HERE / "static" / "site.css").read_text(), media_type="text/css", headers={"Cache-Control": "max-age=300"}
    )


def _panel(view: PanelView) -> _Panel:
    newest = view.rounds[-1]
    tiers = [
        {
            "epsilon": tier.epsilon,
            "across": tier.across or "",
            "price": Money(tier.price_minor, view.currency).text(),
            "bound": f"{float(tier.newest_half_width or 0):,.0f}",
        }
        for tier in view.tiers
    ]
    shown = ", ".join(view.domain[:_VALUES]) + (", …" if len(view.domain) > _VALUES else "")
    if view.axes:
        shown = ", ".join(f"{axis.name} ({len(axis.values)} values, a step is {axis.unit})" for axis in view.axes)
    return _Panel(view, shown, len(view.rounds), f"{newest.reports:,}", tiers)


def _places(view: LocationView) -> _Places:
    ends = [(axis.column, axis.low.replace("-", "−"), axis.high.replace("-", "−")) for axis in view.axes]
    axes = ", ".join(f"{column} {low} to {high}" for column, low, high in ends)
    priced = [(words, getattr(view.prices, kind)) for kind, words in _KINDS.items()]
    return _Places(
        view=view,
        people=f"{view.people:,}",
        space=f"{axes}; people are moved to the nearest place of a grid of {view.grain} {view.promise.unit}",
        diagonal=_up(view.promise.diagonal),
        across=_up(view.promise.rho_whole),
        kept=f"{decimal_text(100 * (1 - Fraction(view.beta)))} %",
        kinds=[(words, Money(price, view.currency).text()) for words, price in priced if price is not None],
    )


def _up(number: str) -> str:
    """Return a number to a few digits, rounded up: what is promised is never better than what is shown."""
    found = Decimal(number)
    shown = found.quantize(Decimal(1).scaleb(found.adjusted() - _DIGITS + 1), ROUND_CEILING)
    return _thousands(f"{shown.normalize():f}")


def _thousands(number: str) -> str:
    whole, point, rest = number.partition(".")
    return f"{int(whole):,}{point}{rest}"


def _pack(view: BundleView) -> _Pack:
    price, alone, saving = (
        Money(amount, view.currency).text() for amount in (view.price_minor, view.alone_minor, view.saving_minor)
    )
    parts = [
        (part, Money(part.price_minor, view.currency).text(), _thousands(part.half_width_value)) for part in view.parts
    ]
    return _Pack(view, price, alone, saving, parts)


def _shelf(view: ProductView) -> _Shelf:
    widest = max(int(tier.half_width) for tier in view.tiers)
    return _Shelf(
        view,
        [
            _Rung(
                view=tier,
                price=Money(tier.price_minor, view.currency).text(),
                bar=max(2, int(tier.half_width) * _BAR_WIDTH // max(widest, 1)),
                bound=_thousands(tier.half_width_value),
                same="–" if tier.same_as_above is None else f"{float(tier.same_as_above):.0%}",
            )
            for tier in view.tiers
        ],
    )
