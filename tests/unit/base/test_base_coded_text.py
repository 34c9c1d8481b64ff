"""Texts with codes: their sentences, and that no module asks for the words of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import gsched
from gsched.base.coded_text import CodedText, coded, has_code, listed, order_of, sentence
from gsched.base.counts import Count, counted
from gsched.base.errors import NotFound
from gsched.base.sentences import SENTENCES
from gsched.model.gpus.xid import FATAL_XIDS, describe_xid
from tests.support.source_trees import tree_of

ROOT = Path(gsched.__file__).parent
OF_BEFORE = ROOT / "model" / "texts_of_before.py"
"""The one module that knows texts by their words: those that older stores and agents have."""
TABLES = ROOT / "base" / "sentences"
SEARCHES = frozenset(
    {"startswith", "endswith", "find", "rfind", "index", "count", "partition", "rpartition", "removeprefix"}
    | {"removesuffix", "replace", "split", "match", "fullmatch", "search", "compile", "sub"}
)
_BLANK = re.compile(r"\{[^}]*\}")


def test_a_sentence_is_made_of_code_and_parameters() -> None:
    text = coded("gpu.foreign", "ann", 4711, 700, coded("gpu.and_more", 2))
    assert sentence(text) == str(text) == "foreign(ann,4711,700) and 2 more"
    assert sentence("told before") == "told before"
    assert has_code(text, "gpu.dirty", "gpu.foreign") and not has_code("gpu.foreign", "gpu.foreign")
    assert sentence(listed([coded("limit.elements")] * 2)) == "elements started, elements started" and listed([]) == ""


@pytest.mark.parametrize(("count", "shown"), [(0, "0 GPUs"), (1, "1 GPU"), (2, "2 GPUs")])
def test_of_one_thing_the_singular_is_said(count: int, shown: str) -> None:
    assert sentence(coded("numbers.reservation_gpus", count, "r", 5, "h")) == f"{shown} wanted, r has 5 left on h"
    told = sentence(coded("numbers.window_keeps_all", "r", 1, count, "h"))
    assert told == f"r keeps 1 slot and {shown} on h, which is wanted alone"
    assert f"{Count(count)} {Count(count):d} {Count(count):g} {Count(count):03}" == f"{count} {count} {count} 00{count}"
    assert counted(1, "kinds of jobs") == "1 kind of jobs" and counted(12, "hosts") == "12 hosts"


def test_a_long_list_is_not_nested_deeply() -> None:
    """What travels may not be (gsched.wire.messages.convert)."""
    texts = [coded("remark.slots", number) for number in range(1000)]
    found = listed(["", *texts, ""], "list.semicolon")
    assert sentence(found) == "; ".join(f"{number} slots" for number in range(1000))

    def depth(text: object) -> int:
        return 1 + max(map(depth, text.values), default=0) if isinstance(text, CodedText) else 0

    assert depth(found) < 14


def test_an_error_keeps_its_code() -> None:
    error = NotFound(coded("account.unknown", "ann", "h"))
    assert error.said == coded("account.unknown", "ann", "h")
    assert str(error) == error.text == "there is no user ann on host h" and NotFound("words").said == "words"


def test_errors_of_drivers_have_words_by_their_numbers() -> None:
    assert sentence(describe_xid(79)) == "XID 79 (it has fallen off the bus)"
    assert sentence(describe_xid(1000)) == "XID 1000" and describe_xid(79) == coded(
        "xid.described", 79, coded("xid.79")
    )
    assert all(has_code(describe_xid(number), "xid.described") for number in FATAL_XIDS)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (CodedText("of.another.version"), "of.another.version"),
        (CodedText("of.another.version", (1, "a")), "of.another.version(1, a)"),
        (CodedText("gpu.dirty", (1,)), "gpu.dirty(1)"),
        (CodedText("note.gmem_exceeded", (1, 2, "u", "h", "much")), "note.gmem_exceeded(1, 2, u, h, much)"),
        (CodedText("gpu.dirty", ("{0.__class__}", "{9}", "")), "dirty({0.__class__},{9})"),
    ],
)
def test_what_another_version_says_is_shown_somehow(text: CodedText, shown: str) -> None:
    assert sentence(text) == shown


def test_texts_are_ordered_by_what_they_say_not_by_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [coded("pending.locked"), coded("gpu.dirty", 1, 2, ""), coded("gpu.busy", "a", 1, 2, ""), "b", "a"]
    before = sorted(texts, key=order_of)
    monkeypatch.setitem(SENTENCES, "pending.locked", "")
    assert sorted(texts, key=order_of) == before


@cache
def _modules() -> list[tuple[Path, ast.Module]]:
    own = (path for path in sorted(ROOT.rglob("*.py")) if not path.name.endswith(("_pb2.py", "_pb2_grpc.py")))
    return [(path, tree_of(path)) for path in own if path != OF_BEFORE and TABLES not in path.parents]


def _strings(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


@dataclass
class Found:
    """What a module has that these tests look at."""

    asked: list[tuple[int, ast.AST]] = field(default_factory=list)
    """What is compared, searched for or matched: line and operand."""
    coded: list[ast.Call] = field(default_factory=list)
    """Calls of `coded`."""
    strings: set[str] = field(default_factory=set)


@cache
def _found() -> list[tuple[Path, Found]]:
    """Of each module, gone through once for all tests."""
    return [(path, _look_through(tree)) for path, tree in _modules()]


def _look_through(tree: ast.Module) -> Found:
    found = Found()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                found.strings.add(node.value)
        elif isinstance(node, ast.Compare):
            found.asked += [(node.lineno, each) for each in (node.left, *node.comparators)]
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
                found.asked += [(node.lineno, each) for each in (node.func.value, *node.args)]
            elif isinstance(node.func, ast.Name) and node.func.id == "coded":
                found.coded.append(node)
        elif isinstance(node, ast.MatchValue):
            found.asked.append((node.lineno, node.value))
    return found


def _in_one(texts: Iterable[str]) -> str:
    """Each after a character that none of them has: thousands of strings are looked for in them."""
    return "".join(f"\0{text}" for text in texts)


WORDS = _in_one(piece for text in SENTENCES.values() for piece in _BLANK.split(text))
BEGINNINGS = _in_one(SENTENCES.values())


def _is_of(text: str) -> bool:
    """Whether the text is several words of a sentence, or how one begins; a bare word in small letters is neither."""
    if " " in text.strip() and len(text) >= 8:
        return text.strip() in WORDS
    text = text.strip()
    begins = len(text) >= 5 and not (text.islower() and text.replace("_", "").isalnum())
    return begins and f"\0{text}" in BEGINNINGS


@pytest.mark.parametrize(
    ("asked", "found"),
    [("dirty(", True), ("UNKILLABLE", True), ("A foreign process is on GPU", True), ("ngpus", False), ("/", False)],
)
def test_words_are_found(asked: str, found: bool) -> None:
    assert _is_of(asked) is found


@pytest.mark.sources
def test_nobody_asks_for_words_of_a_sentence() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for path, module in _found()
        for line, operand in module.asked
        for text in _strings(operand)
        if _is_of(text)
    ]
    assert not found, found


@pytest.mark.sources
def test_nobody_compares_or_searches_a_sentence_that_was_made() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, module in _found()
        for line, operand in module.asked
        if isinstance(operand, ast.Call) and isinstance(operand.func, ast.Name) and operand.func.id == "sentence"
    ]
    assert not found, found


@pytest.mark.sources
def test_every_code_has_a_sentence_with_a_blank_for_each_parameter() -> None:
    used = set()
    for path, module in _found():
        for node in module.coded:
            for code in [text for text in _strings(node.args[0]) if re.fullmatch(r"[a-z]+\.[a-z0-9_]+", text)]:
                used.add(code)
                where = f"{path.relative_to(ROOT)}:{node.lineno}: {code}"
                assert code in SENTENCES, where
                blanks = {int(number) for number in re.findall(r"\{(\d+)", SENTENCES[code])}
                if not any(isinstance(each, ast.Starred) for each in node.args):
                    assert blanks <= set(range(len(node.args) - 1)), where
    assert len(used) > 150


def test_a_code_stands_in_one_table() -> None:
    trees = [tree_of(path) for path in TABLES.glob("*_texts.py")]
    tables = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    codes = [key.value for table in tables for key in table.keys if isinstance(key, ast.Constant)]
    assert sorted(codes) == sorted(SENTENCES)


@pytest.mark.sources
def test_every_sentence_is_used() -> None:
    used = set().union(*(module.strings for _, module in _found()))
    used |= set(_strings(tree_of(OF_BEFORE)))
    families = ("load.", "xid.", "failure.", "idle.", "why_not.")  # their codes are put together
    assert [code for code in SENTENCES if code not in used and not code.startswith(families)] == []
