"""The nearest server: lomas-server 0.4.1, in an environment of its own, asked for the count of the same table."""

import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

from app.embedded import die_with_parent, free_port

__all__ = ["SPECIES", "lomas_times", "write_table"]

HERE = Path(__file__).resolve().parent
SPECIES = ("Adelie", "Chinstrap", "Gentoo")
ROWS = 100_000


def write_table(path: Path) -> None:
    """Write the table that both servers count: 10⁵ rows of a category and a number."""
    draw = random.Random(0)
    lines = (f"{draw.choice(SPECIES)},{draw.randrange(2700, 6300)}" for _ in range(ROWS))
    path.write_text("species,mass\n" + "\n".join(lines) + "\n")


def lomas_times(folder: Path, table: Path, repeats: int) -> tuple[float, float, int]:
    """Return milliseconds of the first count and of the median repeat, and how many different answers there were."""
    python, port = _environment(), free_port()
    _configure(folder, table, port)
    environment = os.environ | {
        "LOMAS_CONFIG_PATH": str(folder / "runtime.json"),
        "LOMAS_SECRETS_PATH": str(folder / "secrets.json"),
        "OTEL_SDK_DISABLED": "true",
        "PYTHONWARNINGS": "ignore",
    }
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [str(python), "-m", "lomas_server.uvicorn_serve"],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - before any thread starts
        )
    try:
        _wait(port, server)
        times, answers = [], set()
        for _ in range(repeats + 1):
            started = time.perf_counter()
            answers.add(_count(port))
            times.append((time.perf_counter() - started) * 1000)
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
    return times[0], statistics.median(times[1:]), len(answers)


def _environment() -> Path:
    requirements = HERE / "requirements-serve-lomas.txt"
    home = HERE.parent / ".venv-peers" / "serve-lomas"
    python, stamp, wanted = home / "bin" / "python", home / "installed", requirements.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"making {home.relative_to(HERE.parent)} (first use)", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "-r", str(requirements)]
        subprocess.run(install, check=True, stdout=sys.stderr)
        stamp.write_text(wanted)
    return python


def _configure(folder: Path, table: Path, port: int) -> None:
    columns = {
        "species": {"type": "string", "cardinality": 3, "categories": list(SPECIES)},
        "mass": {"type": "float", "precision": 64, "lower": 2700.0, "upper": 6300.0},
    }
    described = {"max_ids": 1, "rows": ROWS, "row_privacy": True, "censor_dims": False, "columns": columns}
    access = {"dataset_name": "TABLE", "dataset_access": {"database_type": "PATH_DB", "path": str(table)}}
    access["metadata_access"] = {"database_type": "PATH_DB", "path": str(folder / "table.json")}
    held = {"dataset_name": "TABLE", "initial_epsilon": 1e9, "initial_delta": 0.9}
    held |= {"total_spent_epsilon": 0.0, "total_spent_delta": 0.0}
    users = [{"user_name": "u", "may_query": True, "datasets_list": [held]}]
    serving = {"time_attack": {"method": "stall", "magnitude": 0.0}, "host_ip": "127.0.0.1", "host_port": port}
    serving |= {"log_level": "warning", "reload": False, "workers": 1}
    configured = {
        "develop_mode": False,
        "server": serving,
        "submit_limit": 0,
        "admin_database": {"db_type": "yaml", "db_file": str(folder / "admin.yaml")},
        "dp_libraries": {"opendp": {"contrib": True, "floating_point": True, "honest_but_curious": True}},
    }
    documents: dict[str, Any] = {  # JSON is YAML
        "table.json": described,
        "admin.yaml": {"users": users, "datasets": [access], "queries": []},
        "runtime.json": {"runtime_args": {"settings": configured}},
        "secrets.json": {"private_db_credentials": []},
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))


def _count(port: int) -> str:
    body = {"query_str": "SELECT COUNT(*) AS n FROM df", "dataset_name": "TABLE", "epsilon": 0.1, "delta": 0.00001}
    body |= {"mechanisms": {}, "postprocess": True}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Content-type": "application/json", "user-name": "u"}
    connection.request("POST", "/smartnoise_sql_query", json.dumps(body), headers)
    response = connection.getresponse()
    raw = response.read()
    connection.close()
    if response.status != http.HTTPStatus.OK:
        raise RuntimeError(f"lomas-server: {response.status} {raw[:300]!r}")
    return str(json.loads(raw)["result"])


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        try:
            http.client.HTTPConnection("127.0.0.1", port, timeout=2).request("GET", "/state")
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("lomas-server does not answer")
