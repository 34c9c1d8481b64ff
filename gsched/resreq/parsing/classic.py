"""Reads the select section of old: `swp=20:mem=10:cserver`, a list of what a host must have at least.

It must never take an expression for such a list: what is not `resource=value`, `resource` or `!resource` is refused.
A number means `<=` for a resource of which more is worse and `>=` for any other.
Source: bsub(1) of LSF 4, and the behaviour of OpenLava's library.
"""

from __future__ import annotations

from gsched.resreq.ast import AllOf, Comparison, Expression, Name, Not, Number, StringValue
from gsched.resreq.parsing.expression import read_expression
from gsched.resreq.parsing.lexer import Cursor
from gsched.resreq.parsing.names import INCREASING_INDICES, IsName, canonical


def is_classic(cursor: Cursor) -> bool:
    """Whether a `:` stands in the select section that begins here; no expression of today has one."""
    ahead = 0
    while cursor.peek(ahead).kind != "end":
        token = cursor.peek(ahead)
        if token.kind == "sign" and token.text in ("]", "}", ":"):
            return token.text == ":"
        if token.kind == "word" and cursor.sees("[", ahead + 1):
            return False
        ahead += 1
    return False


def read_classic(cursor: Cursor, max_depth: int, is_increasing: IsName | None = None) -> Expression:
    """The list at the cursor, as the expression that it means. Raises RequirementError."""
    rises = is_increasing or INCREASING_INDICES.__contains__
    terms = [_term(cursor, max_depth, rises)]
    while cursor.accept(":"):
        terms.append(_term(cursor, max_depth, rises))
    return AllOf(tuple(terms)) if len(terms) > 1 else terms[0]


def _term(cursor: Cursor, max_depth: int, rises: IsName) -> Expression:
    position = cursor.peek().start
    term = read_expression(cursor, max_depth)
    match term:
        case Comparison("=", Name(name) as left, Number() as right):
            term = Comparison("<=" if rises(canonical(name)) else ">=", left, right)
        case Comparison("=", Name(), Name() | StringValue()) | Name() | Not(Name()):
            pass
        case _:
            cursor.fail("a list with ':' takes resource=value, resource or !resource, no expression", position)
    return term
