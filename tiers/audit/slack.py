"""A2 where steps have slack: such chains are drawn top-down only, no tier is put in later."""

from collections.abc import Iterable

from tiers.audit.charges import slack_of
from tiers.audit.findings import Finding
from tiers.errors import TierError
from tiers.identity import DrawSpec, Role, TierLaw

__all__ = ["check_bridge"]


def check_bridge(spec: DrawSpec, known: Iterable[TierLaw], where: str) -> tuple[Finding, ...]:
    """Return a finding if a late tier is put into a chain with a step that is not exactly certified.

    There the coalition bound fails: discrete Gaussians σ 1 → [1.1] → 1.2 with the middle bridged have δ(½) 0.1842 for
    the pair, against 0.1808 of the best of them.

    Args:       known: the laws that the chain had before. where: of the draw.
    Example:
        >>> from fractions import Fraction
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> from tiers.sensitivity import ChangeSet
        >>> top, middle, low = (TierLaw(TwoSidedGeometric(Fraction(r)), ChangeSet.scalar(1)) for r in (3, 2, 1))
        >>> check_bridge(DrawSpec("0" * 64, 1, Role.BRIDGE, middle, (top, low), 0, 1, ""), [top, low], "leaf 4")
        ()
    """
    if spec.role not in (Role.BRIDGE, Role.LATE_TOP):
        return ()
    laws = {law.identity: law for law in (*known, spec.law)}
    try:
        slack = slack_of(laws.values())
    except TierError as error:
        return (Finding("A2", "slack-bridged", where, "exact steps to its neighbours", type(error).__name__),)
    if slack == 0:
        return ()
    return (
        Finding("A2", "slack-bridged", where, spec.role.value, f"a step of the chain has slack {float(slack):.2g}"),
    )
