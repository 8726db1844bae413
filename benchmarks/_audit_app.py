"""The auditor at work: the gate of a release, an audit of a whole market, an export verified offline."""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._audit_export import verify, write
from benchmarks._audit_gate import gate_times
from benchmarks._audit_store import audit, fill
from benchmarks.row import Row, at_least, at_most, beside

EXPECTED = (
    "gate of a release, after the plan's first",
    "gate of a chain's first release",
    "full audit of issued answers in a store",
    "full audit, peak memory",
    "offline verification, one pass",
    "offline verification, peak memory",
)
MEBI = 2**20


def rows(*, quick: bool) -> list[Row]:
    """Measure; `quick` shortens the runs."""
    with tempfile.TemporaryDirectory(prefix="tiermarket-bench-") as folder:
        first, later = gate_times(Path(folder) / "gate", 20 if quick else 200)
        _child("fill", str(Path(folder) / "market"), "500" if quick else "25000")
        whole = _child("audit", str(Path(folder) / "market"))
        shape = ("100", "95") if quick else ("10000", "95")
        export = Path(folder) / "export.ndjson"
        _child("write", str(export), *shape)
        offline = _child("verify", str(export))
        size = export.stat().st_size
    answers, leaves = whole["opened"], offline["leaves"]
    mix = f"{leaves} leaves, {offline['chains']} plans, {offline['draws']} draws, {offline['sales']} sales"
    how = f"{mix}; A2 to A4, A1 once a plan; one process, CPU time"
    whole_how = f"the same file to its end: {offline['opened']} opened, {offline['replayed']} replayed"
    return [
        at_most(EXPECTED[0], statistics.median(later), 1, "ms", f"median of {len(later)}, in the sale's transaction"),
        beside("gate of a release, 95th percentile", statistics.quantiles(later, n=20)[-1], "ms", "of the same"),
        beside(EXPECTED[1], first, "ms", "certificates, question and draws of the chain"),
        at_most(
            EXPECTED[2], whole["seconds"], 60, "s", f"{answers} answers, {whole['replayed']} replayed; wall, 1 process"
        ),
        at_most(EXPECTED[3], whole["mebibytes"], 1024, "MiB", "peak resident memory of that process"),
        at_least(EXPECTED[4], offline["leaves_per_second"], 50_000, "leaves/s", how),
        beside("offline verification with A7", leaves / offline["cpu"], "leaves/s", whole_how),
        at_most(EXPECTED[5], offline["mebibytes"], 1024, "MiB", f"an export of {size / MEBI:.0f} MiB"),
    ]


def _child(act: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks._audit_app", act, *arguments]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
    return dict(json.loads(ended.stdout))


def main() -> None:
    """Run one act in a process of its own, so that its memory is its own."""
    act, where, *numbers = sys.argv[1:]
    acts: dict[str, Callable[..., dict[str, Any]]] = {"write": write, "verify": verify, "fill": fill, "audit": audit}
    outcome = acts[act](Path(where), *(int(number) for number in numbers))
    sys.stdout.write(json.dumps(outcome | {"mebibytes": _peak()}))


def _peak() -> float:
    """Peak resident memory in MiB. Linux counts a parent's into `getrusage` of what it starts, so it is asked first."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEBI


if __name__ == "__main__":
    main()
