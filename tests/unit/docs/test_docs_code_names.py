"""A reader finds a thing where its name says: one type, one module, one topic for each name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import gsched
from tests.support.source_trees import tree_of

ROOT = Path(gsched.__file__).parent
MOST_MODULES = 15
"""In one topic."""
MOST_LINES = 60
"""Of a function, its docstring counted."""


def modules() -> Iterator[Path]:
    return (path for path in sorted(ROOT.rglob("*.py")) if "_pb2" not in path.name)


def public_types(path: Path) -> Iterator[str]:
    """Classes and aliases of types (a capital first, no constant) of a module."""
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            continue
        yield from (name for name in names if name[0].isupper() and not name.isupper() and "_" not in name)


def repeated(names: list[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, where in names:
        found[name].append(where)
    return {name: places for name, places in found.items() if len(places) > 1}


def test_a_public_type_stands_in_one_module() -> None:
    # What is in contrib goes by the names that other packages have given it.
    own = [path for path in modules() if "contrib" not in path.relative_to(ROOT).parts]
    names = [(name, str(path.relative_to(ROOT))) for path in own for name in public_types(path)]
    assert len(names) > 500
    assert repeated(names) == {}


def test_a_modules_name_stands_once_in_its_package() -> None:
    paths = [path.relative_to(ROOT) for path in modules() if path.name != "__init__.py"]
    assert repeated([(f"{path.parts[0]}: {path.stem}", str(path)) for path in paths if len(path.parts) > 1]) == {}


def test_a_topic_says_what_it_is_and_is_small() -> None:
    starts = [path for path in ROOT.rglob("__init__.py") if path.parent not in (ROOT, ROOT / "wire" / "v1")]
    assert len(starts) > 50
    for start in starts:
        inside = [path for path in start.parent.glob("*.py") if path != start]
        assert ast.get_docstring(tree_of(start)), start
        assert len(inside) <= MOST_MODULES, start.parent


@pytest.mark.sources
def test_no_function_is_longer_than_a_reader_can_take_in() -> None:
    functions = [
        (node.end_lineno - node.lineno + 1, f"{path.relative_to(ROOT)}: {node.name}")
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    ]
    assert len(functions) > 5000
    assert [function for function in functions if function[0] > MOST_LINES] == []


def test_a_topic_says_where_to_start_and_that_is_there() -> None:
    folders = [path.parent for path in ROOT.rglob("__init__.py") if path.parent not in (ROOT, ROOT / "wire" / "v1")]
    assert len(folders) > 50
    for folder in folders:
        said = ast.get_docstring(tree_of(folder / "__init__.py")) or ""
        found = re.search(r"Start with `(\w+)", said)
        assert found, f"{folder} does not say where to start"
        assert (folder / f"{found[1]}.py").exists() or (folder / found[1]).is_dir(), f"{folder}: {found[1]}"


PACKAGES = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"))
NAMED = re.compile(rf"(?:`(?:gsched\.)?|(?<![\w.])gsched\.)((?:{PACKAGES})(?:\.\w+)+)")
"""`core.engine`, `core.engine.Engine`, gsched.core.engine."""


def is_there(name: str) -> bool:
    """Whether it leads to a module or folder of gsched, or to something that stands in one."""
    place = ROOT
    for number, part in enumerate(parts := name.split(".")):
        if (place / part).is_dir():
            place /= part
            continue
        module, rest = place / f"{part}.py", parts[number + 1 :]
        if not module.exists():
            module, rest = place / "__init__.py", parts[number:]
        return all(re.search(rf"\b{each}\b", module.read_text()) for each in rest)
    return True


@pytest.mark.sources
def test_what_texts_name_of_the_code_is_there() -> None:
    """A docstring or a page that names a module which has moved leads astray."""
    pages = [ROOT.parent / "CONTRIBUTING.md", ROOT.parent / "docs" / "architecture.md", *modules()]
    named = {
        (str(page.relative_to(ROOT.parent)), found[1]) for page in pages for found in NAMED.finditer(page.read_text())
    }
    assert len(named) > 500
    assert sorted(each for each in named if "wire.v1" not in each[1] and not is_there(each[1])) == []


def test_what_the_page_on_architecture_names_of_classes_is_there() -> None:
    sources = {name: path.read_text() for path in modules() for name in public_types(path)}
    page = (ROOT.parent / "docs" / "architecture.md").read_text()
    named = {(found[1], found[2]) for found in re.finditer(r"`([A-Z]\w+)\.(\w+)`", page) if found[1] in sources}
    assert len(named) > 15
    assert [each for each in named if not re.search(rf"\b{each[1]}\b", sources[each[0]])] == []
