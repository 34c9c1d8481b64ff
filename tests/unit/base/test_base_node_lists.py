"""Lists of nodes as Slurm writes them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.base.node_lists import MOST_NODES, expand_lists, expand_nodes, fold_in_order, fold_nodes, node_order

HOSTILE = [
    "n" + "[1]" * 2000,
    "n" + "[1-2]" * 9,
    f"n[{'1' * 5000}]",
    f"n[{'0' * 3900}1-9]",
    f"n[1-{'9' * 10}]",
    f"n[{','.join(['1'] * 100_000)}]",
    f"{'n' * 2000}[1-10000]",
    ",".join(["n[1-1000]"] * 11),
]
"""Lists that would fill the memory, or the stack, of who reads them."""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10,12],gpu", ["n08", "n09", "n10", "n12", "gpu"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_expanded(text: str, names: list[str]) -> None:
    assert expand_nodes(text) == names


@pytest.mark.parametrize(
    "text", [*HOSTILE, "n[1-", "n[]", "n[3-1]", "n[1-2-3]", "n]", "n[1-2]]", "n[0-99999999]", "n[a]"]
)
def test_refused_in_time(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(BadRequest, match=r"Invalid (node )?list"):
        expand_nodes(text)
    assert time.process_time() - begun < 5


def test_names_of_all_lists_of_a_call_are_counted_together() -> None:
    assert len(expand_lists(["n[1-5000]", "g[1-5000]"])) == MOST_NODES
    with pytest.raises(BadRequest, match=f"more than {MOST_NODES} nodes"):
        expand_lists(["n[1-5000]", "g[1-5001]"])
    with pytest.raises(BadRequest, match="more than 1048576 characters"):
        expand_lists(["n" * 100_000 for _ in range(11)])


_HOSTILE_PIECES = st.sampled_from(
    ["n", "[", "]", ",", "-", "[1-9]", "[01,2]", "0" * 50, "9" * 12, "[1]" * 9, "[1-10000]"]
)


@given(st.lists(_HOSTILE_PIECES, max_size=60).map("".join))
def test_any_text_is_a_bounded_list_or_refused(text: str) -> None:
    try:
        names = expand_nodes(text)
    except BadRequest:
        return
    assert len(names) <= MOST_NODES
    assert expand_nodes(fold_in_order(names)) == [name for name in names if name]


def test_many_names_are_folded_in_one_pass() -> None:
    names = [f"n{number}" for number in range(MOST_NODES)]
    begun = time.process_time()
    assert fold_in_order(names) == f"n[0-{MOST_NODES - 1}]"
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n1"], "n1"),
        (["n3", "n1", "n2", "n7", "gpu"], "gpu,n[1-3,7]"),
        (["n09", "n10", "n11"], "n[09-11]"),
        (["n9", "n10"], "n[9-10]"),
        ([], ""),
    ],
)
def test_folded(names: list[str], text: str) -> None:
    assert fold_nodes(names) == text


@given(st.sets(st.from_regex(r"[a-z]{1,2}-?[0-9]{0,3}", fullmatch=True), max_size=20))
def test_folding_loses_nothing(names: set[str]) -> None:
    assert set(expand_nodes(fold_nodes(names))) == names


@pytest.mark.parametrize(
    ("names", "text"),
    [(["n3", "n1"], "n3,n1"), (["n1", "n2", "n3", "gpu", "n4"], "n[1-3],gpu,n4"), (["n09", "n10"], "n[09-10]")],
)
def test_folded_in_their_order(names: list[str], text: str) -> None:
    assert fold_in_order(names) == text and expand_nodes(text) == names


@given(st.lists(st.from_regex(r"[a-z]{1,2}-?[0-9]{0,3}", fullmatch=True), max_size=20, unique=True))
def test_folding_in_order_keeps_it(names: list[str]) -> None:
    assert expand_nodes(fold_in_order(names)) == names


def test_names_are_in_order_of_their_numbers() -> None:
    names = ["n10", "n2", "a3b12", "n1", "a3b2", "n", "n01"]
    assert sorted(names, key=node_order) == ["a3b2", "a3b12", "n", "n1", "n01", "n2", "n10"]
