"""An environment with Spark beside this one, made on first use, and a Java runtime by Debian's own means."""

import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REQUIREMENTS = HERE / "requirements-spark.txt"


def java() -> None:
    """Install a Java runtime where there is none; without one, and no way to it, the test is skipped."""
    if not shutil.which("java") and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-q"], check=True, capture_output=True)
        install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "default-jre-headless"]
        subprocess.run(install, check=True, capture_output=True)
    if not shutil.which("java"):
        pytest.skip("no Java on this machine")


def python() -> Path:
    """Return the interpreter of an environment that has Spark, and all that this one has."""
    home, wanted = ROOT / ".venv-peers" / "spark", REQUIREMENTS.read_text()
    found, stamp = home / "bin" / "python", home / "installed"
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(home, with_pip=True, clear=True)
        own = subprocess.run(
            [found, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        (Path(own.stdout.strip()) / "beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
        install = [found, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "-r", REQUIREMENTS]
        subprocess.run(install, check=True)
        stamp.write_text(wanted)
    return found


def submit(*arguments: str) -> None:
    """Run the job of a module as a cluster would, on two cores of this machine."""
    java()
    interpreter = str(python())
    environment = os.environ | {
        "PYSPARK_PYTHON": interpreter,
        "PYSPARK_DRIVER_PYTHON": interpreter,
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --driver-memory 1g --conf spark.ui.enabled=false pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",
    }
    subprocess.run([interpreter, *arguments], check=True, cwd=ROOT, env=environment, timeout=1800, capture_output=True)
