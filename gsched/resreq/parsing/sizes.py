"""Which numbers of an expression are sizes that were typed without a unit: `2000` in `mem>=2000`, not in `mem/2000>ut`.

It must never guess from a number's value: only what it is compared or added with tells a size from a bare number.
"""

from __future__ import annotations

from typing import NamedTuple

from gsched.resreq.ast import Arithmetic, Comparison, Expression, Name, Negate, Number, Parenthesized, children
from gsched.resreq.parsing.names import SIZES, canonical


class _Sum(NamedTuple):
    """Whether an expression is a size, and its numbers that have the dimension of the whole."""

    is_size: bool
    numbers: list[Number]


def bare_sizes(expression: Expression) -> list[Number]:
    """The numbers without a unit that are sizes, each with its position; 0 is the same in all units and left out."""
    found: list[Number] = []
    _settle(_sum(expression, found), found)
    return found


def _settle(part: _Sum, found: list[Number]) -> None:
    if part.is_size:
        found += part.numbers


def _sum(expression: Expression, found: list[Number]) -> _Sum:
    """What `expression` is; sizes of parts that are complete in themselves go to `found`."""
    match expression:
        case Number(value, _, has_unit):
            return _Sum(has_unit, [] if has_unit or not value else [expression])
        case Name(name):
            return _Sum(canonical(name) in SIZES, [])
        case Parenthesized(inner) | Negate(inner):
            return _sum(inner, found)
        case Arithmetic(op, left, right):
            return _arithmetic(op, _sum(left, found), _sum(right, found), found)
        case Comparison(_, left, right):
            _settle(_added(_sum(left, found), _sum(right, found)), found)
        case _:
            for child in children(expression):
                _settle(_sum(child, found), found)
    return _Sum(False, [])


def _added(left: _Sum, right: _Sum) -> _Sum:
    return _Sum(left.is_size or right.is_size, left.numbers + right.numbers)


def _arithmetic(op: str, left: _Sum, right: _Sum, found: list[Number]) -> _Sum:
    if op in ("+", "-"):
        return _added(left, right)
    if right.is_size and (left.is_size or op == "/"):  # a ratio, or the square of a size
        _settle(left, found)
        _settle(right, found)
        return _Sum(False, [])
    # One side is a factor without a dimension; of 2*1000 the first number may have one.
    return right if right.is_size else left
