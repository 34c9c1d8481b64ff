"""Reads compound requirements, `2*{...} + 3*{...}`, and alternatives, `{...} || {...}@120`.

It must never place or choose: which alternative counts when is policy's work.

A compound may stand in braces with same[...] behind it, and each alternative may be a compound; there is no deeper
nesting. Source: bsub(1), option -R, compound and alternative resource requirements.
"""

from __future__ import annotations

from msgspec.structs import replace

from gsched.resreq.ast import (
    Alternative,
    Alternatives,
    AnyRequirement,
    Compound,
    Requirement,
    Term,
    compounds,
    simple_parts,
)
from gsched.resreq.parsing.lexer import Cursor
from gsched.resreq.parsing.order import read_same
from gsched.resreq.parsing.simple import TextLimits, read_simple

MAX_BRACES = 64
"""Pairs of braces in one text."""


def has_braces(cursor: Cursor) -> bool:
    """Whether a compound or an alternative requirement begins here."""
    return cursor.sees("{") or _term_follows(cursor)


def _term_follows(cursor: Cursor) -> bool:
    return cursor.peek().kind == "word" and cursor.sees("*", 1) and cursor.sees("{", 2)


def read_braces(cursor: Cursor, limits: TextLimits) -> AnyRequirement:
    """The compound or the alternatives that the whole text states. Raises RequirementError.

    Braces around one simple requirement alone mean that requirement.
    """
    if cursor.count("{") > MAX_BRACES:
        cursor.fail(f"more than {MAX_BRACES} pairs of braces")
    start = cursor.peek().start
    found: AnyRequirement
    if _term_follows(cursor):
        found = _compound(cursor, limits)
        if cursor.sees("||") or cursor.peek().kind == "word":
            cursor.fail(f"unexpected {cursor.peek()}: put braces around the whole compound, {{n*{{...}} + ...}}")
    else:
        found = _braced(cursor, limits)
        is_whole = cursor.peek().kind == "word" and isinstance(found, Compound)
        if isinstance(found, Compound):
            found = _with_same(cursor, found)
        elif cursor.sees("+"):
            cursor.fail("a number is wanted before the braces: n*{...} + n*{...}", start)
        elif cursor.peek().kind == "word":
            cursor.fail(f"unexpected {cursor.peek()}: a section belongs into the braces")
        if not is_whole and (cursor.sees("||") or cursor.sees("@")):
            found = _alternatives(cursor, limits, found, start)
    if cursor.peek().kind != "end":
        cursor.fail(f"unexpected {cursor.peek()} after the requirement")
    for part in simple_parts(found):
        _check_part(cursor, part, found)
    return found


def _braced(cursor: Cursor, limits: TextLimits) -> Requirement | Compound:
    """`{simple}`, `{n*{...} + ...}` or `{{n*{...} + ...} same[...]}`."""
    cursor.expect("{", "to begin a requirement")
    if _term_follows(cursor):
        found: Requirement | Compound = _compound(cursor, limits)
    elif cursor.sees("{"):
        inner = cursor.peek().start
        cursor.take()
        if not _term_follows(cursor):
            cursor.fail("braces in braces are for a compound requirement: {n*{...} + ...}", inner)
        compound = _compound(cursor, limits)
        cursor.expect("}", "to close '{'")
        found = _with_same(cursor, compound)
    else:
        found = _filled(cursor, limits)
    cursor.expect("}", "to close '{'")
    return found


def _filled(cursor: Cursor, limits: TextLimits) -> Requirement:
    if cursor.sees("}"):
        cursor.fail("{} is empty")
    requirement = read_simple(cursor, limits)
    if cursor.peek().kind == "end":
        cursor.fail("'}' is wanted to close '{', not the end")
    return requirement


def _compound(cursor: Cursor, limits: TextLimits) -> Compound:
    start = cursor.peek().start
    terms: list[Term] = []
    while True:
        position, count = cursor.peek().start, None
        if not cursor.sees("{"):
            count = cursor.whole_number("the number before *{...}")
            cursor.expect("*", "between the number and {...}")
        cursor.expect("{", "to begin a requirement")
        requirement = _filled(cursor, limits)
        if requirement.rusage_alternatives:
            where = requirement.rusage[0].position
            cursor.fail("an alternative (||) in rusage[...] cannot stand in a compound requirement", where)
        terms.append(Term(count, requirement, position))
        cursor.expect("}", "to close '{'")
        if not cursor.accept("+"):
            return Compound(tuple(terms), (), cursor.source, start)
        if count is None:
            cursor.fail("only the last part may lack its number: n*{...} + {...}", position)


def _with_same(cursor: Cursor, compound: Compound) -> Compound:
    """`compound` with the same[...] that may stand behind its braces."""
    if not (cursor.peek().kind == "word" and cursor.sees("[", 1)):
        return compound
    keyword = cursor.take()
    if keyword.text != "same":
        cursor.fail(f"only same[...] may stand behind a compound requirement, not {keyword}", keyword.start)
    if not cursor.is_glued(0):
        cursor.fail("no blank may stand between same and [", keyword.start)
    cursor.take()
    compound = replace(compound, same=read_same(cursor))
    cursor.expect("]", "to close same[")
    return compound


def _alternatives(cursor: Cursor, limits: TextLimits, first: Requirement | Compound, start: int) -> Alternatives:
    if cursor.sees("@"):
        cursor.fail("the first alternative counts at once: a delay stands behind the later ones")
    choices = [Alternative(first)]
    while cursor.accept("||"):
        requirement = _braced(cursor, limits)
        delay = cursor.whole_number("a delay in seconds", least=0) if cursor.accept("@") else 0
        choices.append(Alternative(requirement, delay))
    return Alternatives(tuple(choices), cursor.source, start)


def _check_part(cursor: Cursor, part: Requirement, whole: AnyRequirement) -> None:
    """What LSF does not allow within braces."""
    if whole is not part and part.cu is not None and _owns_units(part):
        cursor.fail("cu[excl] and cu[balance] cannot stand in a compound or alternative requirement", part.cu.position)


def _owns_units(part: Requirement) -> bool:
    return part.cu is not None and (part.cu.excl or part.cu.balance)


def breaks_braces(whole: AnyRequirement) -> bool:
    """Whether a requirement that was combined of several has within braces what may not stand there."""
    if isinstance(whole, Requirement):
        return False
    terms = (term.requirement for compound in compounds(whole) for term in compound.terms)
    return any(map(_owns_units, simple_parts(whole))) or any(part.rusage_alternatives for part in terms)
