"""What a mean's tier promises before it is sold: bars by how many rows there are, without a number from the data."""

from fractions import Fraction

import msgspec
from msgspec.structs import replace

from app.errors import InvalidRequestError
from app.queries.canonical import CanonicalQuery, SumSteps
from app.queries.presentation import outward, rounding
from app.queries.readings import NoiseLaw, joint_half_width, mean_bar
from app.views import MeanBarView, TierView
from pricing.errors import NoTierWithinError
from tiers.budget import decimal_text
from tiers.chain import CONFIDENCE

__all__ = ["bar_at", "bars_of", "place_within"]

_ROWS = (100, 1_000, 10_000, 100_000, 1_000_000)


def bars_of(query_json: str, laws: tuple[NoiseLaw, NoiseLaw], rows: tuple[int, ...] = _ROWS) -> MeanBarView:
    """Return the bars of a mean's tier from its sum's question and the two laws: nothing else is in them."""
    measure = msgspec.json.decode(query_json, type=CanonicalQuery).measure
    assert isinstance(measure, SumSteps)
    grain = Fraction(2) ** measure.grain_exponent
    view = MeanBarView(
        confidence=decimal_text(CONFIDENCE),
        sum_half_width=decimal_text(joint_half_width(laws[0], CONFIDENCE) * grain),
        count_half_width=joint_half_width(laws[1], CONFIDENCE),
        reach=decimal_text(measure.step * grain),
        largest=decimal_text((abs(measure.centre) + measure.step) * grain),
        bars=[],
    )
    bars = [(count, bar_at(view, count)) for count in rows]
    return replace(
        view, bars=[{"rows": count, "half_width": None if bar is None else outward(bar)} for count, bar in bars]
    )


def bar_at(view: MeanBarView, rows: int) -> Fraction | None:
    """Return the exact bar that a tier promises for every table of at least `rows` rows, of the estimate as shown.

    No mean passes `largest`, so on the event that both noises keep to their half-widths no estimate passes `largest`
    and its own bar: what showing 12 digits of it can add is known too, and is in the bar.

    Guarantee:  P(|estimate as shown − mean| ≤ bar) ≥ the view's confidence.
    """
    widths = Fraction(view.sum_half_width), view.count_half_width
    bar = mean_bar(widths, reach=Fraction(view.reach), rows=rows)
    return None if bar is None else bar + rounding(Fraction(view.largest) + bar)


def place_within(tiers: list[TierView], within: Fraction, rows: int | None) -> int:
    """Return the place of the cheapest tier of a mean whose bar is at most the asked one, if there are `rows` rows.

    Raises:     InvalidRequestError: no number of rows: without one, no bar is known before the answer is.
                NoTierWithinError: even the most accurate tier's bar is wider.
    """
    if rows is None:
        raise InvalidRequestError(
            "rows: expected with `within` for a mean, whose interval depends on how many rows there are, got none"
        )
    bars = [None if tier.mean is None else bar_at(tier.mean, rows) for tier in tiers]
    for place in reversed(range(len(tiers))):  # prices never rise along the ranks
        bar = bars[place]
        if bar is not None and bar <= within:
            return place
    known = [bar for bar in bars if bar is not None]
    raise NoTierWithinError(outward(within), outward(min(known)) if known else f"none with {rows} rows")
