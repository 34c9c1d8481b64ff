"""Lists of nodes as Slurm writes them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.base.node_lists import expand_nodes, fold_in_order, fold_nodes


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


@pytest.mark.parametrize("text", ["n[1-", "n[]", "n[3-1]", "n[1-2-3]", "n]", "n[1-2]]", "n[0-99999999]", "n[a]"])
def test_refused_in_time(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(BadRequest, match=r"Invalid (node )?list"):
        expand_nodes(text)
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
