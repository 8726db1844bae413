"""A5: the alarms of a watch as findings."""

import math
from collections.abc import Iterable

from tiers.audit.findings import Finding
from tiers.audit.watch import Alarm

__all__ = ["alarm_findings", "alarm_rule"]


def alarm_findings(alarms: Iterable[Alarm]) -> tuple[Finding, ...]:
    """Return a watch's alarms as findings: rules law, pooled, repeats-between-bins, -chains, -tiers.

    Example:
        >>> alarm_findings(())
        ()
    """
    return tuple(
        Finding(
            "A5",
            alarm_rule(alarm),
            alarm.pair,
            f"e below {_power(alarm.limit, 6)}",  # another one at every start of a process: that is its name
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


def _power(log_value: float, digits: int = 1) -> str:
    return f"10^{log_value / math.log(10):.{digits}f}"
