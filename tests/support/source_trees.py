"""The project's own sources as syntax trees, for tests that read them; each is parsed once however many tests ask."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The module of a file of Python. Who asks must not change it."""
    collects = gc.isenabled()
    gc.disable()  # it would look at all trees again and again, and they stay: that took most of the time
    try:
        return ast.parse(path.read_text("utf8"))
    finally:
        gc.freeze()
        if collects:
            gc.enable()
