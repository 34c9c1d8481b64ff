"""What an expression of select[] or order[] means, said once for whoever judges one host and whoever judges all.

What each operation does to values is given by `Forms`: gsched.resreq.judging.evaluate has those of one host,
gsched.resreq.judging.columns those of all hosts. It never looks at a value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

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
from gsched.resreq.judging.host_types import TYPE_NAMES
from gsched.resreq.parsing.names import canonical

WILDCARD_NAMES = frozenset({"type", "model", "status"})
"""Resources of which `any` names every value."""
_EQUALITIES = frozenset({"==", "=", "!="})
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
"""On numbers, and on columns of them."""
RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
"""Between numbers or texts, and between columns of them."""

V = TypeVar("V")
"""What computes a value: a number, text, or unknown."""
C = TypeVar("C")
"""What judges a condition: it holds, does not hold, or is unknown."""


class Forms(Protocol[V, C]):
    """The operations of expressions, on values of one host or of all."""

    def constant(self, value: float | str | None) -> V: ...

    def resource(self, name: str) -> V:
        """By canonical name."""
        ...

    def negated(self, operand: V) -> V: ...

    def arithmetic(self, op: str, left: V, right: V) -> V: ...

    def as_value(self, condition: C) -> V:
        """1, 0 or unknown."""
        ...

    def as_condition(self, value: V) -> C:
        """Whether a number is not zero."""
        ...

    def always(self, holds: bool) -> C: ...

    def defined(self, name: str) -> C:
        """Whether a resource, by canonical name, has a value."""
        ...

    def inverted(self, condition: C) -> C: ...

    def every(self, terms: list[C]) -> C: ...

    def either(self, terms: list[C]) -> C: ...

    def compared(self, op: str, left: V, right: V, word: V, type_names: V | None) -> C:
        """`word`: the right side where the left one is text; `type_names`: all names of the host's type, of which the
        word may be any, when types are compared.
        """
        ...


class Compiler(Generic[V, C]):
    """Compiles expressions to some forms. `local_type`: the submission host's type, for `type == local`."""

    def __init__(self, forms: Forms[V, C], local_type: str | None = None) -> None:
        self._forms = forms
        self._local_type = local_type

    def condition(self, expression: Expression) -> C:
        """The expression as a condition."""
        forms = self._forms
        match expression:
            case Parenthesized(inner):
                return self.condition(inner)
            case Not(operand):
                return forms.inverted(self.condition(operand))
            case AllOf(terms):
                return forms.every([self.condition(term) for term in terms])
            case AnyOf(terms):
                return forms.either([self.condition(term) for term in terms])
            case Defined(name):
                return forms.defined(canonical(name))
            case Comparison():
                return self._comparison(expression)
            case _:
                return forms.as_condition(self.value(expression))

    def value(self, expression: Expression) -> V:
        """The expression as a value."""
        forms = self._forms
        match expression:
            case Number(number):
                return forms.constant(number)
            case StringValue(text):
                return forms.constant(text)
            case Name(name):
                return forms.resource(canonical(name))
            case Parenthesized(inner):
                return self.value(inner)
            case Negate(operand):
                return forms.negated(self.value(operand))
            case Arithmetic(op, left, right):
                return forms.arithmetic(op, self.value(left), self.value(right))
            case _:
                return forms.as_value(self.condition(expression))

    def _comparison(self, expression: Comparison) -> C:
        forms, op = self._forms, expression.op
        is_equality = op in _EQUALITIES
        left, right = self.value(expression.left), self.value(expression.right)
        match expression:
            case Comparison(_, Name(name), StringValue("any")) if name in WILDCARD_NAMES and is_equality:
                return forms.always(op != "!=")
            case Comparison(_, Name("type"), StringValue("local")) if is_equality:
                right = forms.constant(self._local_type)
        literal = _literal(expression.right) if is_equality or isinstance(expression.right, Name) else None
        is_of_type = is_equality and isinstance(expression.left, Name) and expression.left.name == "type"
        word = right if literal is None else forms.constant(literal)
        return forms.compared(op, left, right, word, forms.resource(TYPE_NAMES) if is_of_type else None)


def _literal(expression: Expression) -> str | None:
    """`expression` as the value it is if the left side of its comparison turns out to be text; None if it is none."""
    match expression:
        case Name(text) | Number(_, text):
            return text
        case _:
            return None
