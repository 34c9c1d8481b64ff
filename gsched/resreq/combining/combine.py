"""Puts the requirements of a job, its application profile and its queue together, as Combined and Effective show it.

Values in, a value and its text out: nothing is read here. What is shown is what is judged, for the text is printed from
the value and would read back as an equal one.
Rules and spelling: LSF 10.1, `bjobs -l`, RESOURCE REQUIREMENT DETAILS; the administration guide's tables of how levels
are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gsched.resreq.ast import (
    AllOf,
    AnyOf,
    AnyRequirement,
    Arithmetic,
    Comparison,
    Defined,
    Expression,
    Name,
    Negate,
    Not,
    Number,
    OrderKey,
    Parenthesized,
    Requirement,
    Reservation,
    StringValue,
    simple_parts,
    with_parts,
)
from gsched.resreq.judging.evaluate import DEFAULT_ORDER
from gsched.resreq.parsing.braces import breaks_braces
from gsched.resreq.parsing.lexer import refuse
from gsched.resreq.parsing.names import LOAD_INDEX_NAMES, IsName, canonical, walk
from gsched.resreq.parsing.printer import format_amount, print_any, print_expression, print_sections
from gsched.resreq.parsing.simple import is_overdone, with_rusage
from gsched.resreq.parsing.syntax import MAX_COMBINED_DEPTH, MAX_COMBINED_LENGTH, parse_combined_any

NOTHING = Requirement()
"""A level that states nothing."""


@dataclass(frozen=True, slots=True)
class Combined:
    """The requirement a job is scheduled by. `text` is LSF's spelling of it; it reads back as `whole`.

    `ignored` are the levels, "application" or "queue", whose compound or alternative requirement does not count
    because a higher level has one of its own.
    """

    text: str
    whole: AnyRequirement
    ignored: tuple[str, ...] = ()


def combine(
    job: AnyRequirement,
    queue: AnyRequirement = NOTHING,
    app: AnyRequirement = NOTHING,
    *,
    is_boolean: IsName | None = None,
) -> Combined:
    """The requirement of a job that asks for `job`, in a queue and an application with RES_REQ; any may be NOTHING.

    All selects must hold and the names of same[...] are joined; order, span, cu and affinity come from the highest
    level that gives them; rusage is merged by resource, the higher level's amounts first and the lower's duration and
    decay kept where the higher has none; a job's alternatives of rusage replace the lower levels' rusage. A host of the
    submission host's type is wanted unless a level names a host type, a model or a resource for which `is_boolean`
    holds.

    Braces: the highest level that states anything gives the form. Lower levels are combined with each part of it, but
    their same[...] does not count in a compound, what they reserve `/job` counts in its first part only, and
    a lower level that has braces itself does not count at all (`ignored`). Raises RequirementError.
    """
    levels = {name: each for name, each in (("job", job), ("application", app), ("queue", queue)) if each != NOTHING}
    top = next(iter(levels), "job")
    lower = {name: each for name, each in levels.items() if name != top}
    simple = [(name == "queue", each) for name, each in lower.items() if isinstance(each, Requirement)]

    def merged(part: Requirement, place: int | None) -> Requirement:
        below = simple if place is None else [(is_queue, _in_compound(each, place)) for is_queue, each in simple]
        return _merged_part([(top == "queue", part), *below], is_boolean)

    whole = with_parts(levels.get(top, NOTHING), merged)
    text = print_any(whole, lambda part, _: part.source)
    if len(text) > MAX_COMBINED_LENGTH:
        source = levels[top].source
        refuse(f"it has {len(text)} characters when combined, {MAX_COMBINED_LENGTH} are allowed", source, 0)
    if any(is_overdone(part, MAX_COMBINED_DEPTH) for part in simple_parts(whole)) or breaks_braces(whole):
        parse_combined_any(text)  # refuses it, at its place in the combined text
    ignored = tuple(name for name, each in lower.items() if not isinstance(each, Requirement))
    return Combined(text, replace(whole, source=text), ignored)


_Levels = Sequence[tuple[bool, Requirement]]
"""(whether it is the queue's, a level's requirement), the highest level first."""


def _in_compound(lower: Requirement, place: int) -> Requirement:
    """What counts of a lower level's requirement in the part of a compound that stands at `place`."""
    usages = [tuple(item for item in usage if place == 0 or item.method != "job") for usage in lower.every_rusage]
    return with_rusage(replace(lower, same=()), usages)


