"""The documents: links lead somewhere, every command is told of, and no path of a developer's machine is in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gsched.cli.registry import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def anchor(heading: str) -> str:
    """The anchor that a heading gets: lower case, blanks as dashes, other characters left out."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(document: Path) -> set[str]:
    return {anchor(line.lstrip("#")) for line in document.read_text().splitlines() if line.startswith("#")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        if target.startswith("https://"):
            continue
        name, _, fragment = target.partition("#")
        place = (document.parent / name).resolve() if name else document
        assert place.exists(), target
        assert not fragment or fragment in anchors(place), target


def test_every_document_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    missing = [
        path.name for path in ROOT.glob("docs/*.md") if path.name != "index.md" and f"({path.name})" not in index
    ]
    assert missing == []


def test_every_command_is_told_of() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    assert [name for name in COMMANDS if name not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_are_placeholders(document: Path) -> None:
    text = document.read_text()
    assert set(re.findall(r"/home/(\w+)", text)) <= {"ann"}
    assert not re.search(r"/(tmp|root|work|mnt)/\S", text)
