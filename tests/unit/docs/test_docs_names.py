"""Test files have names of their own: `make nightly` and `make faults` collect all folders in one run, where two files
of one name are one module to Python.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[2]


def test_no_two_test_files_have_one_name() -> None:
    names = Counter(path.name for path in TESTS.rglob("*.py") if path.name != "conftest.py")
    assert names and not [name for name, files in names.items() if files > 1]
