"""Judges hosts by a select expression, and tells how to order them and what to reserve.

Three-valued, and unknown is never zero: a host whose value is missing is no candidate unless the rest of the
expression decides without it (false && unknown is false, true || unknown is true; anything else stays unknown).
It must never raise for any host's values: what cannot be computed is unknown, with the reason.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

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
from gsched.resreq.host_types import TYPE_NAMES
from gsched.resreq.names import canonical, select_names, walk
from gsched.resreq.printer import print_expression

Value: TypeAlias = float | str | bool | None
"""A host's value of a resource. None is unknown. A Boolean resource that the host lacks is False, not missing."""
Values: TypeAlias = Mapping[str, Value]
_Compute: TypeAlias = Callable[[Values], Value]

DEFAULT_ORDER = (("r15s", False), ("pg", False))
WILDCARD_NAMES = frozenset({"type", "model", "status"})
"""Resources of which `any` names every value."""

_MOST_QUOTED = 4
"""Values quoted in one reason."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a host satisfies an expression: `holds` is True, False, or None for unknown.

    `reason` is empty when it holds, else the comparison that decided and its numbers: `ngpus>0: ngpus is 0`.
    `unknown` names the resources without a value that the verdict hangs on.
    """

    holds: bool | None
    reason: str = ""
    unknown: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.holds is True


HOLDS = Verdict(True)
_Judge: TypeAlias = Callable[[Values], Verdict]

