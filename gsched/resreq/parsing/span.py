"""Reads the sections that say where tasks go: span[...] and cu[...].

It must never judge whether a cluster can place tasks so. Source: bsub(1), option -R; the span and compute unit strings
of LSF's administration guide.
"""

from __future__ import annotations

from msgspec.structs import replace

from gsched.resreq.ast import BY_HOST, UNLISTED, Cu, Span
from gsched.resreq.parsing.lexer import Cursor, Token

PREFERENCES = ("config", "minavail", "maxavail", "bestfit")
"""Orders in which compute units are tried."""
_FORMS = "hosts=1, hosts=-1, ptile=n, ptile='!', block=n, stripe, stripe=n or gtile=n"


def read_span(cursor: Cursor, position: int) -> Span:
    """The inside of `span[...]`, whose keyword stands at `position`. Raises RequirementError."""
    span = _one_form(cursor, Span(position=position))
    while cursor.accept(","):
        first = cursor.peek()
        span = _one_form(cursor, span)
        if (
            span.gtile is None
            or sum(each is not None for each in (span.hosts, span.ptile, span.block, span.stripe)) > 1
        ):
            cursor.fail(f"{first} cannot stand beside what is before it: only gtile can", first.start)
    return span


def _one_form(cursor: Cursor, span: Span) -> Span:
    token = cursor.resource("span[...]")
    if token.text == "stripe" and not cursor.sees("="):
        return _set(cursor, span, token, 0)
    if token.text not in ("hosts", "ptile", "block", "stripe", "gtile"):
        cursor.fail(f"{token} is not known in span[...]: {_FORMS} is", token.start)
    cursor.expect("=", f"after {token.text}")
    if token.text == "hosts":
        value = cursor.peek()
        sign = -1 if cursor.accept("-") else 1
        if cursor.take().text != "1":
            cursor.fail("span[hosts=...] takes 1 or -1", value.start)
        return _set(cursor, span, token, sign)
    if token.text == "ptile" and _type_follows(cursor, 0):
        return replace(_set(cursor, span, token, UNLISTED), ptile_types=_types(cursor))
    if token.text in ("ptile", "gtile") and _accept_exclamation(cursor):
        span = _set(cursor, span, token, BY_HOST)
    else:
        span = _set(cursor, span, token, cursor.whole_number(f"span[{token.text}=...]"))
    return replace(span, ptile_types=_ptile_types(cursor)) if token.text == "ptile" else span


def _set(cursor: Cursor, span: Span, token: Token, value: int) -> Span:
    if getattr(span, token.text) is not None:
        cursor.fail(f"{token} is given twice in span[...]", token.start)
    match token.text:
        case "hosts":
            return replace(span, hosts=value)
        case "ptile":
            return replace(span, ptile=value)
        case "block":
            return replace(span, block=value)
        case "stripe":
            return replace(span, stripe=value)
        case _:
            return replace(span, gtile=value)


def _accept_exclamation(cursor: Cursor) -> bool:
    token = cursor.peek()
    if token.kind == "text" and token.text == "!":
        cursor.take()
        return True
    return cursor.accept("!")


def _ptile_types(cursor: Cursor) -> tuple[tuple[str, int], ...]:
    """`,HP:8,SGI:4` after a ptile's value."""
    if cursor.sees(",") and _type_follows(cursor, 1):
        cursor.take()
        return _types(cursor)
    return ()


def _type_follows(cursor: Cursor, ahead: int) -> bool:
    return cursor.peek(ahead).kind in ("word", "text") and cursor.sees(":", ahead + 1)


def _types(cursor: Cursor) -> tuple[tuple[str, int], ...]:
    """`HP:8,SGI:4`."""
    types: dict[str, int] = {}
    while True:
        name = cursor.take()
        cursor.take()
        if name.text in types:
            cursor.fail(f"{name} is given twice in span[...]", name.start)
        if not name.text:
            cursor.fail("a host type or model is wanted", name.start)
        types[name.text] = cursor.whole_number(f"span[ptile=...,{name.text}:...]")
        if not (cursor.sees(",") and _type_follows(cursor, 1)):
            return tuple(types.items())
        cursor.take()


def read_cu(cursor: Cursor, position: int) -> Cu:
    """The inside of `cu[...]`, whose keyword stands at `position`. Raises RequirementError."""
    cu, seen = Cu(position=position), set[str]()
    while True:
        key = cursor.word("type, maxcus, pref, excl, balance or usablecuslots")
        if key.text in seen:
            cursor.fail(f"{key} is given twice in cu[...]", key.start)
        seen.add(key.text)
        cu = _cu_option(cursor, cu, key)
        if cu.balance and cu.pref == "bestfit":
            cursor.fail("cu[balance] and cu[pref=bestfit] cannot both hold", key.start)
        if not cursor.accept(":"):
            return cu


def _cu_option(cursor: Cursor, cu: Cu, key: Token) -> Cu:
    match key.text:
        case "excl":
            return replace(cu, excl=True)
        case "balance":
            return replace(cu, balance=True)
        case "type" | "maxcus" | "pref" | "usablecuslots":
            cursor.expect("=", f"after {key.text}")
        case _:
            known = "type, maxcus, pref, excl, balance, usablecuslots"
            cursor.fail(f"{key} is not known in cu[...]: {known} are", key.start)
    match key.text:
        case "type":
            return replace(cu, type=cursor.word("a type of compute unit").text)
        case "pref":
            return replace(cu, pref=cursor.word(f"one of {', '.join(PREFERENCES)}", PREFERENCES).text)
        case "maxcus":
            return replace(cu, maxcus=cursor.whole_number("cu[maxcus=...]"))
        case _:
            return replace(cu, usablecuslots=cursor.whole_number("cu[usablecuslots=...]"))
