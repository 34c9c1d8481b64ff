"""All hosts at once: the mask of a select expression is the verdict of each host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsched.base.errors import RequirementError
from gsched.resreq.judging import compiler
from gsched.resreq.judging.columns import TextColumn, compile_mask, compile_numbers
from gsched.resreq.judging.evaluate import Value, compile_number, compile_select
from gsched.resreq.judging.select import compile_forms
from gsched.resreq.parsing.syntax import parse
from tests.support.property_examples import examples

NUMBERS, BOOLEANS, TEXTS = ("n", "m", "r1m"), ("big",), ("fab", "other", "type", "hname")


class Hosts:
    """Columns made of hosts' values, as `evaluate` takes them. `is_coded` chooses the form of text columns."""

    def __init__(self, hosts: list[dict[str, Value]], is_coded: bool = True) -> None:
        self.size = len(hosts)
        self._numbers = {
            name: np.array([np.nan if (value := host.get(name)) is None else float(value) for host in hosts])
            for name in (*NUMBERS, *BOOLEANS)
        }
        texts: dict[str, list[Any]] = {name: [host.get(name) for host in hosts] for name in TEXTS}
        self._texts = {
            name: TextColumn.of(texts[name]) if is_coded else np.array(texts[name], object) for name in TEXTS
        }

    def number(self, name: str) -> Any:
        return self._numbers.get(name)

    def text(self, name: str) -> Any:
        return self._texts.get(name)


_figures = st.sampled_from([None, 0.0, 1.0, 2.0, -1.0, 0.5, 1e300, float("inf"), float("-inf")])
_words = st.sampled_from([None, "a", "b", "ib-0", "1", "10core", "LINUX", "any", "local", ""])
_hosts = st.lists(
    st.fixed_dictionaries(
        {
            **dict.fromkeys(NUMBERS, _figures),
            **dict.fromkeys(BOOLEANS, st.sampled_from([0.0, 1.0])),
            **dict.fromkeys(TEXTS, _words),
        }
    ),
    max_size=6,
)

_operands = st.sampled_from(["n", "m", "cpu", "big", "0", "1", "2.5", "1G", "lost", "fab", "(fab)", "(other)"])
_sums = st.recursive(
    _operands,
    lambda inner: (
        st.builds("{}{}{}".format, inner, st.sampled_from([" + ", " - ", "*", "/"]), inner)
        | st.builds("-({})".format, inner)
        | st.builds("({}{}{})".format, inner, st.sampled_from([">", "=="]), inner)
    ),
    max_leaves=4,
)
_relations = st.sampled_from(["==", "=", "!=", "<", ">", "<=", ">="])
_text_tests = st.builds(
    "{}{}{}".format,
    st.sampled_from(["fab", "other", "type", "hname", "n", "lost", "(fab)"]),
    _relations,
    st.sampled_from(["'a'", "b", "any", "local", "LINUX", "1", "10core", "'ib-0'", "other", "''"]),
)
_leaves = st.builds("{}{}{}".format, _sums, _relations, _sums) | _text_tests | _sums
_leaves |= st.sampled_from(["defined(n)", "defined(fab)", "defined(lost)", "n", "big", "1", "0"])
_expressions = st.recursive(
    _leaves,
    lambda inner: (
        st.builds("({})&&({})".format, inner, inner)
        | st.builds("({})||({})".format, inner, inner)
        | st.builds("!({})".format, inner)
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=examples(70), suppress_health_check=list(HealthCheck))
@given(_expressions, _hosts, st.sampled_from([None, "LINUX"]), st.booleans())
def test_the_mask_is_each_hosts_verdict(
    text: str, hosts: list[dict[str, Value]], local_type: str | None, is_coded: bool
) -> None:
    try:
        select = parse(text).select
    except RequirementError:
        return  # text where only a number can stand, or the like
    assert select is not None
    judge = compile_select(select, local_type=local_type)
    expected = [judge(host).holds for host in hosts]
    mask = compile_mask(select, local_type=local_type)(Hosts(hosts, is_coded))
    assert mask.holds.tolist() == [holds is True for holds in expected]
    assert mask.unknown.tolist() == [holds is None for holds in expected]


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(_sums, _hosts)
def test_numbers_of_an_expression_are_each_hosts_number(text: str, hosts: list[dict[str, Value]]) -> None:
    try:
        (key,) = parse(f"order[({text})]").order
    except RequirementError:
        return
    assert key.expression is not None
    number = compile_number(key.expression)
    expected = [np.nan if (value := number(host)) is None else value for host in hosts]
    np.testing.assert_array_equal(compile_numbers(key.expression)(Hosts(hosts)), np.array(expected, dtype=np.float64))


@pytest.mark.parametrize("size", [0, 3])
def test_what_no_column_decides_is_the_same_for_all_hosts(size: int) -> None:
    hosts = Hosts([{"type": "A"}] * size)
    assert compile_mask(None)(hosts).holds.tolist() == [True] * size
    assert compile_mask(parse("1>2").select)(hosts).holds.tolist() == [False] * size
    assert compile_mask(parse("lost>2").select)(hosts).unknown.tolist() == [True] * size
    assert compile_mask(parse("type==local").select)(hosts).unknown.tolist() == [True] * size
    assert compile_mask(parse("type==local").select, local_type="A")(hosts).holds.tolist() == [True] * size


def test_a_column_of_text_remembers_few_comparisons_and_gives_the_same_again() -> None:
    column = TextColumn.of(["a", None, "b", "a"])
    assert column.values() == ["a", None, "b", "a"]
    first = column.compare("==", "a")
    assert column.compare("==", "a") is first
    for i in range(2000):
        column.compare("!=", str(i))
    holds, maybe = column.compare("==", "a")
    assert holds.tolist() == [True, False, False, True]
    assert maybe.tolist() == [True, True, False, True]


def test_columns_are_not_changed() -> None:
    hosts = Hosts([{"n": 1.0, "fab": "a"}, {"n": None, "fab": None}])
    before = hosts.number("n").copy()
    mask = compile_mask(parse("n && fab==a").select)(hosts)
    mask.holds[:] = False
    compile_numbers(parse("order[(n)]").order[0].expression or pytest.fail())(hosts)
    np.testing.assert_array_equal(hosts.number("n"), before)


def test_what_an_expression_means_is_said_once_for_one_host_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    select = parse("type==any").select
    hosts: list[dict[str, Value]] = [{"type": "A"}, {}]

    def verdicts() -> tuple[list[bool | None], list[bool]]:
        forms = compile_forms(select)
        return [forms.judge(host).holds for host in hosts], forms.mask(Hosts(hosts)).holds.tolist()

    assert verdicts() == ([True, True], [True, True])
    monkeypatch.setattr(compiler, "WILDCARD_NAMES", frozenset())
    assert verdicts() == ([False, None], [False, False])
