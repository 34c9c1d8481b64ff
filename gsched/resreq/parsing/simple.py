"""Reads one simple requirement: a bare select expression and sections, in any order.

It must never leave a word unread: what is neither an expression nor a section is refused at its place.

A section that is given again is joined with the first, as LSF does for several -R: selects are ANDed, rusage and same
joined, the later order, span, cu and affinity count. Source: bsub(1), option -R.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import chain, product
from math import prod
from typing import NoReturn

import msgspec
from msgspec.structs import replace

from gsched.resreq.ast import AllOf, Expression, OrderKey, Parenthesized, Requirement, Reservation, children
from gsched.resreq.parsing.affinity import read_affinity
from gsched.resreq.parsing.classic import is_classic, read_classic
from gsched.resreq.parsing.expression import read_expression
from gsched.resreq.parsing.lexer import Cursor, Token, refuse
from gsched.resreq.parsing.names import IsName, canonical
from gsched.resreq.parsing.order import read_order, read_same
from gsched.resreq.parsing.rusage import MAX_ALTERNATIVES, check_repeats, read_rusage
from gsched.resreq.parsing.sizes import bare_sizes
from gsched.resreq.parsing.span import read_cu, read_span

SECTIONS = ("select", "order", "rusage", "span", "same", "cu", "affinity")
"""Section keywords in the order in which LSF prints them."""


class TextLimits(msgspec.Struct, frozen=True):
    """What a text may have: characters, levels of nesting. `is_increasing` tells the direction of a resource."""

    length: int
    depth: int
    is_increasing: IsName | None = None


def read_simple(cursor: Cursor, limits: TextLimits) -> Requirement:
    """The requirement at the cursor, up to the end of the text or a closing brace. Raises RequirementError."""
    pieces: list[Requirement] = []
    while cursor.peek().kind != "end" and not cursor.sees("}"):
        token = cursor.peek()
        if token.kind == "word" and cursor.sees("[", 1):
            pieces.append(_section(cursor, limits))
        elif not pieces:
            pieces.append(Requirement(select=_select(cursor, limits)))
        elif token.text == "]" and cursor.peek(1).kind == "end":
            cursor.take()  # TorchX 0.7.0 writes span[hosts=1]] for a job without memory; one ] too many says nothing
        else:
            _refuse_stray(cursor, token)
    joined = join(pieces, cursor.source)
    check_repeats(joined.every_rusage, cursor.source)
    if len(pieces) > 1 and _is_deep(joined, limits.depth):
        cursor.fail(f"the expression is nested more than {limits.depth} levels deep")
    return joined


def is_overdone(joined: Requirement, depth: int) -> bool:
    """Whether what was joined of several would not be read: nested too deep, or a resource reserved twice."""
    usages = ([canonical(item.name) for item in usage] for usage in joined.every_rusage)
    return _is_deep(joined, depth) or any(len(set(names)) < len(names) for names in usages)


def _is_deep(requirement: Requirement, depth: int) -> bool:
    return requirement.select is not None and _depth(requirement.select) > depth


def join(pieces: Sequence[Requirement], source: str) -> Requirement:
    """One requirement of several: selects ANDed, rusage and same joined, the later order, span, cu and affinity.

    A resource reserved twice is not noticed here. Raises RequirementError for too many alternatives of rusage.
    """
    joined = Requirement(source=source)
    for piece in pieces:
        joined = replace(
            joined,
            order=piece.order or joined.order,
            span=piece.span or joined.span,
            same=joined.same + tuple(key for key in piece.same if key not in joined.same),
            cu=piece.cu or joined.cu,
            affinity=piece.affinity or joined.affinity,
        )
    selects = [piece.select for piece in pieces if piece.select is not None]
    if selects:
        select = selects[0] if len(selects) == 1 else AllOf(tuple(Parenthesized(each) for each in selects))
        joined = replace(joined, select=select)
    usages = [piece.every_rusage for piece in pieces if piece.rusage]
    if prod(map(len, usages)) > MAX_ALTERNATIVES:
        refuse(f"the rusage sections have more than {MAX_ALTERNATIVES} alternatives together", source, 0)
    return with_rusage(joined, [tuple(chain.from_iterable(choice)) for choice in product(*usages)])


def with_rusage(requirement: Requirement, alternatives: Sequence[tuple[Reservation, ...]]) -> Requirement:
    """`requirement` with these alternatives of rusage, at least one; one that is there already counts once."""
    distinct = tuple(dict.fromkeys(alternatives))
    return replace(requirement, rusage=distinct[0], rusage_alternatives=distinct if len(distinct) > 1 else ())


def _section(cursor: Cursor, limits: TextLimits) -> Requirement:
    keyword = cursor.peek()
    name = keyword.text
    if name == "filter":
        cursor.fail("filter[...] is not supported")
    if name not in SECTIONS:
        near = get_close_matches(name, SECTIONS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        cursor.fail(f"{keyword} is not a section{hint}; these are: {', '.join(SECTIONS)}")
    if not cursor.is_glued(1):
        cursor.fail(f"no blank may stand between {name} and [")
    cursor.take()
    cursor.take()
    cursor.section = name
    if cursor.sees("]"):
        cursor.fail(f"{name}[] is empty")
    found = _read_section(cursor, keyword, limits)
    cursor.expect("]", f"to close {name}[")
    cursor.section = ""
    return found


def _read_section(cursor: Cursor, keyword: Token, limits: TextLimits) -> Requirement:
    match keyword.text:
        case "select":
            return Requirement(select=_select(cursor, limits))
        case "order":
            return Requirement(order=_order(cursor, limits))
        case "rusage":
            return with_rusage(Requirement(), read_rusage(cursor))
        case "span":
            return Requirement(span=read_span(cursor, keyword.start))
        case "same":
            return Requirement(same=read_same(cursor))
        case "cu":
            return Requirement(cu=read_cu(cursor, keyword.start))
        case _:
            return Requirement(affinity=read_affinity(cursor, keyword.start))


def _select(cursor: Cursor, limits: TextLimits) -> Expression:
    if is_classic(cursor):
        cursor.has_classic = True
        found = read_classic(cursor, limits.depth, limits.is_increasing)
    else:
        found = read_expression(cursor, limits.depth)
    _note_sizes(cursor, found)
    return found


def _order(cursor: Cursor, limits: TextLimits) -> tuple[OrderKey, ...]:
    keys = read_order(cursor, limits.depth)
    for key in keys:
        if key.expression is not None:
            _note_sizes(cursor, key.expression)
    return keys


def _note_sizes(cursor: Cursor, expression: Expression) -> None:
    for number in bare_sizes(expression):
        cursor.note_size(number.position, number.position + len(number.text))


def _refuse_stray(cursor: Cursor, token: Token) -> NoReturn:
    if token.text == "||":
        cursor.fail("|| between sections is not supported: alternatives are written {...} || {...}")
    cursor.fail(f"unexpected {token}: an operator, or a section such as rusage[...], is wanted")


def _depth(expression: Expression) -> int:
    return 1 + max(map(_depth, children(expression)), default=0)