def _merged_part(levels: _Levels, is_boolean: IsName | None) -> Requirement:
    """A simple part with all levels merged in; its source is the text of it."""
    parts = [each for _, each in levels]
    order = next((each.order for each in parts if each.order), tuple(OrderKey(*key) for key in DEFAULT_ORDER))
    merged = Requirement(
        order=tuple(replace(key, name=canonical(key.name)) for key in order),
        span=next((each.span for each in parts if each.span), None),
        same=tuple(dict.fromkeys(key for each in parts for key in each.same)),
        cu=next((each.cu for each in parts if each.cu), None),
        affinity=next((each.affinity for each in parts if each.affinity), None),
    )
    usages = [tuple(map(_spelled_reservation, usage)) for usage in _merged_usages(parts)]
    terms, texts = _select_terms(levels, is_boolean)
    select = terms[0] if len(terms) == 1 else AllOf(tuple(map(Parenthesized, terms)))
    text = texts[0] if len(texts) == 1 else " && ".join(f"({each})" for each in texts)
    merged = with_rusage(replace(merged, select=select), usages)
    return replace(merged, source=" ".join([f"select[{text}]", *print_sections(merged, combined=True)]))


def _select_terms(levels: _Levels, is_boolean: IsName | None) -> tuple[list[Expression], list[str]]:
    """The terms that must all hold, and each as it is written."""
    selects = [(is_queue, each.select) for is_queue, each in levels if each.select is not None]
    naming = [is_queue for is_queue, select in selects if _names_type(select, is_boolean)]
    terms = [_spelled(select) for _, select in selects]
    texts = [print_expression(term, combined=True) for term in terms]
    # LSF writes the wildcard out when the job names a type, and nothing when the queue does.
    added = "local" if not naming else "" if True in naming else "any"
    if added:
        terms.append(Comparison("==", Name("type"), StringValue(added)))
        texts.append(f"type == {added}")
    return terms, texts


def _spelled(expression: Expression) -> Expression:
    """The expression as it reads from a Combined line: its sizes are MiB and have no unit."""
    match expression:
        case Number(value, _, True, position):
            return Number(value, format_amount(value), False, position)
        case Not(operand) | Negate(operand):
            return type(expression)(_spelled(operand))
        case Parenthesized(inner):
            return Parenthesized(_spelled(inner))
        case Arithmetic(op, left, right) | Comparison(op, left, right):
            return type(expression)(op, _spelled(left), _spelled(right))
        case AllOf(terms) | AnyOf(terms):
            return type(expression)(tuple(map(_spelled, terms)))
        case _:
            return expression


def _spelled_reservation(item: Reservation) -> Reservation:
    """The reservation as it reads from a Combined line."""
    phases = tuple(replace(phase, text=format_amount(phase.amount)) for phase in item.phases)
    return replace(item, text=format_amount(item.amount), phases=phases)


def _names_type(expression: Expression, is_boolean: IsName | None) -> bool:
    for part in walk(expression):
        match part:
            case Comparison(_, Name("type" | "model"), _):
                return True
            case Name(name) | Defined(name) if is_boolean is not None and is_boolean(name):
                return True
    return False


def _merged_usages(parts: Sequence[Requirement]) -> list[tuple[Reservation, ...]]:
    """The alternatives of all levels: a level that has several replaces what the lower ones reserve."""
    usages = [_merged((), usage) for usage in parts[0].every_rusage]
    for lower in parts[1:]:
        if len(usages) > 1:
            break
        usages = [_merged(usages[0], usage) for usage in lower.every_rusage]
    return usages


def _merged(higher: tuple[Reservation, ...], lower: tuple[Reservation, ...]) -> tuple[Reservation, ...]:
    """By resource, the higher level's first; built-in load indices lead in their own order, as LSF prints them."""
    merged: dict[str, Reservation] = {canonical(item.name): item for item in higher}
    for item in lower:
        name = canonical(item.name)
        merged[name] = _completed(merged[name], item) if name in merged else item
    builtin = [merged.pop(name) for name in LOAD_INDEX_NAMES if name in merged]
    return tuple(replace(item, name=canonical(item.name)) for item in (*builtin, *merged.values()))


def _completed(item: Reservation, lower: Reservation) -> Reservation:
    """`item` with what the lower level says of the same resource and it does not."""
    if item.duration_s is None and not item.phases and not lower.phases:
        item = replace(item, duration_s=lower.duration_s, decay=lower.decay)
    if item.threshold is None:
        item = replace(item, threshold=lower.threshold)
    options = {**dict(item.gpu_options), **{k: v for k, v in lower.gpu_options if k not in dict(item.gpu_options)}}
    return replace(item, gpu_options=tuple(options.items()))
