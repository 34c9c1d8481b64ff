"""Judges all hosts at once by a select expression: values in columns, one array operation where evaluate judges a host.

Its verdicts are exactly those of `evaluate.compile_select`, host by host, without the reasons. It must never loop over
hosts where numbers are compared, and it is the only module of this floor that knows numpy.

A column of numbers is float64 with NaN for unknown; a Boolean resource is 1.0 or 0.0, and 0.0 where a host lacks it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gsched.resreq.ast import (
    AllOf,
    AnyOf,
    Arithmetic,
    Comparison,
    Defined,
    Expression,
    Name,
    Negate,
    Not,
    Number,
    Parenthesized,
    StringValue,
)
from gsched.resreq.evaluate import WILDCARD_NAMES
from gsched.resreq.host_types import TYPE_NAMES
from gsched.resreq.names import canonical

Booleans: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.float64]

MOST_COMPARISONS_KEPT = 1024
"""Comparisons with a literal that one column of text remembers."""

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "names": lambda names, word: word in names.split(" "),
    "does not name": lambda names, word: word not in names.split(" "),
}
_UNKNOWN = -1


class CodedText:
    """A column of text as codes of distinct words; comparisons with a literal are remembered.

    `codes` has the index into `words` of each host's value, -1 for unknown. It is immutable: a column that changed is
    a new one.
    """

    __slots__ = ("_kept", "codes", "words")

    def __init__(self, codes: NDArray[np.int32], words: tuple[str, ...]) -> None:
        self.codes = codes
        self.words = words
        self._kept: dict[tuple[str, str], tuple[Booleans, Booleans]] = {}

    @classmethod
    def of(cls, values: Iterable[str | None]) -> CodedText:
        """The column of these values, one per host."""
        index: dict[str, int] = {}
        codes = [_UNKNOWN if value is None else index.setdefault(value, len(index)) for value in values]
        return cls(np.array(codes, dtype=np.int32), tuple(index))

    def compare(self, op: str, literal: str) -> tuple[Booleans, Booleans]:
        """(where `value op literal` holds, where it may hold): the second is also true where the value is unknown."""
        found = self._kept.get((op, literal))
        if found is None:
            relation = _RELATIONS[op]
            # The last entry is what code -1 finds: unknown.
            holds = np.array([*(relation(word, literal) for word in self.words), False], dtype=np.bool_)
            maybe = holds.copy()
            maybe[-1] = True
            found = (holds[self.codes], maybe[self.codes])
            if len(self._kept) >= MOST_COMPARISONS_KEPT:
                self._kept.clear()
            for each in found:
                each.flags.writeable = False
            self._kept[op, literal] = found
        return found

    def values(self) -> list[str | None]:
        """The value of each host, None for unknown."""
        words: list[str | None] = [*self.words, None]
        return [words[code] for code in self.codes.tolist()]


class ValueColumns(Protocol):
    """The values of all hosts. A resource is a column of numbers or one of text; what is neither is unknown."""

    @property
    def size(self) -> int:
        """The number of hosts."""
        ...

    def number(self, name: str) -> Numbers | None:
        """The column of a number or Boolean by canonical name; None if the cluster has none of that name."""
        ...

    def text(self, name: str) -> CodedText | NDArray[Any] | None:
        """The column of a text by canonical name; an array of str and None is coded anew at each use."""
        ...


@dataclass(frozen=True, slots=True)
class Mask:
    """The verdict of each host: `holds`, or `unknown`, or neither where the expression is false. Not to be changed."""

    holds: Booleans
    unknown: Booleans


@dataclass(frozen=True, slots=True)
class _Truth:
    """Where a condition holds, and where it may hold: `maybe` is `holds` and where it is unknown. Arrays or scalars."""

    holds: Any
    maybe: Any


_Value: TypeAlias = "Numbers | np.float64 | CodedText | str | None"
"""Numbers, text, one text for all hosts, or None for unknown everywhere."""
_Condition: TypeAlias = Callable[[ValueColumns], _Truth]
_Compute: TypeAlias = Callable[[ValueColumns], _Value]

_TRUE, _FALSE = np.bool_(True), np.bool_(False)
_ALWAYS, _NEVER, _UNCLEAR = _Truth(_TRUE, _TRUE), _Truth(_FALSE, _FALSE), _Truth(_FALSE, _TRUE)


def compile_mask(expression: Expression | None, *, local_type: str | None = None) -> Callable[[ValueColumns], Mask]:
    """A judge of all hosts for `expression`; None holds everywhere. `local_type` is the submission host's type.

    The judge never raises for any values, and its arrays have one entry per host.
    """
    condition = (lambda _: _ALWAYS) if expression is None else _condition(expression, local_type)

    def judge(columns: ValueColumns) -> Mask:
        with np.errstate(all="ignore"):
            truth = condition(columns)
            return Mask(_filled(truth.holds, columns.size), _filled(truth.maybe & ~truth.holds, columns.size))

    return judge


def compile_numbers(expression: Expression) -> Callable[[ValueColumns], Numbers]:
    """A function that gives all hosts' values of `expression`, as order[mem/2] needs it; NaN where unknown."""
    compute = _value(expression, None)

    def numbers(columns: ValueColumns) -> Numbers:
        with np.errstate(all="ignore"):
            value = compute(columns)
        if value is None or isinstance(value, str | CodedText):
            return np.full(columns.size, np.nan)
        return np.full(columns.size, value) if np.ndim(value) == 0 else np.asarray(value)

    return numbers


