"""Writes requirements back as text. What is written here must read back as the same requirement.

Two spellings: plain, close to what was typed, and the one of LSF's Combined/Effective lines, where text is compared as
`type == any ` (with the blank), sizes are MiB and amounts carry two decimals.
Source: transcripts of `bjobs -l` of LSF 10.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

from gsched.resreq.ast import (
    BY_HOST,
    UNLISTED,
    Affinity,
    AllOf,
    Alternatives,
    AnyOf,
    AnyRequirement,
    Arithmetic,
    Comparison,
    Compound,
    Cu,
    Defined,
    Expression,
    Name,
    Negate,
    Not,
    Number,
    OrderKey,
    Parenthesized,
    Phase,
    Requirement,
    Reservation,
    SameKey,
    Span,
    StringValue,
)
from gsched.resreq.parsing.lexer import is_name

_WORD = re.compile(r"[A-Za-z0-9_.]+", re.ASCII)
_ADDED = ("type == local", "type == any")
"""What combining adds, which LSF writes without the blank behind it."""


def format_amount(value: float) -> str:
    """`value` with two decimals, `1.00`; with as many as it takes where two would change it, `0.125`."""
    text = f"{value:.2f}"
    return text if float(text) == value else format(Decimal(repr(value)), "f")


def print_expression(expression: Expression, *, combined: bool = False) -> str:
    """`expression` as text, in the spelling of Combined lines if `combined`."""
    match expression:
        case Number(value, text, has_unit):
            return format_amount(value) if combined and has_unit else text
        case StringValue(value, quoted):
            return _quoted(value) if quoted else value
        case Name(name):
            return name
        case Defined(name):
            return f"defined({name})"
        case Not(operand):
            return f"!{print_expression(operand, combined=combined)}"
        case Negate(operand):
            return f"-{print_expression(operand, combined=combined)}"
        case Parenthesized(inner):
            return f"({print_expression(inner, combined=combined)})"
        case Arithmetic(op, left, right):
            return print_expression(left, combined=combined) + op + print_expression(right, combined=combined)
        case Comparison():
            return _print_comparison(expression, combined)
        case AllOf(terms):
            return "&&".join(print_expression(term, combined=combined) for term in terms)
        case AnyOf(terms):
            return "||".join(print_expression(term, combined=combined) for term in terms)


def _print_comparison(comparison: Comparison, combined: bool) -> str:
    left = print_expression(comparison.left, combined=combined)
    right = print_expression(comparison.right, combined=combined)
    if combined and comparison.is_textual:
        return f"{left} {comparison.op} {right} "
    return left + comparison.op + (_unlike_a_value(right) if isinstance(comparison.right, Arithmetic) else right)


def _unlike_a_value(difference: str) -> str:
    """`a - b` for `a-b`, which to the right of a comparison could be meant as text and is refused."""
    first, hyphen, rest = difference.partition("-")
    return f"{first} - {rest}" if hyphen and is_name(first) else difference


def _quoted(value: str) -> str:
    return f'"{value}"' if "'" in value else f"'{value}'"


def format_duration(seconds: float) -> str:
    """Whole seconds as `8h`, `90m` or `45s`, in the largest unit that divides them."""
    whole = int(seconds)
    for unit, size in (("h", 3600), ("m", 60)):
        if whole % size == 0:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def print_reservation(reservation: Reservation, *, combined: bool = False) -> str:
    """`mem=16G/host:duration=8h:decay=0`, or `mem=16384.00/host:duration=8h:decay=0` if `combined`."""
    phases = reservation.phases or (
        Phase(reservation.amount, reservation.text, reservation.duration_s, reservation.decay),
    )
    amounts = _list([format_amount(phase.amount) if combined else phase.text for phase in phases])
    parts = [f"{reservation.name}={amounts}{'/' if reservation.method else ''}{reservation.method}"]
    parts += [f"{key}={value}" for key, value in reservation.gpu_options]
    times = [format_duration(phase.duration_s) for phase in phases if phase.duration_s is not None]
    if times:
        parts.append(f"duration={_list(times)}")
        parts.append(f"decay={_list(['1' if phase.decay else '0' for phase in phases])}")
    if reservation.threshold is not None:
        parts.append(f"threshold={format_amount(reservation.threshold)}")
    return ":".join(parts)


def _list(values: list[str]) -> str:
    return values[0] if len(values) == 1 else f"({' '.join(values)})"


def print_order_key(key: OrderKey) -> str:
    """`mem`, `-mem`, `!mem` or `mem/2`."""
    return ("!" if key.resort else "") + ("-" if key.is_reversed else "") + key.name


def _print_span(span: Span) -> str:
    parts = []
    if span.hosts is not None:
        parts.append(f"hosts={span.hosts}")
    if span.ptile is not None:
        types = [f"{name if _WORD.fullmatch(name) else _quoted(name)}:{count}" for name, count in span.ptile_types]
        every = {BY_HOST: ["'!'"], UNLISTED: []}.get(span.ptile, [str(span.ptile)])
        parts.append(f"ptile={','.join([*every, *types])}")
    if span.block is not None:
        parts.append(f"block={span.block}")
    if span.stripe is not None:
        parts.append(f"stripe={span.stripe}" if span.stripe else "stripe")
    if span.gtile is not None:
        parts.append("gtile='!'" if span.gtile == BY_HOST else f"gtile={span.gtile}")
    return f"span[{','.join(parts)}]"


def _print_same(keys: tuple[SameKey, ...]) -> str:
    return f"same[{':'.join(key.name for key in keys)}]"


def _print_cu(cu: Cu) -> str:
    values = [("type", cu.type), ("maxcus", cu.maxcus), ("pref", cu.pref), ("usablecuslots", cu.usablecuslots)]
    parts = [f"{key}={value}" for key, value in values if value]
    parts += [word for word, holds in (("excl", cu.excl), ("balance", cu.balance)) if holds]
    return f"cu[{':'.join(parts)}]"


def print_affinity(affinity: Affinity) -> str:
    """`affinity[...]` as it is read again."""
    level, scope = affinity.exclusive
    options = [str(affinity.number)]
    if affinity.same:
        options.append(f"same={affinity.same}")
    if level:
        options.append(f"exclusive=({level}{',' if scope else ''}{scope})")
    parts = [f"{affinity.unit}({','.join(options)}){f'*{affinity.factor}' if affinity.factor != 1 else ''}"]
    pack = f"({affinity.pack_level}={affinity.pack_number})" if affinity.pack_level else ""
    binds = [
        ("cpubind", affinity.cpubind),
        ("membind", affinity.membind),
        ("distribute", affinity.distribute and affinity.distribute + pack),
    ]
    parts += [f"{key}={value}" for key, value in binds if value]
    return f"affinity[{':'.join(parts)}]"


def print_sections(requirement: Requirement, *, combined: bool = False) -> list[str]:
    """The sections after select, in LSF's order."""
    sections = []
    if requirement.order:
        sections.append(f"order[{':'.join(print_order_key(key) for key in requirement.order)}]")
    if requirement.rusage:
        usages = [
            ",".join(print_reservation(item, combined=combined) for item in usage) for usage in requirement.every_rusage
        ]
        sections.append(f"rusage[{' || '.join(usages)}]")
    if requirement.span is not None:
        sections.append(_print_span(requirement.span))
    if requirement.same:
        sections.append(_print_same(requirement.same))
    if requirement.cu is not None:
        sections.append(_print_cu(requirement.cu))
    if requirement.affinity is not None:
        sections.append(print_affinity(requirement.affinity))
    return sections


