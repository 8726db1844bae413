"""What is read off a question's rounds, as it is committed to and sold: an estimate, its bar, and who was left out."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tiers.adaptive.asking import Answer
from tiers.adaptive.counting import CountReading
from tiers.adaptive.density import DensityReading
from tiers.adaptive.elimination import Fate
from tiers.adaptive.neighbours import NearestReading
from tiers.budget import decimal_text
from tiers.canonical import Document

__all__ = ["answer_document"]

_PLACES = 10**9
_FARTHEST = 18  # (6²)/2: who is beyond six bandwidths adds e⁻¹⁸ at most


def answer_document(answer: Answer[Any], bandwidth: float | None = None) -> dict[str, Document]:
    """Return an answer's document: a function of what was released, and of nothing else.

    Guarantee:  an estimate lies in [low, high], a density's moved there where noise took it out. With 1 − β, all of it
                at once: the true number of all people lies there too; so does the density of
                those who were asked; the s-th person named is at most `farther` farther away than the s-th nearest of
                those who were asked, and `exact` says truly that they are the nearest.
    Args:       bandwidth: of a density.
    """
    reading, left = answer.reading, answer.ended.fate == Fate.UNDECIDED
    told: dict[str, Document] = {
        "rounds": answer.ended.rounds,
        "asked": len(answer.members),
        "left_out": answer.excluded,
    }
    match reading:
        case CountReading():
            open_ones = reading.undecided + reading.dropped + answer.excluded
            return told | {
                "kind": "range",
                "estimate": reading.estimate,
                "low": reading.certain,
                "high": reading.certain + open_ones,
                "undecided": reading.undecided,
                "dropped": reading.dropped,
                "margin": _text(reading.margin, math.ceil),
            }
        case DensityReading():
            assert bandwidth is not None
            low, high = _density_bar(answer, left, bandwidth)
            return told | {
                "kind": "density",
                "estimate": _text(min(max(reading.estimate, low), high), round),
                "low": _text(low, math.floor),
                "high": _text(high, math.ceil),
                "undecided": reading.near,
                "dropped": reading.dropped,
            }
        case NearestReading():
            widest = float(answer.width[left].max(initial=0.0))
            return told | {
                "kind": "nearest",
                "people": [int(place) + 1 for place in answer.members[reading.chosen]],
                "exact": reading.exact,
                "undecided": reading.candidates,
                "dropped": reading.dropped,
                "farther": _text(2 * widest, math.ceil),
            }
    raise AssertionError("a reading is of one of three kinds")


def _density_bar(answer: Answer[Any], left: Any, bandwidth: float) -> tuple[float, float]:
    """Return between what the kernel's mean lies, each distance lying within its width of its estimate."""
    found, width = answer.ended.estimate[left], answer.width[left]
    nearest, farthest = np.maximum(found - width, 0) / bandwidth, np.maximum(found + width, 0) / bandwidth
    beyond = int((answer.ended.fate == Fate.ABOVE).sum())
    asked = len(found) + beyond
    low = float(np.exp(-0.5 * farthest**2).sum()) / asked
    high = (float(np.exp(-0.5 * nearest**2).sum()) + beyond * math.exp(-_FARTHEST)) / asked
    return max(low * (1 - 1e-9), 0.0), min(high * (1 + 1e-9), 1.0)


def _text(value: float, rounding: Any) -> str:
    return decimal_text(Fraction(rounding(value * _PLACES), _PLACES))
