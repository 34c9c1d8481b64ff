"""docs/security.md keeps its word: every test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "security.md"


def named() -> set[str]:
    return set(re.findall(r"`(test_\w+)`", DOCUMENT.read_text()))


def written() -> set[str]:
    tests = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for text in tests for name in re.findall(r"^\s*(?:async )?def (test_\w+)\(", text, re.MULTILINE)}


def test_every_test_that_the_document_names_exists() -> None:
    assert named() - written() == set()
