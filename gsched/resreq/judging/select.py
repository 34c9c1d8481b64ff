"""A select[] compiled once for all who ask: for one host, for all hosts, and part by part. It knows no host."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gsched.resreq.ast import AllOf, Comparison, Expression, Name, Number, Parenthesized
from gsched.resreq.judging.columns import Mask, ValueColumns, compile_mask
from gsched.resreq.judging.evaluate import Values, Verdict, compile_select
from gsched.resreq.parsing.names import canonical, select_names

_RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class ResourceComparison(NamedTuple):
    """A resource compared with a number; of an unknown value it does not hold."""

    name: str
    relation: Callable[[float, float], bool]
    number: float


class Conjunct(NamedTuple):
    """A part of a select[]."""

    names: frozenset[str]
    """Resources that it looks at."""
    judge: Callable[[Values], Verdict]
    comparison: ResourceComparison | None
    """The same where it says no more than that, of a resource that is no text."""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledSelect:
    """All forms of a select[]."""

    expression: Expression | None
    judge: Callable[[Values], Verdict]
    """Whether one host meets it, and why not."""
    mask: Callable[[ValueColumns], Mask]
    """Which hosts meet it."""
    names: frozenset[str]
    """Resources that it looks at."""
    conjuncts: tuple[Conjunct, ...]
    """The parts that must all hold."""


def compile_forms(expression: Expression | None, *, local_type: str | None = None) -> CompiledSelect:
    """All forms of an expression; None holds everywhere. `local_type`: as for compile_select."""
    return CompiledSelect(
        expression,
        compile_select(expression, local_type=local_type),
        compile_mask(expression, local_type=local_type),
        frozenset() if expression is None else _names(expression),
        tuple(
            Conjunct(_names(each), compile_select(each, local_type=local_type), _comparison(each))
            for each in _conjuncts(expression)
        ),
    )


def _names(expression: Expression) -> frozenset[str]:
    return frozenset(name for name, _ in select_names(expression))


def _comparison(select: Expression) -> ResourceComparison | None:
    """The expression if it compares a resource with a number, by a relation that holds of nothing unknown."""
    match select:
        case Comparison(op, Name(name), Number(number)) if op in _RELATIONS:
            return ResourceComparison(canonical(name), _RELATIONS[op], number)
        case _:
            return None


def _conjuncts(select: Expression | None) -> Iterator[Expression]:
    match select:
        case None:
            return
        case Parenthesized(inner):
            yield from _conjuncts(inner)
        case AllOf(terms):
            for term in terms:
                yield from _conjuncts(term)
        case _:
            yield select