def _filled(values: Any, size: int) -> Booleans:
    return np.full(size, values, dtype=np.bool_) if np.ndim(values) == 0 else values


def _condition(expression: Expression, local_type: str | None) -> _Condition:
    match expression:
        case Parenthesized(inner):
            return _condition(inner, local_type)
        case Not(operand):
            return _inverted(_condition(operand, local_type))
        case AllOf(terms):
            return _joined([_condition(term, local_type) for term in terms], operator.and_)
        case AnyOf(terms):
            return _joined([_condition(term, local_type) for term in terms], operator.or_)
        case Defined(name):
            return _defined(canonical(name))
        case Comparison():
            return _comparison(expression, local_type)
        case _:
            return _truth(_value(expression, local_type))


def _inverted(condition: _Condition) -> _Condition:
    def judge(columns: ValueColumns) -> _Truth:
        truth = condition(columns)
        return _Truth(~truth.maybe, ~truth.holds)

    return judge


def _joined(terms: list[_Condition], join: Callable[[Any, Any], Any]) -> _Condition:
    """`holds` and `maybe` are joined apart: that is three-valued and, or."""
    first, *others = terms

    def judge(columns: ValueColumns) -> _Truth:
        truth = first(columns)
        holds, maybe = truth.holds, truth.maybe
        for term in others:
            truth = term(columns)
            holds, maybe = join(holds, truth.holds), join(maybe, truth.maybe)
        return _Truth(holds, maybe)

    return judge


def _truth(compute: _Compute) -> _Condition:
    """A number as a condition: not zero."""

    def judge(columns: ValueColumns) -> _Truth:
        value = compute(columns)
        if value is None or isinstance(value, str | CodedText):
            return _UNCLEAR
        maybe = value != 0
        # NaN alone differs from itself.
        return _Truth(maybe & (value == value), maybe)

    return judge


def _defined(name: str) -> _Condition:
    def judge(columns: ValueColumns) -> _Truth:
        value = _column(columns, name)
        if value is None:
            return _NEVER
        known = value.codes >= 0 if isinstance(value, CodedText) else ~np.isnan(value)
        return _Truth(known, known)

    return judge


def _column(columns: ValueColumns, name: str) -> Numbers | CodedText | None:
    numbers = columns.number(name)
    if numbers is not None:
        return numbers
    text = columns.text(name)
    return text if text is None or isinstance(text, CodedText) else CodedText.of(text.tolist())


