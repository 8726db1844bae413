"""A5: the draws of a log that may be tested, fed to a watch; its alarms as findings."""

import math
from collections.abc import Iterable, Mapping

from tiers.audit.findings import Finding
from tiers.audit.records import ChainKey, Evidence, History
from tiers.audit.selection import Due, due_draws
from tiers.audit.watch import Alarm, Watch

__all__ = ["alarm_findings", "alarm_rule", "check_conformance", "feed"]


def check_conformance(history: History, evidence: Evidence, watch: Watch) -> tuple[Finding, ...]:
    """Feed every draw that has become due since the watch last looked, and return its alarms as findings.

    A draw whose answers are not all opened is left out here; that it should have been is a finding of A7.

    Guarantee:  as `Watch`: one false finding, ever, with probability at most its α, on top of what A7 computes exactly.
    Example:
        >>> check_conformance(History((), {}, {}, (), (), ()), Evidence({}, {}), Watch())
        ()
    """
    found: list[Finding] = []
    for due in due_draws(history, watch.leaf):
        found += feed(watch, due, evidence.openings)
    return (*found, *alarm_findings(watch.alarms()))


def feed(watch: Watch, due: Due, openings: Mapping[ChainKey, tuple[bytes, tuple[int, ...]]]) -> tuple[Finding, ...]:
    """Feed one due draw, for a log that is read once; what is off the lattice is a finding at once, and never fed.

    Example:
        >>> from tiers.audit.records import DrawRecord
        >>> from tiers.budget import Ladder
        >>> from tiers.chain import plan, specs
        >>> step = specs("0" * 64, plan(Ladder.parse(["2", "1"]), 1), epoch=1, grain=0, length=1)[1]
        >>> feed(Watch(), Due(3, DrawRecord(2, step, 1, (), "", "")), {})
        ()
    """
    spec = due.draw.spec
    watch.leaf = due.leaf
    names = [(spec.chain, law.identity) for law in (spec.law, *spec.parents)]
    opened = [openings[name][1] for name in names if name in openings]
    if len(opened) < len(names) or any(len(answer) != spec.length for answer in opened):
        return ()
    answer, upper, *lower = opened
    if any(type(value) is not int for row in opened for value in row):
        return (Finding("A5", "lattice", f"leaf {due.draw.leaf}", "integers of the lattice", "other numbers"),)
    gaps = [low - high for low, high in zip(lower[0], upper, strict=True)] if lower else None
    watch.see(spec, [value - above for value, above in zip(answer, upper, strict=True)], gaps)
    return ()


def alarm_findings(alarms: Iterable[Alarm]) -> tuple[Finding, ...]:
    """Return a watch's alarms as findings: rules law, pooled, repeats-between-bins, -chains, -tiers.

    Example:
        >>> alarm_findings(Watch().alarms())
        ()
    """
    return tuple(
        Finding(
            "A5",
            alarm_rule(alarm),
            alarm.pair,
            f"e below {_power(alarm.limit)}",
            f"e = {_power(alarm.log_e)} over {alarm.values} values",
        )
        for alarm in alarms
    )


def alarm_rule(alarm: Alarm) -> str:
    """Return the rule by which findings name an alarm's process.

    Example:
        >>> alarm_rule(Alarm("repeats between bins", "all pairs", 20.0, 16.3, 300))
        'repeats-between-bins'
    """
    return alarm.process.replace(" ", "-")


def _power(log_value: float) -> str:
    return f"10^{log_value / math.log(10):.1f}"