_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_RELATIONS: dict[str, Callable[[float | str, float | str], bool]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def compile_select(expression: Expression | None, *, local_type: str | None = None) -> Callable[[Values], Verdict]:
    """A judge of hosts for `expression`; None holds everywhere.

    `local_type` is the submission host's type, for `type == local`; None makes that comparison unknown.
    The judge takes a host's values by canonical name and never raises.
    """
    if expression is None:
        return lambda _: HOLDS
    condition, explain = _condition(expression, local_type), _explainer(expression, local_type)

    def judge(values: Values) -> Verdict:
        return HOLDS if condition(values) is True else explain(values)

    return judge


def compile_number(expression: Expression) -> Callable[[Values], float | None]:
    """A function that gives a host's value of `expression`, as order[mem/2] needs it; None where it is unknown.

    It takes a host's values by canonical name and never raises.
    """
    compute = _value(expression, None)

    def number(values: Values) -> float | None:
        value = compute(values)
        return None if value is None or isinstance(value, str) else float(value)

    return number


def _truth(value: Value) -> bool | None:
    if value is None or isinstance(value, str):
        return None
    return value != 0


def _condition(expression: Expression, local_type: str | None) -> Callable[[Values], bool | None]:
    """`expression` as a condition."""
    match expression:
        case Parenthesized(inner):
            return _condition(inner, local_type)
        case Not(operand):
            inverted = _condition(operand, local_type)
            return lambda values: None if (held := inverted(values)) is None else not held
        case AllOf(terms):
            return _every([_condition(term, local_type) for term in terms], decisive=False)
        case AnyOf(terms):
            return _every([_condition(term, local_type) for term in terms], decisive=True)
        case Defined(name):
            wanted = canonical(name)
            return lambda values: _known(values.get(wanted)) is not None
        case Comparison():
            return _comparison(expression, local_type)
        case _:
            compute = _value(expression, local_type)
            return lambda values: _truth(compute(values))


def _every(terms: list[Callable[[Values], bool | None]], *, decisive: bool) -> Callable[[Values], bool | None]:
    """One term that is `decisive` settles it; otherwise one unknown term leaves it unknown."""

    def judge(values: Values) -> bool | None:
        outcome: bool | None = not decisive
        for term in terms:
            held = term(values)
            if held is decisive:
                return decisive
            if held is None:
                outcome = None
        return outcome

    return judge


def _value(expression: Expression, local_type: str | None) -> _Compute:
    """`expression` as a value: a number, text, or None."""
    match expression:
        case Number(number):
            return lambda _: number
        case StringValue(text):
            return lambda _: text
        case Name(name):
            wanted = canonical(name)
            return lambda values: _known(values.get(wanted))
        case Parenthesized(inner):
            return _value(inner, local_type)
        case Negate(operand):
            negated = _value(operand, local_type)
            return lambda values: None if isinstance(number := negated(values), str) or number is None else -number
        case Arithmetic(op, left, right):
            return _arithmetic(op, _value(left, local_type), _value(right, local_type))
        case _:
            return _condition(expression, local_type)


def _known(value: Value) -> Value:
    return None if isinstance(value, float) and math.isnan(value) else value


def _arithmetic(op: str, left: _Compute, right: _Compute) -> _Compute:
    combine = _OPERATORS[op]

    def compute(values: Values) -> Value:
        first, second = left(values), right(values)
        if first is None or second is None or isinstance(first, str) or isinstance(second, str):
            return None
        try:
            result = combine(float(first), float(second))
        except (ZeroDivisionError, OverflowError):
            return None
        return result if math.isfinite(result) else None

    return compute


def _comparison(expression: Comparison, local_type: str | None) -> Callable[[Values], bool | None]:
    relation, equality = _RELATIONS[expression.op], expression.op in ("==", "=", "!=")
    left, right = _value(expression.left, local_type), _value(expression.right, local_type)
    match expression:
        case Comparison(op, Name(name), StringValue("any")) if name in WILDCARD_NAMES and equality:
            return lambda _: op != "!="
        case Comparison(_, Name("type"), StringValue("local")) if equality:
            right = lambda _: local_type  # noqa: E731
    literal = _literal(expression.right) if equality or isinstance(expression.right, Name) else None
    of_type = equality and isinstance(expression.left, Name) and expression.left.name == "type"

    def judge(values: Values) -> bool | None:
        if of_type:
            names, word = values.get(TYPE_NAMES), literal if literal is not None else right(values)
            if isinstance(names, str) and isinstance(word, str):
                return (word in names.split(" ")) is (expression.op != "!=")
        first = left(values)
        if isinstance(first, str):
            other = literal if literal is not None else right(values)
            return relation(first, other) if isinstance(other, str) else None
        second = right(values)
        if first is None or second is None or isinstance(second, str):
            return None
        return relation(first, second)

    return judge


def _literal(expression: Expression) -> str | None:
    """`expression` as the value it is if the left side of its comparison turns out to be text; None if it is none."""
    match expression:
        case Name(text) | Number(_, text):
            return text
        case _:
            return None


def _explainer(expression: Expression, local_type: str | None) -> _Judge:
    """Tells of a host for which `expression` does not hold why: the term that decides, down to one comparison."""
    match expression:
        case Parenthesized(inner):
            return _explainer(inner, local_type)
        case AllOf(terms):
            pairs = [(_condition(term, local_type), _explainer(term, local_type)) for term in terms]
            return lambda values: _explain_all(pairs, values)
        case AnyOf(terms):
            alternatives = [_explainer(term, local_type) for term in terms]
            return lambda values: _explain_any(alternatives, values)
        case _:
            return _quoter(expression, local_type)


def _explain_all(pairs: list[tuple[Callable[[Values], bool | None], _Judge]], values: Values) -> Verdict:
    held = [condition(values) for condition, _ in pairs]
    deciding = held.index(False) if False in held else held.index(None)
    return pairs[deciding][1](values)


def _explain_any(alternatives: list[_Judge], values: Values) -> Verdict:
    verdicts = [explain(values) for explain in alternatives]
    is_unknown = any(verdict.holds is None for verdict in verdicts)
    told = [verdict for verdict in verdicts if verdict.holds is None] if is_unknown else verdicts
    reason = "; ".join(verdict.reason for verdict in told[:_MOST_QUOTED])
    more = f"; and {len(told) - _MOST_QUOTED} more" if len(told) > _MOST_QUOTED else ""
    unknown = dict.fromkeys(name for verdict in told for name in verdict.unknown)
    return Verdict(None if is_unknown else False, reason + more, tuple(unknown))


def _quoter(expression: Expression, local_type: str | None) -> _Judge:
    """Tells of one comparison (or of a whole negated expression) with the values that made it."""
    condition, text = _condition(expression, local_type), print_expression(expression)
    names = list(dict.fromkeys(name for name, _ in select_names(expression)))
    match expression:
        case Comparison(_, Name("type"), StringValue("local")):
            local = [f"local is {local_type or 'unknown'}"]
            lacking = () if local_type else ("local",)
        case _:
            local, lacking = [], ()
    may_hold_words = any(isinstance(part, Comparison) and isinstance(part.right, Name) for part in walk(expression))

    def quote(values: Values) -> Verdict:
        holds, used = condition(values), names
        if may_hold_words:
            is_text = {name: isinstance(values.get(name), str) for name in names}
            used = list(dict.fromkeys(name for name, _ in select_names(expression, lambda name: is_text[name])))
        told = [f"{name} is {_format(values.get(name))}" for name in used[:_MOST_QUOTED]] + local
        unknown: tuple[str, ...] = ()
        if holds is None:
            unknown = (*(name for name in used if _known(values.get(name)) is None), *lacking)
            told += [] if unknown else ["this cannot be computed"]
        return Verdict(holds, f"{text}: {', '.join(told) or 'this is never true'}", unknown)

    return quote


def _format(value: Value) -> str:
    value = _known(value)
    match value:
        case None:
            return "unknown"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.0f}" if value.is_integer() else f"{value:.2f}"
        case _:
            return str(value)