def print_requirement(requirement: Requirement) -> str:
    """`requirement` as text, sections in LSF's order; `parse` reads it back as an equal value."""
    sections = print_sections(requirement)
    if requirement.select is not None:
        sections.insert(0, f"select[{print_expression(requirement.select)}]")
    return " ".join(sections)


def print_select(select: Expression) -> str:
    """`select` in the spelling of Combined lines: `(mem>1) && (type == local)`, what levels added without a blank."""
    if not isinstance(select, AllOf) or not all(isinstance(term, Parenthesized) for term in select.terms):
        text = print_expression(select, combined=True)
        return text.rstrip() if text.rstrip() == _ADDED[0] else text
    first = [print_expression(term, combined=True) for term in select.terms]
    last = first.pop()
    return " && ".join([*first, "(" + last[1:-1].rstrip() + ")" if last[1:-1].rstrip() in _ADDED else last])


def print_combined(requirement: Requirement) -> str:
    """`requirement` in the spelling of Combined lines; what was read from such a line is written as it was."""
    select = [f"select[{print_select(requirement.select)}]"] if requirement.select is not None else []
    return " ".join([*select, *print_sections(requirement, combined=True)])


def print_any(requirement: AnyRequirement, part: Callable[[Requirement, int | None], str] | None = None) -> str:
    """A requirement of any form as text; `parse_any` reads it back as an equal value.

    `part` prints a simple requirement; it is told its place in its compound, None where it is in none.
    """
    write = part or (lambda simple, _: print_requirement(simple))
    match requirement:
        case Compound(terms, same):
            text = " + ".join(
                f"{'' if term.count is None else f'{term.count}*'}{{{write(term.requirement, place)}}}"
                for place, term in enumerate(terms)
            )
            return f"{{{text}}} {_print_same(same)}" if same else text
        case Alternatives(choices):
            return " || ".join(
                f"{{{print_any(choice.requirement, part)}}}{f'@{choice.delay_s}' if choice.delay_s else ''}"
                for choice in choices
            )
        case _:
            return write(requirement, None)
