"""Judges all hosts at once by a select expression: values in columns, one array operation where evaluate judges a host.

Its verdicts are exactly those of `evaluate.compile_select`, host by host, without the reasons. It must never loop over
hosts where numbers are compared, and it is the only module of this floor that knows numpy.

A column of numbers is float64 with NaN for unknown; a Boolean resource is 1.0 or 0.0, and 0.0 where a host lacks it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from gsched.resreq.ast import Expression
from gsched.resreq.judging.compiler import OPERATORS, RELATIONS, Compiler

Booleans: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.float64]

MOST_COMPARISONS_KEPT = 1024
"""Comparisons with a literal that one column of text remembers."""

_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    **RELATIONS,
    "names": lambda names, word: word in names.split(" "),
    "does not name": lambda names, word: word not in names.split(" "),
}
_UNKNOWN = -1


class TextColumn:
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
    def of(cls, values: Iterable[str | None]) -> TextColumn:
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

    def text(self, name: str) -> TextColumn | NDArray[Any] | None:
        """The column of a text by canonical name; an array of str and None is coded anew at each use."""
        ...


class Mask(msgspec.Struct, frozen=True):
    """The verdict of each host: `holds`, or `unknown`, or neither where the expression is false. Not to be changed."""

    holds: Booleans
    unknown: Booleans


class _Truth(msgspec.Struct, frozen=True):
    """Where a condition holds, and where it may hold: `maybe` is `holds` and where it is unknown. Arrays or scalars."""

    holds: Any
    maybe: Any


_Value: TypeAlias = "Numbers | np.float64 | TextColumn | str | None"
"""Numbers, text, one text for all hosts, or None for unknown everywhere."""
_Condition: TypeAlias = Callable[[ValueColumns], _Truth]
_Compute: TypeAlias = Callable[[ValueColumns], _Value]

_TRUE, _FALSE = np.bool_(True), np.bool_(False)
_ALWAYS, _NEVER, _UNCLEAR = _Truth(_TRUE, _TRUE), _Truth(_FALSE, _FALSE), _Truth(_FALSE, _TRUE)


def compile_mask(expression: Expression | None, *, local_type: str | None = None) -> Callable[[ValueColumns], Mask]:
    """A judge of all hosts for `expression`; None holds everywhere. `local_type` is the submission host's type.

    The judge never raises for any values, and its arrays have one entry per host.
    """
    condition = (lambda _: _ALWAYS) if expression is None else Compiler(_ALL_HOSTS, local_type).condition(expression)

    def judge(columns: ValueColumns) -> Mask:
        with np.errstate(all="ignore"):
            truth = condition(columns)
            return Mask(_filled(truth.holds, columns.size), _filled(truth.maybe & ~truth.holds, columns.size))

    return judge


def compile_numbers(expression: Expression) -> Callable[[ValueColumns], Numbers]:
    """A function that gives all hosts' values of `expression`, as order[mem/2] needs it; NaN where unknown."""
    compute = Compiler(_ALL_HOSTS).value(expression)

    def numbers(columns: ValueColumns) -> Numbers:
        with np.errstate(all="ignore"):
            value = compute(columns)
        if value is None or isinstance(value, str | TextColumn):
            return np.full(columns.size, np.nan)
        return np.full(columns.size, value) if np.ndim(value) == 0 else np.asarray(value)

    return numbers


def _filled(values: Any, size: int) -> Booleans:
    return np.full(size, values, dtype=np.bool_) if np.ndim(values) == 0 else values


