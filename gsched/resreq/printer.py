"""Writes requirements back as text. What is written here must read back as the same requirement.

Two spellings: plain, close to what was typed, and the one of LSF's Combined/Effective lines, where text is compared as
`type == any ` (with the blank), sizes are MiB and amounts carry two decimals.
Source: transcripts of `bjobs -l` of LSF 10.1.
"""

from __future__ import annotations

from decimal import Decimal

from gsched.resreq.ast import (
    AllOf,
    AnyOf,
    Arithmetic,
    Comparison,
    Defined,
    Expression,
    Group,
    Name,
    Negate,
    Not,
    Number,
    Requirement,
    Reservation,
    Span,
    Text,
)
from gsched.resreq.lexer import is_name


def format_amount(value: float) -> str:
    """`value` with two decimals, `1.00`; with as many as it takes where two would change it, `0.125`."""
    text = f"{value:.2f}"
    return text if float(text) == value else format(Decimal(repr(value)), "f")


def print_expression(expression: Expression, *, combined: bool = False) -> str:
    """`expression` as text, in the spelling of Combined lines if `combined`."""
    match expression:
        case Number(value, text, has_unit):
            return format_amount(value) if combined and has_unit else text
        case Text(value, quoted):
            return _quoted(value) if quoted else value
        case Name(name):
            return name
        case Defined(name):
            return f"defined({name})"
        case Not(operand):
            return f"!{print_expression(operand, combined=combined)}"
        case Negate(operand):
            return f"-{print_expression(operand, combined=combined)}"
        case Group(inner):
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


def print_reservation(reservation: Reservation, *, combined: bool = False) -> str:
    """`mem=16G/host`, or `mem=16384.00/host` if `combined`."""
    amount = format_amount(reservation.amount) if combined else reservation.text
    return f"{reservation.name}={amount}{'/' if reservation.method else ''}{reservation.method}"


def _print_span(span: Span) -> str:
    return f"span[hosts={span.hosts}]" if span.hosts is not None else f"span[ptile={span.ptile}]"


def print_sections(requirement: Requirement, *, combined: bool = False) -> list[str]:
    """The sections after select, in LSF's order."""
    sections = []
    if requirement.order:
        keys = ":".join(("-" if key.is_reversed else "") + key.name for key in requirement.order)
        sections.append(f"order[{keys}]")
    if requirement.rusage:
        amounts = ",".join(print_reservation(item, combined=combined) for item in requirement.rusage)
        sections.append(f"rusage[{amounts}]")
    if requirement.span is not None:
        sections.append(_print_span(requirement.span))
    if requirement.same:
        sections.append(f"same[{':'.join(key.name for key in requirement.same)}]")
    return sections


def print_requirement(requirement: Requirement) -> str:
    """`requirement` as text, sections in LSF's order; `parse` reads it back as an equal value."""
    sections = print_sections(requirement)
    if requirement.select is not None:
        sections.insert(0, f"select[{print_expression(requirement.select)}]")
    return " ".join(sections)
