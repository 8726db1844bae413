"""What is shown beside the raw vectors of a question at one tier: texts, each with its confidence or its interval."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import TypeAlias

import msgspec

from app.queries.canonical import MeanSteps, canonicalise
from app.queries.component import components
from app.queries.model import Quantile, Query, Threshold
from app.queries.readings import MeanReading, NoiseLaw, Shape, read_mean, read_quantile, read_threshold
from app.queries.schema import DatasetSchema
from tiers.budget import decimal_text
from tiers.chain import CONFIDENCE

__all__ = [
    "MeanShown",
    "MeansShown",
    "NothingShown",
    "Presentation",
    "QuantileShown",
    "ThresholdShown",
    "ThresholdsShown",
    "outward",
    "present",
    "rounding",
]

_DIGITS = 12
_SUREST = Fraction(9999, 10_000)


class NothingShown(msgspec.Struct, frozen=True, tag="nothing"):
    """The raw vector says it all."""


class ThresholdShown(msgspec.Struct, frozen=True):
    """One bit, and how sure the tier is of it (rounded down): see `app.queries.readings.read_threshold`."""

    reached: bool
    confidence: str


class ThresholdsShown(msgspec.Struct, frozen=True, tag="threshold"):
    """Which counts reach the threshold, in canonical order."""

    at: int
    entries: tuple[ThresholdShown, ...]


class QuantileShown(msgspec.Struct, frozen=True, tag="quantile"):
    """The bin of the quantile, lower ≤ value < upper, and an interval of whole bins; an open side is None."""

    fraction: str
    lower: str | None
    upper: str | None
    interval_lower: str | None
    interval_upper: str | None
    confidence: str


class MeanShown(msgspec.Struct, frozen=True):
    """One mean to 12 digits, its interval rounded outwards; `shape` says whether it is bounded, and on what terms.

    `half_width` is the least bar around the estimate as shown that holds the interval, rounded up.
    """

    estimate: str
    half_width: str | None
    lower: str | None
    upper: str | None
    shape: Shape


class MeansShown(msgspec.Struct, frozen=True, tag="mean"):
    """The means, in canonical order; the confidence is of each interval alone."""

    entries: tuple[MeanShown, ...]
    confidence: str


Presentation: TypeAlias = NothingShown | ThresholdsShown | QuantileShown | MeansShown


def present(
    query: Query,
    schema: DatasetSchema,
    raws: Sequence[Sequence[int]],
    laws: Sequence[NoiseLaw],
    confidence: Fraction = CONFIDENCE,
) -> Presentation:
    """Return what is shown beside the raw answers to `query` at one tier: a pure function of what the buyer has.

    Args:       query: as its product asks it (fraction and threshold are in no canonical form). raws, laws: one vector,
                in canonical order, and one noise law for each of `components`, in their order.
    Raises:     ValueError: another number of vectors, laws or entries than the question has.
    Example:
        >>> from app.queries.model import parse_query
        >>> from app.queries.schema import Column
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> columns = (Column(name="age", type="integer"),)
        >>> schema = DatasetSchema(columns=columns, salt="0" * 64, max_rows_per_unit=1, max_groups_per_unit=1)
        >>> query = parse_query(b'{"measure": {"type": "threshold", "of": "units", "at": 100}}')
        >>> present(query, schema, [[105]], [TwoSidedGeometric(Fraction(1))]).entries
        (ThresholdShown(reached=True, confidence='0.9981'),)
    """
    canonical = canonicalise(query, schema)
    expected = [each.query.length for each in components(canonical)]
    if [len(raw) for raw in raws] != expected or len(laws) != len(expected):
        raise ValueError(f"raws: expected vectors of {expected} entries and a law for each, got others")
    if isinstance(canonical.measure, MeanSteps):
        grain = Fraction(2) ** canonical.measure.total.grain_exponent
        centre = canonical.measure.total.centre * grain
        means = [
            read_mean(total, count, (laws[0], laws[1]), centre=centre, grain=grain, confidence=confidence)
            for total, count in zip(*raws, strict=True)
        ]
        return MeansShown(tuple(_mean(mean) for mean in means), decimal_text(confidence))
    match query.measure:
        case Threshold(at=at):
            bits = [read_threshold(count, at, laws[0]) for count in raws[0]]
            shown = tuple(ThresholdShown(bit.reached, _sure(bit.confidence)) for bit in bits)
            return ThresholdsShown(at, shown)
        case Quantile(fraction=fraction):
            found = read_quantile(raws[0], Fraction(fraction), laws[0], confidence)
            bins = canonical.ranges
            return QuantileShown(
                fraction=decimal_text(Fraction(fraction)),
                lower=bins[found.place].lower,
                upper=bins[found.place].upper,
                interval_lower=bins[found.first].lower,
                interval_upper=bins[found.last].upper,
                confidence=decimal_text(confidence),
            )
        case _:
            return NothingShown()


def _mean(reading: MeanReading) -> MeanShown:
    lower = None if reading.lower is None else _text(reading.lower, ROUND_FLOOR)
    upper = None if reading.upper is None else _text(reading.upper, ROUND_CEILING)
    estimate, bar = _text(reading.estimate, ROUND_HALF_EVEN), None
    if reading.lower is not None and reading.upper is not None:
        shown = Fraction(estimate)
        bar = outward(max(reading.upper - shown, shown - reading.lower))
    return MeanShown(estimate, bar, lower, upper, reading.shape)


def outward(bar: Fraction) -> str:
    """Return a bar as a decimal of 12 significant digits, rounded up.

    Example:
        >>> outward(Fraction(2, 3)), outward(Fraction(1, 4))
        ('0.666666666667', '0.25')
    """
    return _text(bar, ROUND_CEILING)


def rounding(largest: Fraction) -> Fraction:
    """Return the most by which an estimate of at most this size is off because 12 digits of it are shown: half a unit.

    Example:
        >>> rounding(Fraction(10)) == Fraction(1, 2) * Fraction(10) ** -10
        True
    """
    return largest * Fraction(5, 10**_DIGITS)


def _sure(confidence: float) -> str:
    """Rounded down to four places; a double of 1.0 is not a certainty."""
    return decimal_text(min(Fraction(int(confidence * 10_000), 10_000), _SUREST))


def _text(value: Fraction, rounding: str) -> str:
    """A plain decimal of 12 significant digits, rounded to the named side."""
    quotient = Context(prec=_DIGITS, rounding=rounding).divide(Decimal(value.numerator), Decimal(value.denominator))
    text = f"{quotient:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
