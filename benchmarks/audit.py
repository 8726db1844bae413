"""The audit: its gate and its speed, how many values each saboteur lasts, what an honest market raises.

A row function takes the number of seeds. The auditor at work (gate, a whole market, an export) is `_audit_app`'s.
"""

import hashlib
import statistics
from collections.abc import Callable, Sequence
from time import process_time

from benchmarks import _audit_app
from benchmarks.row import Row, at_most, beside
from tests.audit.saboteurs import SABOTEURS, Saboteur, claimed, honest, values_until_alarm
from tiers.audit.steps import Seen
from tiers.audit.watch import ALPHA, Watch

SEEDS = 200
_DETECTION = [f"{name}: {rank} values" for name in SABOTEURS for rank in ("median", "95th percentile")]
_HONEST = "alarms of 10,000 honest chains at α = 10⁻⁶"
_COST = ["a draw of one value, seen", "a draw of one value, seen with 511 others", "a value of a draw of 1,000, seen"]

EXPECTED = [*_DETECTION, _HONEST, *_COST, *_audit_app.EXPECTED]


def detection(seeds: int) -> list[Row]:
    """Return, for each saboteur, the residual values that the process named for it needed, over the seeds."""
    found = []
    for name, saboteur in SABOTEURS.items():
        needed = sorted(_needed(saboteur, seed) for seed in range(seeds))
        how = f"A5 {saboteur.process}; draws of {saboteur.length}; {seeds} seeds"
        late = needed[min(len(needed) - 1, int(0.95 * len(needed)))]
        found.append(at_most(f"{name}: median values", statistics.median(needed), saboteur.within, "values", how))
        found.append(at_most(f"{name}: 95th percentile values", late, saboteur.within, "values", how))
    return found


def _needed(saboteur: Saboteur, seed: int) -> float:
    values = values_until_alarm(saboteur, seed)
    return float("inf") if values is None else float(values)


def honest_chains(seeds: int) -> list[Row]:
    """Return the alarms that one watch raises over honest chains of four tiers: 50 chains a seed."""
    watch, chains = Watch(), 50 * seeds
    for number in range(chains):
        draws = claimed((1, 4, 20)[number % 3], number, ladder=("4", "2", "1", "0.5"))
        rows = honest(draws, hashlib.sha256(b"benchmark").digest(), number)
        watch.see_all([Seen(spec, rows[at] - rows[at - 1]) for at, spec in enumerate(draws) if at])
    how = f"{chains} chains, looked at after each draw; the rate allows {float(ALPHA):g}"
    return [at_most(_HONEST, len(watch.alarms()), 0, "alarms", how)]


def cost(seeds: int) -> list[Row]:
    """Return the CPU time of a look, for a single answer and for a histogram's entries."""
    found = []
    shapes = ((1, 1, 10 * seeds), (1, 512, 10 * seeds), (1000, 1, seeds))
    for name, (length, together, draws) in zip(_COST, shapes, strict=True):
        specs = claimed(length)
        rows = honest(specs, bytes(32), 0)
        shown, watch = [Seen(specs[1], rows[1] - rows[0])] * together, Watch()
        watch.see_all(shown)
        start = process_time()
        for _ in range(draws):
            watch.see_all(shown)
        spent = (process_time() - start) / (draws * together * length)
        found.append(beside(name, 1e6 * spent, "µs", "CPU time; laws planned once"))
    return found


ROWS: Sequence[Callable[[int], list[Row]]] = (detection, honest_chains, cost)


def rows(quick: bool) -> list[Row]:
    """Measure every row of the table."""
    seeds = 5 if quick else SEEDS
    return [*_audit_app.rows(quick=quick), *(row for measured in ROWS for row in measured(seeds))]
