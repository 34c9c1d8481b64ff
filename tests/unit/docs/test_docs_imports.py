"""Modules import each other in one direction, and at their top; what is imported late says why."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import gsched
from tests.support.source_trees import tree_of

ROOT = Path(gsched.__file__).parent
MOST_LATE = 52
"""Imports inside functions, all of gsched: each is one that start-up time demands."""


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py")) if "_pb2" not in path.name}


def imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Those that are carried out: what stands below TYPE_CHECKING is for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        else:
            yield from imports(node)


def imported(module: str) -> set[str]:
    found = set()
    for node in imports(tree_of(MODULES[module])):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{each.name}" for each in node.names]
            found.update(name if name in MODULES else str(node.module) for name in names)
        else:
            found.update(each.name for each in node.names)
    return (found & MODULES.keys()) - {module}


@pytest.mark.sources
def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: imported(module) for module in MODULES}
    assert sum(map(len, graph.values())) > 3000
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


@pytest.mark.sources
def test_an_import_inside_a_function_says_why() -> None:
    late = 0
    for path in MODULES.values():
        lines = path.read_text().splitlines()
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            imported_here = [each for each in ast.walk(node) if isinstance(each, ast.Import | ast.ImportFrom)]
            late += len(imported_here)
            if imported_here:
                first, last = imported_here[0].lineno, max(each.end_lineno or each.lineno for each in imported_here)
                assert "#" in "".join(lines[first - 2 : last]), f"{path}:{first}: imported late, and does not say why"
    assert 0 < late <= MOST_LATE
