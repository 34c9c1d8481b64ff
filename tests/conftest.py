"""Options and skips that all tests share. A skipped test always prints why."""

from __future__ import annotations

import os
import shutil

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-rounds", type=int, default=3, help="how often each random kill is repeated")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    for item in items:
        if item.get_closest_marker("needs_root") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))
        if item.get_closest_marker("needs_gcc") and compiler is None:
            item.add_marker(pytest.mark.skip(reason="needs a C compiler (gcc)"))