def _value(expression: Expression, local_type: str | None) -> _Compute:
    match expression:
        case Number(number):
            constant = np.float64(number)
            return lambda _: constant
        case StringValue(text):
            return lambda _: text
        case Name(name):
            wanted = canonical(name)
            return lambda columns: _column(columns, wanted)
        case Parenthesized(inner):
            return _value(inner, local_type)
        case Negate(operand):
            negated = _value(operand, local_type)
            return lambda columns: None if (value := _numbers(negated(columns))) is None else -value
        case Arithmetic(op, left, right):
            return _arithmetic(op, _value(left, local_type), _value(right, local_type))
        case _:
            return _as_number(_condition(expression, local_type))


def _numbers(value: _Value) -> Any:
    return None if isinstance(value, str | CodedText) else value


def _arithmetic(op: str, left: _Compute, right: _Compute) -> _Compute:
    combine = _OPERATORS[op]

    def compute(columns: ValueColumns) -> _Value:
        first, second = _numbers(left(columns)), _numbers(right(columns))
        if first is None or second is None:
            return None
        result = combine(first, second)
        return np.where(np.isfinite(result), result, np.nan)

    return compute


def _as_number(condition: _Condition) -> _Compute:
    """A condition as 1, 0 or unknown, for `(mem>1)+(swp>1)`."""

    def compute(columns: ValueColumns) -> _Value:
        truth = condition(columns)
        return np.where(truth.maybe & ~truth.holds, np.nan, truth.holds * 1.0)

    return compute


def _comparison(expression: Comparison, local_type: str | None) -> _Condition:
    op, relation = expression.op, _RELATIONS[expression.op]
    equality = op in ("==", "=", "!=")
    left, right = _value(expression.left, local_type), _value(expression.right, local_type)
    match expression:
        case Comparison(_, Name(name), StringValue("any")) if name in WILDCARD_NAMES and equality:
            return lambda _: _NEVER if op == "!=" else _ALWAYS
        case Comparison(_, Name("type"), StringValue("local")) if equality:
            right = lambda _: local_type  # noqa: E731
    literal = _literal(expression.right) if equality or isinstance(expression.right, Name) else None
    of_type = equality and isinstance(expression.left, Name) and expression.left.name == "type"

    def judge(columns: ValueColumns) -> _Truth:
        first = left(columns)
        if of_type:
            names, word = _column(columns, TYPE_NAMES), literal if literal is not None else right(columns)
            if isinstance(names, CodedText) and names.words and isinstance(word, str):
                return _Truth(*names.compare("names" if op != "!=" else "does not name", word))
        if first is None:
            return _UNCLEAR
        if isinstance(first, str | CodedText):
            return _text_truth(op, first, literal if literal is not None else right(columns))
        second = _numbers(right(columns))
        if second is None:
            return _UNCLEAR
        holds = relation(first, second)
        unknown = (first != first) | (second != second)
        # NaN alone differs from itself, and of the relations only `!=` is true of it.
        return _Truth(holds & ~unknown if op == "!=" else holds, holds | unknown)

    return judge


def _literal(expression: Expression) -> str | None:
    """`expression` as the value it is if the left side of its comparison turns out to be text; None if it is none."""
    match expression:
        case Name(text) | Number(_, text):
            return text
        case _:
            return None


def _text_truth(op: str, first: CodedText | str, second: _Value) -> _Truth:
    if not isinstance(second, str | CodedText):
        return _UNCLEAR
    if isinstance(first, CodedText) and isinstance(second, str):
        return _Truth(*first.compare(op, second))
    return _word_by_word(op, first, second)


def _word_by_word(op: str, first: CodedText | str, second: CodedText | str) -> _Truth:
    """Two columns of text, which only `a == (b)` compares: host by host."""
    relation = _RELATIONS[op]
    if isinstance(first, str) and isinstance(second, str):
        return _ALWAYS if relation(first, second) else _NEVER
    lefts = first.values() if isinstance(first, CodedText) else repeat(first)
    rights = second.values() if isinstance(second, CodedText) else repeat(second)
    verdicts = [
        None if left is None or right is None else bool(relation(left, right))
        for left, right in zip(lefts, rights, strict=False)
    ]
    return _Truth(
        np.array([verdict is True for verdict in verdicts], dtype=np.bool_),
        np.array([verdict is not False for verdict in verdicts], dtype=np.bool_),
    )
