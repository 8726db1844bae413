"""What the documents name exists: files, folders, commands, make targets."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PATHS = re.compile(r"`((?:app|tiers|pricing|tests|docs|benchmarks|deploy)/[\w./-]*)`")
LINKS = re.compile(r"\]\((?!https?:|#)([^)#]+)\)")
TARGETS = re.compile(r"`?make ([a-z-]+)`?")
COMMANDS = re.compile(r"tiermarket ([a-z-]+)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_links_targets_and_commands_exist(document: Path) -> None:
    from app.cli import main

    text = document.read_text()
    for path in PATHS.findall(text):
        assert (ROOT / path).exists(), path
    for link in LINKS.findall(text):
        assert (document.parent / link).exists(), link
    makefile = (ROOT / "Makefile").read_text()
    for target in TARGETS.findall(text):
        assert f"\n{target}:" in makefile or target in ("sure",), target
    for command in COMMANDS.findall(text):
        assert command in main.commands, command
