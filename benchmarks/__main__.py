"""Run one benchmark: `python -m benchmarks NAME [--json] [--quick]`.

A benchmark is a module of this package with `EXPECTED` (the names of its rows, as the issue's table has them) and
`rows(quick) -> list[Row]`. Where `requirements-NAME.txt` stands beside it, it has peers: their environment is made on
first use in `.venv-peers/NAME`, and the run moves there, with this project imported from the checkout.
"""

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.row import Row

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NAMES = sorted(p.stem for p in HERE.glob("*.py") if not p.stem.startswith("_") and p.stem != "row")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure one part against its peers.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--quick", action="store_true", help="fewer repeats: a smoke run, not a measurement")
    arguments = parser.parse_args()
    requirements = HERE / f"requirements-{arguments.name}.txt"
    if requirements.exists() and os.environ.get("TIERMARKET_PEERS") != arguments.name:
        return _run_among_peers(arguments.name, requirements)
    module = importlib.import_module(f"benchmarks.{arguments.name}")
    rows: list[Row] = module.rows(quick=arguments.quick)
    missing = sorted(set(module.EXPECTED) - {row.name for row in rows})
    if arguments.json:
        print(json.dumps({"benchmark": arguments.name, "machine": _machine(), "rows": [r.document() for r in rows]}))
    else:
        _print_table(arguments.name, rows)
    for name in missing:
        print(f"missing row: {name}", file=sys.stderr)
    return 1 if missing else 0


def _run_among_peers(name: str, requirements: Path) -> int:
    home = ROOT / ".venv-peers" / name
    python = home / "bin" / "python"
    stamp = home / "installed"
    wanted = requirements.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"making {home.relative_to(ROOT)} (first use)", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "-q", "--require-hashes", "-r", str(requirements)]
        subprocess.run(install, check=True, stdout=sys.stderr)
        stamp.write_text(wanted)
    environment = os.environ | {"TIERMARKET_PEERS": name, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [str(python), "-m", "benchmarks", *sys.argv[1:]], cwd=ROOT, env=environment, check=False
    ).returncode


def _machine() -> dict[str, object]:
    return {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}


def _print_table(name: str, rows: list[Row]) -> None:
    width = max((len(row.name) for row in rows), default=10)
    print(f"benchmark {name}")
    for row in rows:
        verdict = {True: "holds", False: "MISSES", None: ""}[row.holds]
        print(f"  {row.name:<{width}}  {row.value:>14,.6g} {row.unit:<12} {row.bar:<10} {verdict:<7} {row.how}")


if __name__ == "__main__":
    raise SystemExit(main())
