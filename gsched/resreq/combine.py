"""Puts a job's and its queue's requirement together, as the Combined and Effective lines show it.

What is shown is what is judged: the combined requirement is read from its own text.
Rules and spelling: LSF 10.1, `bjobs -l`, RESOURCE REQUIREMENT DETAILS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gsched.resreq.ast import Comparison, Defined, Expression, Name, OrderKey, Requirement, Reservation
from gsched.resreq.evaluate import DEFAULT_ORDER
from gsched.resreq.names import LOAD_INDEX_NAMES, IsName, canonical, walk
from gsched.resreq.printer import print_expression, print_sections
from gsched.resreq.syntax import parse, parse_combined

_LOCAL = "type == local"
_ANY = "type == any"


@dataclass(frozen=True, slots=True)
class Combined:
    """The requirement a job is scheduled by. `text` is LSF's spelling of it; it reads back with `parse_combined`."""

    text: str
    requirement: Requirement


def combine(job_req: str, queue_req: str = "", *, is_boolean: IsName | None = None) -> Combined:
    """The requirement of a job that asks for `job_req` in a queue with RES_REQ `queue_req`; both may be empty.

    Both selects must hold; the job's order, span and same replace the queue's; rusage is merged by resource, the
    job's amounts before the queue's. A host of the submission host's type is wanted unless one of the two names a
    host type, a model or a resource for which `is_boolean` holds. Raises RequirementError.
    """
    job, queue = parse(job_req), parse(queue_req)
    merged = Requirement(
        order=tuple(
            OrderKey(canonical(key.name), key.is_reversed)
            for key in job.order or queue.order or tuple(OrderKey(*key) for key in DEFAULT_ORDER)
        ),
        rusage=_merge_rusage(job.rusage, queue.rusage),
        span=job.span or queue.span,
        same=job.same or queue.same,
    )
    select = _select_text(job.select, queue.select, is_boolean)
    text = " ".join([f"select[{select}]", *print_sections(merged, combined=True)])
    return Combined(text, parse_combined(text))


def _select_text(job: Expression | None, queue: Expression | None, is_boolean: IsName | None) -> str:
    job_names_type = job is not None and _names_type(job, is_boolean)
    queue_names_type = queue is not None and _names_type(queue, is_boolean)
    terms = [print_expression(each, combined=True) for each in (job, queue) if each is not None]
    # LSF writes the wildcard out when the job names a type, and nothing when the queue does.
    if job_names_type and not queue_names_type:
        terms.append(_ANY)
    elif not queue_names_type:
        terms.append(_LOCAL)
    return terms[0] if len(terms) == 1 else " && ".join(f"({term})" for term in terms)


def _names_type(expression: Expression, is_boolean: IsName | None) -> bool:
    for part in walk(expression):
        match part:
            case Comparison(_, Name("type" | "model"), _):
                return True
            case Name(name) | Defined(name) if is_boolean is not None and is_boolean(name):
                return True
    return False


def _merge_rusage(job: tuple[Reservation, ...], queue: tuple[Reservation, ...]) -> tuple[Reservation, ...]:
    """By resource, the job's first; built-in load indices lead in their own order, as LSF prints them."""
    merged: dict[str, Reservation] = {}
    for item in (*job, *queue):
        merged.setdefault(canonical(item.name), replace(item, name=canonical(item.name)))
    builtin = [merged.pop(name) for name in LOAD_INDEX_NAMES if name in merged]
    return (*builtin, *merged.values())
