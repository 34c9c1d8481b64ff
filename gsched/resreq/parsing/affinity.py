"""Reads the section affinity[...]: which processor units a task wants and how it is bound to them.

It must never know a host's topology. Source: bsub(1), option -R; the affinity string of LSF's administration guide.
"""

from __future__ import annotations

from msgspec.structs import replace

from gsched.resreq.ast import Affinity
from gsched.resreq.parsing.lexer import Cursor, Token

UNITS = ("numa", "socket", "core", "thread")
"""Processor units, the largest first."""
SCOPES = ("intask", "injob", "alljobs")
"""Whom `exclusive=(level,scope)` keeps out: other tasks of the task's kind, of the job, of all jobs."""
MEMBINDS = ("localonly", "localprefer")
_ALIASES = {"mcm": "numa", "cpu": "thread"}
_OPTIONS = ("cpubind", "membind", "distribute")


def read_affinity(cursor: Cursor, position: int) -> Affinity:
    """The inside of `affinity[...]`, whose keyword stands at `position`. Raises RequirementError."""
    affinity = Affinity(_unit(cursor, "the unit that a task wants"), position=position)
    if cursor.accept("("):
        affinity = replace(affinity, number=cursor.whole_number(f"{affinity.unit}(...)"))
        while cursor.accept(","):
            affinity = _unit_option(cursor, affinity)
        cursor.expect(")", f"to close {affinity.unit}(")
    if cursor.accept("*"):
        affinity = replace(affinity, factor=cursor.whole_number("what follows '*'"))
    while cursor.accept(":"):
        key = cursor.word("cpubind, membind or distribute", _OPTIONS)
        cursor.expect("=", f"after {key.text}")
        if getattr(affinity, key.text):
            cursor.fail(f"{key} is given twice in affinity[...]", key.start)
        affinity = _option(cursor, affinity, key)
    return affinity


def _unit(cursor: Cursor, what: str) -> str:
    token = cursor.word(f"{what} ({', '.join(UNITS)})", (*UNITS, *_ALIASES))
    return _ALIASES.get(token.text, token.text)


def _unit_option(cursor: Cursor, affinity: Affinity) -> Affinity:
    key = cursor.word("same= or exclusive=", ("same", "exclusive"))
    if affinity.same if key.text == "same" else affinity.exclusive[0]:
        cursor.fail(f"{key} is given twice in affinity[...]", key.start)
    cursor.expect("=", f"after {key.text}")
    if key.text == "same":
        at = cursor.peek().start
        level = _unit(cursor, "a level")
        if UNITS.index(level) > max(UNITS.index(affinity.unit), 1):
            cursor.fail(f"same={level} says nothing of {affinity.unit}s: a {level} is a part of one", at)
        return replace(affinity, same=level)
    cursor.expect("(", "after exclusive=")
    level, scope = _unit(cursor, "a level"), ""
    if cursor.accept(","):
        scope = cursor.word(f"one of {', '.join(SCOPES)}", SCOPES).text
    cursor.expect(")", "to close exclusive=(")
    return replace(affinity, exclusive=(level, scope))


def _option(cursor: Cursor, affinity: Affinity, key: Token) -> Affinity:
    if key.text == "cpubind":
        return replace(affinity, cpubind=_unit(cursor, "a level"))
    if key.text == "membind":
        return replace(affinity, membind=cursor.word(" or ".join(MEMBINDS), MEMBINDS).text)
    how = cursor.word("any, balance or pack", ("any", "balance", "pack")).text
    affinity = replace(affinity, distribute=how)
    if how == "pack" and cursor.accept("("):
        level = _unit(cursor, "a level")
        cursor.expect("=", "in pack(level=number)")
        number = cursor.whole_number(f"pack({level}=...)")
        cursor.expect(")", "to close pack(")
        affinity = replace(affinity, pack_level=level, pack_number=number)
    return affinity
