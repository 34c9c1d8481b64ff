"""Judges hosts by a select expression, and tells how to order them and what to reserve.

Three-valued, and unknown is never zero: a host whose value is missing is no candidate unless the rest of the
expression decides without it (false && unknown is false, true || unknown is true; anything else stays unknown).
It must never raise for any host's values: what cannot be computed is unknown, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from gsched.resreq.ast import (
    AllOf,
    AnyOf,
    Comparison,
    Expression,
    Name,
    Parenthesized,
    StringValue,
)
from gsched.resreq.judging.compiler import OPERATORS, RELATIONS, Compiler
from gsched.resreq.parsing.names import select_names, walk
from gsched.resreq.parsing.printer import print_expression

Value: TypeAlias = float | str | bool | None
"""A host's value of a resource. None is unknown. A Boolean resource that the host lacks is False, not missing."""
Values: TypeAlias = Mapping[str, Value]
_Compute: TypeAlias = Callable[[Values], Value]
_Condition: TypeAlias = Callable[[Values], bool | None]

DEFAULT_ORDER = (("r15s", False), ("pg", False))

_MOST_QUOTED = 4
"""Values quoted in one reason."""


class Verdict(msgspec.Struct, frozen=True):
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
    compute = Compiler(_ONE_HOST).value(expression)

    def number(values: Values) -> float | None:
        value = compute(values)
        return None if value is None or isinstance(value, str) else float(value)

    return number


class _OneHost:
    """The operations of expressions on the values of one host."""

    def constant(self, value: Value) -> _Compute:
        return lambda _: value

    def resource(self, name: str) -> _Compute:
        return lambda values: _known(values.get(name))

    def negated(self, operand: _Compute) -> _Compute:
        return lambda values: None if isinstance(number := operand(values), str) or number is None else -number

    def arithmetic(self, op: str, left: _Compute, right: _Compute) -> _Compute:
        combine = OPERATORS[op]

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

    def as_value(self, condition: _Condition) -> _Compute:
        return condition

    def as_condition(self, value: _Compute) -> _Condition:
        return lambda values: None if (found := value(values)) is None or isinstance(found, str) else found != 0

    def always(self, holds: bool) -> _Condition:
        return lambda _: holds

    def defined(self, name: str) -> _Condition:
        return lambda values: _known(values.get(name)) is not None

    def inverted(self, condition: _Condition) -> _Condition:
        return lambda values: None if (held := condition(values)) is None else not held

    def every(self, terms: list[_Condition]) -> _Condition:
        return _joined(terms, decisive=False)

    def either(self, terms: list[_Condition]) -> _Condition:
        return _joined(terms, decisive=True)

    def compared(
        self, op: str, left: _Compute, right: _Compute, word: _Compute, type_names: _Compute | None
    ) -> _Condition:
        relation: Callable[[float | str, float | str], bool] = RELATIONS[op]

        def judge(values: Values) -> bool | None:
            if type_names is not None:
                names, name = type_names(values), word(values)
                if isinstance(names, str) and isinstance(name, str):
                    return (name in names.split(" ")) is (op != "!=")
            first = left(values)
            if isinstance(first, str):
                other = word(values)
                return relation(first, other) if isinstance(other, str) else None
            second = right(values)
            if first is None or second is None or isinstance(second, str):
                return None
            return relation(first, second)

        return judge


_ONE_HOST = _OneHost()


def _joined(terms: list[_Condition], *, decisive: bool) -> _Condition:
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


def _condition(expression: Expression, local_type: str | None) -> _Condition:
    return Compiler(_ONE_HOST, local_type).condition(expression)


def _known(value: Value) -> Value:
    return None if isinstance(value, float) and math.isnan(value) else value


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


def _explain_all(pairs: list[tuple[_Condition, _Judge]], values: Values) -> Verdict:
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
