"""The `plan` command's work: texts in, a chain's plan out, as a document or a table."""

import re
from fractions import Fraction
from typing import Any

from rich.table import Table

from tiers.budget import Ladder, decimal_text, parse_decimal
from tiers.chain import CONFIDENCE, ChainPlan, PlannedTier, plan
from tiers.errors import InvalidParameterError
from tiers.guarantee import PureDP
from tiers.identity import TierLaw
from tiers.noise.hockey import float_above
from tiers.residual.certificate import BallProof, Certificate, ClosedForm
from tiers.sensitivity import ChangeSet

__all__ = ["change_set_of", "document_of", "plan_of_texts", "table_of"]

_INTEGER = re.compile(r"[0-9]{1,19}\Z")


def plan_of_texts(ladder: str, change_set: ChangeSet, family: str, delta: str, *, allow_slack: bool) -> ChainPlan:
    """Return the plan that a command line asks for; ε and δ are the decimals that the texts say, exactly.

    Raises:     TierError: whatever is wrong with the texts or with the chain.
    Example:
        >>> chain = plan_of_texts("2, 0.1", ChangeSet.scalar(1), "auto", "0", allow_slack=False)
        >>> [tier.epsilon for tier in chain.tiers]
        [Fraction(2, 1), Fraction(1, 10)]
    """
    texts = [text.strip(" ") for text in ladder.split(",")] if ladder.strip(" ") else []
    return plan(Ladder.parse(texts), change_set, family, parse_decimal("delta", delta), allow_slack=allow_slack)


def change_set_of(sensitivity: str | None, bins: str | None, step: str | None, total: str | None) -> ChangeSet:
    """Return the change set of one number, or of a vector.

    Raises:     InvalidParameterError: neither or both are described, or a bound is not a whole number in its range.
    Example:
        >>> change_set_of(None, "2", "10", "15")
        ChangeSet(bins=2, step=10, total=15)
    """
    vector = {"bins": bins, "step": step, "total": total}
    given = [name for name, text in vector.items() if text is not None]
    if sensitivity is not None and not given:
        return ChangeSet.scalar(_integer("sensitivity", sensitivity))
    if sensitivity is None and len(given) == len(vector):
        return ChangeSet(**{name: _integer(name, str(text)) for name, text in vector.items()})
    got = ["sensitivity"] * (sensitivity is not None) + given
    raise InvalidParameterError("sensitivity", "either one number's, or all of bins, step and total", got)


def document_of(chain: ChainPlan, family: str) -> dict[str, Any]:
    """Return the plan as a JSON document: exact numbers as texts, the rest as doubles.

    Example:
        >>> chain = plan_of_texts("2,1", ChangeSet.scalar(1), "auto", "0", allow_slack=False)
        >>> document_of(chain, "auto")["tiers"][1]["error_bar"]
        3
    """
    change = chain.change_set
    return {
        "change_set": {"bins": change.bins, "step": change.step, "total": change.total},
        "confidence": decimal_text(CONFIDENCE),
        "delta": decimal_text(chain.tiers[0].law.delta),
        "exact": chain.exact,
        "family": family,
        "tiers": [_tier(chain, tier) for tier in chain.tiers],
    }


def table_of(chain: ChainPlan) -> Table:
    """Return the plan as a table for a terminal."""
    table = Table(title=f"a chain of {len(chain.tiers)} tiers for {_change_text(chain.change_set)}")
    for name in ("tier", "ε", "δ", "noise", "± 95 %", "std. error", "× best alone", "same as above", "step rests on"):
        table.add_column(name, justify="left" if name in ("noise", "step rests on") else "right")
    for tier, row in zip(chain.tiers, document_of(chain, "")["tiers"], strict=True):
        same, certificate = row["same_as_above"], row["certificate"]
        table.add_row(
            str(tier.rank),
            row["epsilon"],
            f"{row['guarantee']['delta']:.6g}",
            _noise_text(tier.law),
            str(tier.half_width),
            f"{row['standard_error']:.4g}",
            "unknown" if row["ratio"] is None else f"{row['ratio']:.3f}",
            "" if same is None else f"{same:.1%}",
            "the truth" if certificate is None else certificate["rests_on"],
        )
    return table


def _tier(chain: ChainPlan, tier: PlannedTier) -> dict[str, Any]:
    guarantee = chain.guarantee(tier.rank)
    delta = Fraction(0) if isinstance(guarantee, PureDP) else guarantee.delta
    place = chain.tiers.index(tier)
    return {
        "best_alone": tier.best_alone.family,
        "certificate": _certificate(chain.certificates[place - 1]) if place else None,
        "epsilon": decimal_text(tier.epsilon),
        "error_bar": tier.half_width,
        "family": tier.law.noise.family,
        "guarantee": {"delta": float_above(delta), "epsilon": decimal_text(guarantee.epsilon)},
        "law": tier.law.identity,
        "parameters": tier.law.noise.parameters(),
        "rank": tier.rank,
        "ratio": tier.ratio,
        "same_as_above": tier.same_as_above,
        "standard_error": tier.variance**0.5,
        "variance": tier.variance,
    }


def _certificate(certificate: Certificate) -> dict[str, Any]:
    found: dict[str, Any] = {"rests_on": certificate.rests_on, "slack": float_above(certificate.tau)}
    match certificate:
        case ClosedForm(identity):
            return found | {"identity": identity}
        case BallProof(checked_to, least, tail):
            return found | {"checked_to": checked_to, "least": least, "tail": tail}
    return found | {"distance": certificate.distance, "negative": certificate.negative, "ring": certificate.ring}


def _noise_text(law: TierLaw) -> str:
    inside = ", ".join(f"{name} {text}" for name, text in law.noise.parameters().items())
    return f"{law.noise.family} ({inside})"


def _change_text(change: ChangeSet) -> str:
    if change.bins == 1:
        return f"one number of sensitivity {change.total}"
    return f"a vector: a unit touches {change.bins} entries, each by {change.step}, by {change.total} in all"


def _integer(name: str, text: str) -> int:
    if not _INTEGER.match(text) or not 1 <= int(text) <= 2**62:
        raise InvalidParameterError(name, "a whole number from 1 to 2⁶², in ASCII digits", text)
    return int(text)
