"""Puts the requirements of a job, its application profile and its queue together, as Combined and Effective show it.

What is shown is what is judged: the combined requirement is read from its own text.
Rules and spelling: LSF 10.1, `bjobs -l`, RESOURCE REQUIREMENT DETAILS; the administration guide's tables of how levels
are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gsched.resreq.ast import (
    AnyRequirement,
    Comparison,
    Defined,
    Expression,
    Name,
    OrderKey,
    Requirement,
    Reservation,
)
from gsched.resreq.evaluate import DEFAULT_ORDER
from gsched.resreq.lexer import refuse
from gsched.resreq.names import LOAD_INDEX_NAMES, IsName, canonical, walk
from gsched.resreq.printer import print_any, print_expression, print_sections
from gsched.resreq.simple import with_rusage
from gsched.resreq.syntax import MAX_COMBINED_LENGTH, parse_any, parse_combined, parse_combined_any

_LOCAL = "type == local"
_ANY = "type == any"


@dataclass(frozen=True, slots=True)
class Combined:
    """The requirement a job is scheduled by. `text` is LSF's spelling of it; it reads back with `parse_combined_any`.

    `ignored` are the levels, "application" or "queue", whose compound or alternative requirement does not count
    because a higher level has one of its own.
    """

    text: str
    whole: AnyRequirement
    ignored: tuple[str, ...] = ()

    @property
    def requirement(self) -> Requirement:
        """The whole, if it is simple; RequirementError, which names what it is, if not."""
        return self.whole if isinstance(self.whole, Requirement) else parse_combined(self.text)


def combine(
    job_req: str,
    queue_req: str = "",
    app_req: str = "",
    *,
    is_boolean: IsName | None = None,
    is_increasing: IsName | None = None,
) -> Combined:
    """The requirement of a job that asks for `job_req`, in a queue and an application with RES_REQ; any may be empty.

    All selects must hold and the names of same[...] are joined; order, span, cu and affinity come from the highest
    level that gives them; rusage is merged by resource, the higher level's amounts first and the lower's duration and
    decay kept where the higher has none; a job's alternatives of rusage replace the lower levels' rusage. A host of the
    submission host's type is wanted unless a level names a host type, a model or a resource for which `is_boolean`
    holds.

    Braces: the highest level that states anything gives the form. Lower levels are combined with each part of it, but
    their same[...] does not count in a compound, what they reserve `/job` counts in its first part only, and
    a lower level that has braces itself does not count at all (`ignored`). Raises RequirementError.
    """
    texts = {"job": job_req, "application": app_req, "queue": queue_req}
    levels = {name: parse_any(text, is_increasing=is_increasing) for name, text in texts.items() if text.strip()}
    top = next(iter(levels), "job")
    lower = {name: each for name, each in levels.items() if name != top}
    whole = levels.get(top, Requirement())
    simple = [(name == "queue", each) for name, each in lower.items() if isinstance(each, Requirement)]

    def spelled(part: Requirement, place: int | None) -> str:
        below = simple if place is None else [(is_queue, _in_compound(each, place)) for is_queue, each in simple]
        return _part_text([(top == "queue", part), *below], is_boolean)

    text = print_any(whole, spelled)
    if len(text) > MAX_COMBINED_LENGTH:
        refuse(f"it has {len(text)} characters when combined, {MAX_COMBINED_LENGTH} are allowed", texts[top], 0)
    ignored = tuple(name for name, each in lower.items() if not isinstance(each, Requirement))
    return Combined(text, parse_combined_any(text), ignored)


_Levels = Sequence[tuple[bool, Requirement]]
"""(whether it is the queue's, a level's requirement), the highest level first."""


def _in_compound(lower: Requirement, place: int) -> Requirement:
    """What counts of a lower level's requirement in the part of a compound that stands at `place`."""
    usages = [tuple(item for item in usage if place == 0 or item.method != "job") for usage in lower.every_rusage]
    return with_rusage(replace(lower, same=()), usages)


def _part_text(levels: _Levels, is_boolean: IsName | None) -> str:
    parts = [each for _, each in levels]
    order = next((each.order for each in parts if each.order), tuple(OrderKey(*key) for key in DEFAULT_ORDER))
    merged = Requirement(
        order=tuple(replace(key, name=canonical(key.name)) for key in order),
        span=next((each.span for each in parts if each.span), None),
        same=tuple(dict.fromkeys(key for each in parts for key in each.same)),
        cu=next((each.cu for each in parts if each.cu), None),
        affinity=next((each.affinity for each in parts if each.affinity), None),
    )
    merged = with_rusage(merged, _merged_usages(parts))
    return " ".join([f"select[{_select_text(levels, is_boolean)}]", *print_sections(merged, combined=True)])


def _select_text(levels: _Levels, is_boolean: IsName | None) -> str:
    selects = [(is_queue, each.select) for is_queue, each in levels if each.select is not None]
    naming = [is_queue for is_queue, select in selects if _names_type(select, is_boolean)]
    terms = [print_expression(select, combined=True) for _, select in selects]
    # LSF writes the wildcard out when the job names a type, and nothing when the queue does.
    if not naming:
        terms.append(_LOCAL)
    elif True not in naming:
        terms.append(_ANY)
    return terms[0] if len(terms) == 1 else " && ".join(f"({term})" for term in terms)


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