class _AllHosts:
    """The operations of expressions on columns. `holds` and `maybe` are joined apart: that is three-valued."""

    def constant(self, value: float | str | None) -> _Compute:
        constant = value if value is None or isinstance(value, str) else np.float64(value)
        return lambda _: constant

    def resource(self, name: str) -> _Compute:
        return lambda columns: _column(columns, name)

    def negated(self, operand: _Compute) -> _Compute:
        return lambda columns: None if (value := _numbers(operand(columns))) is None else -value

    def arithmetic(self, op: str, left: _Compute, right: _Compute) -> _Compute:
        combine = OPERATORS[op]

        def compute(columns: ValueColumns) -> _Value:
            first, second = _numbers(left(columns)), _numbers(right(columns))
            if first is None or second is None:
                return None
            result = combine(first, second)
            return np.where(np.isfinite(result), result, np.nan)

        return compute

    def as_value(self, condition: _Condition) -> _Compute:
        def compute(columns: ValueColumns) -> _Value:
            truth = condition(columns)
            return np.where(truth.maybe & ~truth.holds, np.nan, truth.holds * 1.0)

        return compute

    def as_condition(self, value: _Compute) -> _Condition:
        def judge(columns: ValueColumns) -> _Truth:
            found = value(columns)
            if found is None or isinstance(found, str | TextColumn):
                return _UNCLEAR
            maybe = found != 0
            # NaN alone differs from itself.
            return _Truth(maybe & (found == found), maybe)

        return judge

    def always(self, holds: bool) -> _Condition:
        return lambda _: _ALWAYS if holds else _NEVER

    def defined(self, name: str) -> _Condition:
        def judge(columns: ValueColumns) -> _Truth:
            value = _column(columns, name)
            if value is None:
                return _NEVER
            known = value.codes >= 0 if isinstance(value, TextColumn) else ~np.isnan(value)
            return _Truth(known, known)

        return judge

    def inverted(self, condition: _Condition) -> _Condition:
        def judge(columns: ValueColumns) -> _Truth:
            truth = condition(columns)
            return _Truth(~truth.maybe, ~truth.holds)

        return judge

    def every(self, terms: list[_Condition]) -> _Condition:
        return _joined(terms, operator.and_)

    def either(self, terms: list[_Condition]) -> _Condition:
        return _joined(terms, operator.or_)

    def compared(
        self, op: str, left: _Compute, right: _Compute, word: _Compute, type_names: _Compute | None
    ) -> _Condition:
        relation = _RELATIONS[op]

        def judge(columns: ValueColumns) -> _Truth:
            if type_names is not None:
                names, name = type_names(columns), word(columns)
                if isinstance(names, TextColumn) and names.words and isinstance(name, str):
                    return _Truth(*names.compare("names" if op != "!=" else "does not name", name))
            first = left(columns)
            if first is None:
                return _UNCLEAR
            if isinstance(first, str | TextColumn):
                return _text_truth(op, first, word(columns))
            second = _numbers(right(columns))
            if second is None:
                return _UNCLEAR
            holds = relation(first, second)
            unknown = (first != first) | (second != second)
            # NaN alone differs from itself, and of the relations only `!=` is true of it.
            return _Truth(holds & ~unknown if op == "!=" else holds, holds | unknown)

        return judge


_ALL_HOSTS = _AllHosts()


def _joined(terms: list[_Condition], join: Callable[[Any, Any], Any]) -> _Condition:
    first, *others = terms

    def judge(columns: ValueColumns) -> _Truth:
        truth = first(columns)
        holds, maybe = truth.holds, truth.maybe
        for term in others:
            truth = term(columns)
            holds, maybe = join(holds, truth.holds), join(maybe, truth.maybe)
        return _Truth(holds, maybe)

    return judge


def _column(columns: ValueColumns, name: str) -> Numbers | TextColumn | None:
    numbers = columns.number(name)
    if numbers is not None:
        return numbers
    text = columns.text(name)
    return text if text is None or isinstance(text, TextColumn) else TextColumn.of(text.tolist())


def _numbers(value: _Value) -> Any:
    return None if isinstance(value, str | TextColumn) else value


def _text_truth(op: str, first: TextColumn | str, second: _Value) -> _Truth:
    if not isinstance(second, str | TextColumn):
        return _UNCLEAR
    if isinstance(first, TextColumn) and isinstance(second, str):
        return _Truth(*first.compare(op, second))
    return _word_by_word(op, first, second)


def _word_by_word(op: str, first: TextColumn | str, second: TextColumn | str) -> _Truth:
    """Two columns of text, which only `a == (b)` compares: host by host."""
    relation = _RELATIONS[op]
    if isinstance(first, str) and isinstance(second, str):
        return _ALWAYS if relation(first, second) else _NEVER
    lefts = first.values() if isinstance(first, TextColumn) else repeat(first)
    rights = second.values() if isinstance(second, TextColumn) else repeat(second)
    verdicts = [
        None if left is None or right is None else bool(relation(left, right))
        for left, right in zip(lefts, rights, strict=False)
    ]
    return _Truth(
        np.array([verdict is True for verdict in verdicts], dtype=np.bool_),
        np.array([verdict is not False for verdict in verdicts], dtype=np.bool_),
    )
