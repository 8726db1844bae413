"""The house's rules that a machine can check: arrows, exports, randomness, names."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for package in ("app", "pricing", "tiers") for path in (ROOT / package).rglob("*.py"))
ALLOWED = {
    "tiers": {"tiers", "numpy", "scipy", "flint", "cryptography"},
    "pricing": {"pricing", "tiers", "numpy", "scipy"},
}
THIRD = {"litestar", "sqlalchemy", "redis", "duckdb", "httpx", "msgspec", "structlog", "app", "jinja2", "os", "time"}
RANDOM = {"random", "numpy.random", "secrets"}


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_arrows_point_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    if package == "app":
        return
    for name in imported(path):
        top = name.split(".")[0]
        assert top not in THIRD, f"{name}: {package} is pure"
        if top in ("app", "pricing", "tiers"):
            assert top in ALLOWED[package]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_noise_path_has_no_general_purpose_generator(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    names = imported(path)
    if package in ("tiers", "pricing"):
        assert not names & RANDOM
    assert "random" not in names
    text = path.read_text()
    assert "np.random" not in text
    assert "default_rng" not in text


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_exports_are_explicit_sorted_and_complete(path: Path) -> None:
    if path.name in ("__init__.py", "__main__.py") or "migrations" in path.parts:
        return
    tree = ast.parse(path.read_text())
    listed: list[str] = []
    defined: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            listed = [element.value for element in node.value.elts]  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            defined.add(node.name)
    assert listed, "__all__ is missing"
    assert listed == sorted(listed, key=_order), "isort-style: CONSTANTS, Classes, functions"
    assert defined <= set(listed), f"public but not listed: {sorted(defined - set(listed))}"


def _order(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_no_file_names_the_workplace() -> None:
    words = [bytes(word, "ascii") for word in ("/wo" + "rk/", ".libr" + "ary", "sha" + "red/", "DEVELO" + "PERS")]
    tracked = [p for p in ROOT.rglob("*") if p.is_file() and not {".git", ".venv", ".venv-peers"} & set(p.parts)]
    texts = [p for p in tracked if p.suffix in (".py", ".md", ".toml", ".txt", ".lock", ".html", ".css", ".json", "")]
    for path in texts:
        if any(part.startswith(".") and part.endswith("_cache") for part in path.parts) or ".hypothesis" in path.parts:
            continue
        content = path.read_bytes()
        for word in words:
            assert word not in content, f"{path.relative_to(ROOT)} holds {word!r}"
