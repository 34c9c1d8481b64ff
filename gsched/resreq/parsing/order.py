"""Reads the sections of names: order[...] and same[...].

It must never know a resource's kind or direction: whether a name can be sorted by is the cluster's question.
Source: bsub(1), option -R; the order string of LSF's administration guide.
"""

from __future__ import annotations

from gsched.resreq.ast import Arithmetic, Expression, Name, OrderKey, SameKey
from gsched.resreq.parsing.expression import read_sum
from gsched.resreq.parsing.lexer import Cursor
from gsched.resreq.parsing.names import canonical, select_names
from gsched.resreq.parsing.printer import print_expression


def read_order(cursor: Cursor, max_depth: int) -> tuple[OrderKey, ...]:
    """The keys of `order[...]`, from after the bracket to before the closing one. Raises RequirementError."""
    keys: list[OrderKey] = []
    seen: set[str] = set()
    while True:
        key = _order_key(cursor, max_depth)
        if canonical(key.name) in seen:
            cursor.fail(f"'{key.name}' is named twice in order[...]", key.position)
        seen.add(canonical(key.name))
        keys.append(key)
        if not cursor.accept(":"):
            return tuple(keys)


def _order_key(cursor: Cursor, max_depth: int) -> OrderKey:
    resort = cursor.accept("!")
    is_reversed = cursor.accept("-")
    first = cursor.peek()
    if first.kind not in ("word", "sign") or (first.kind == "sign" and first.text not in ("(", "-")):
        cursor.fail(f"order[...] wants the name of a resource, not {first}")
    expression = read_sum(cursor, max_depth)
    if isinstance(expression, Name):
        return OrderKey(expression.name, is_reversed, first.start, resort=resort)
    if next(select_names(expression), None) is None:
        cursor.fail("order[...] wants the name of a resource, and this expression has none", first.start)
    if is_reversed and _is_difference(expression):
        cursor.fail("a '-' before a sum is not clear: write -(...)", first.start)
    return OrderKey(print_expression(expression), is_reversed, first.start, expression, resort)


def _is_difference(expression: Expression) -> bool:
    return isinstance(expression, Arithmetic) and expression.op in ("+", "-")


def read_same(cursor: Cursor) -> tuple[SameKey, ...]:
    """The names of `same[...]`; one that is repeated counts once. Raises RequirementError."""
    keys: dict[str, SameKey] = {}
    while True:
        token = cursor.resource("same[...]")
        keys.setdefault(token.text, SameKey(token.text, token.start))
        if not cursor.accept(":"):
            return tuple(keys.values())
