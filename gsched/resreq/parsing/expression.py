"""Reads the expression of a select section.

It must never give an unclear text a meaning: it refuses and says what to write.

Precedence, tightest first: `!` and unary `-`; `*` `/`; `+` `-`; comparisons (not chained); `&&`; `||`.
Source of the operators: LSF's description of the selection string.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

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
    Parenthesized,
    StringValue,
)
from gsched.resreq.parsing.lexer import Cursor, Token, is_name, read_number

TEXT_NAMES = frozenset({"type", "model", "status", "hname"})
"""Built-in resources whose values are text: what they are compared with is a value, never a resource."""

_EQUALITY = frozenset({"==", "=", "!="})
_COMPARISONS = _EQUALITY | {"<", ">", "<=", ">="}
_COMPARING, _ADDING, _MULTIPLYING = 3, 4, 5
_LEVELS = {"||": 1, "&&": 2, "+": _ADDING, "-": _ADDING, "*": _MULTIPLYING, "/": _MULTIPLYING}
_LEVELS.update(dict.fromkeys(_COMPARISONS, _COMPARING))


class _Built(NamedTuple):
    """An expression and how deep it is; the depth is bounded so that whoever walks it needs no care."""

    expression: Expression
    depth: int


def read_expression(cursor: Cursor, max_depth: int) -> Expression:
    """The expression that starts at the cursor; it ends before the first token that cannot continue it.

    Raises RequirementError.
    """
    return _Reader(cursor, max_depth).binary(1).expression


def read_sum(cursor: Cursor, max_depth: int) -> Expression:
    """An expression without comparisons and logic outside parentheses, such as `mem/2`. Raises RequirementError."""
    built = _Reader(cursor, max_depth).binary(_ADDING)
    if isinstance(built.expression, Name) and built.expression.name in TEXT_NAMES:
        cursor.fail(f"'{built.expression.name}' is text", built.expression.position)
    return built.expression


class _Reader:
    def __init__(self, cursor: Cursor, max_depth: int) -> None:
        self._cursor = cursor
        self._max_depth = max_depth
        self._open = 0

    def binary(self, floor: int) -> _Built:
        """An expression whose operators bind at least as tightly as `floor`."""
        left = self._unary()
        while True:
            token = self._cursor.peek()
            level = _LEVELS.get(token.text, 0) if token.kind == "sign" else 0
            if level < floor:
                return left
            if level >= _COMPARING and isinstance(left.expression, Comparison):
                self._cursor.fail(f"unexpected {token} after a comparison: use parentheses or &&")
            self._cursor.take()
            left = self._join(token, level, left)

    def _join(self, operator: Token, level: int, left: _Built) -> _Built:
        if level == _COMPARING:
            right = self._right_side(operator, left.expression)
            return self._built(Comparison(operator.text, left.expression, right.expression), left, right)
        right = self.binary(level + 1)
        if level >= _ADDING:
            self._refuse_text(right, operator)
            return self._built(Arithmetic(operator.text, left.expression, right.expression), left, right)
        kind = AllOf if operator.text == "&&" else AnyOf
        if isinstance(left.expression, kind):
            left_terms, left_depth = left.expression.terms, left.depth - 1
        else:
            left_terms, left_depth = (left.expression,), left.depth
        return self._built(kind((*left_terms, right.expression)), _Built(left.expression, left_depth), right)

    def _built(self, expression: Expression, *parts: _Built) -> _Built:
        depth = 1 + max(part.depth for part in parts)
        if depth > self._max_depth:
            self._cursor.fail(f"the expression is nested more than {self._max_depth} levels deep")
        return _Built(expression, depth)

    def _unary(self) -> _Built:
        token = self._cursor.peek()
        if token.kind != "sign" or token.text not in ("!", "-", "("):
            return _Built(self._primary(), 1)
        self._open += 1
        if self._open > self._max_depth:
            self._cursor.fail(f"the expression is nested more than {self._max_depth} levels deep")
        self._cursor.take()
        if token.text == "(":
            inner = self.binary(1)
            self._cursor.expect(")", "to close '('")
            built = self._built(Parenthesized(inner.expression), inner)
        else:
            operand = self._unary()
            self._refuse_text(operand, token)
            kind = Not if token.text == "!" else Negate
            built = self._built(kind(operand.expression), operand)
        self._open -= 1
        return built

    def _primary(self) -> Expression:
        token = self._cursor.peek()
        if token.kind == "text":
            self._cursor.fail("a quoted value can only stand to the right of a comparison with a resource")
        if token.kind != "word":
            # LSF's words, which programs look for.
            found = "end of section" if token.text == "]" else token
            self._cursor.fail(f'Expected number, string, name, or "(" but found {found}')
        number = read_number(token.text)
        if number is not None:
            self._cursor.take()
            return replace(number, position=token.start)
        if not is_name(token.text):
            self._cursor.fail(f"{token} is neither a number nor the name of a resource")
        return self._name()

    def _name(self) -> Expression:
        token = self._cursor.take()
        if self._cursor.sees("("):
            if token.text != "defined":
                self._cursor.fail(f"{token} is not a function; defined(resource) is the only one", token.start)
            return self._defined()
        following = self._cursor.peek()
        if token.text in TEXT_NAMES and not (following.kind == "sign" and following.text in _COMPARISONS):
            self._cursor.fail(f"{token} is text: compare it with a value, as in {token.text}==any", token.start)
        return Name(token.text, token.start)

    def _defined(self) -> Expression:
        self._cursor.expect("(", "after defined")
        name = self._cursor.peek()
        if name.kind != "word" or not is_name(name.text):
            self._cursor.fail(f"defined() wants the name of a resource, not {name}")
        self._cursor.take()
        self._cursor.expect(")", "after defined(resource")
        return Defined(name.text, name.start)

    def _refuse_text(self, operand: _Built, operator: Token) -> None:
        if isinstance(operand.expression, Name) and operand.expression.name in TEXT_NAMES:
            name = operand.expression
            self._cursor.fail(f"'{name.name}' is text and '{operator.text}' needs a number", name.position)

    def _right_side(self, operator: Token, left: Expression) -> _Built:
        """What a comparison compares with; only here can text stand."""
        token = self._cursor.peek()
        if isinstance(left, Name) and left.name in TEXT_NAMES:
            return _Built(self._value_of(left), 1)
        if isinstance(left, Name) and token.kind == "text":
            self._cursor.take()
            return _Built(StringValue(token.text, quoted=True), 1)
        if isinstance(left, Name) and token.kind == "word" and operator.text in _EQUALITY:
            if is_name(token.text) and self._hyphen_follows(1):
                self._cursor.fail("a value with '-' wants quotes, a subtraction blanks around the '-'")
            if not is_name(token.text) and read_number(token.text) is None:
                self._cursor.take()
                return _Built(StringValue(token.text), 1)
        return self.binary(_ADDING)

    def _hyphen_follows(self, ahead: int) -> bool:
        cursor = self._cursor
        is_hyphen = cursor.sees("-", ahead) and cursor.is_glued(ahead) and cursor.is_glued(ahead + 1)
        return is_hyphen and cursor.peek(ahead + 1).kind == "word"

    def _value_of(self, left: Name) -> StringValue:
        """The value that the text resource `left` is compared with: quoted, or a word that may hold `-`."""
        token = self._cursor.peek()
        if token.kind not in ("word", "text"):
            self._cursor.fail(f"'{left.name}' is compared with a value, not with {token}")
        self._cursor.take()
        value = token.text
        while token.kind == "word" and self._hyphen_follows(0):
            self._cursor.take()
            value += "-" + self._cursor.take().text
        if left.name == "model" and value == "local":
            self._cursor.fail("model == local is not supported (type == local is)", token.start)
        return StringValue(value, quoted=token.kind == "text")
