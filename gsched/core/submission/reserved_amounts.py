"""gmod -R of a started job: which amounts it reserves from now on, on the hosts where it runs.

Only amounts of rusage[] can change: where the job runs, and on which GPUs, was settled at its dispatch. It changes
nothing itself. Source of the rule: bmod(1), options of running jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gsched.base.errors import BadRequest
from gsched.core.dispatch.dispatcher import effective_of
from gsched.core.dispatch.held_amounts import with_amounts
from gsched.core.records.job import JobRecord
from gsched.core.resources.observed_hosts import Observation
from gsched.core.resources.resource_values import host_values
from gsched.core.state.cluster_state import ClusterState
from gsched.core.submission.admission import total_of
from gsched.core.submission.requirement_check import CheckRequirement, is_gpus
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation
from gsched.resreq.ast import AnyRequirement, Requirement, Reservation
from gsched.resreq.combining.stored import COMBINED
from gsched.resreq.parsing.printer import print_combined, print_requirement
from gsched.resreq.parsing.simple import with_rusage
from gsched.resreq.parsing.syntax import parse_any

STARTED = "Job has already started"
SETTLED = ("select", "order", "span", "same", "cu", "affinity")
"""Sections that said where the job was to run."""


class Unreserved(NamedTuple):
    """What nobody has reserved of a resource on a host. `place`: the host, or what it shares with others."""

    place: str
    amount: float | None
    """None when that is not known."""


UnreservedOf = Callable[[str, str], Unreserved]
"""(host, resource) -> what is left of it there."""


class ReservedAnew(msgspec.Struct, frozen=True):
    """What a started job is to be and to hold."""

    spec: JobSpec
    allocation: Allocation
    effective_req: str


def reserved_anew(
    job: JobRecord, spec: JobSpec, judge: CheckRequirement, left: UnreservedOf, now: float
) -> ReservedAnew:
    """The started job with what `spec.res_req` reserves; `spec` is the job's own but for that.

    Sections of it that are missing stay as they were, and so do GPUs that it does not name. Raises BadRequest or
    RequirementError for anything that cannot change any more, and for more than the hosts have left.
    """
    assert job.allocation is not None
    old, asked = _only(parse_any(job.spec.res_req)), _only(parse_any(spec.res_req))
    _check_settled(old, asked)
    text = print_requirement(with_rusage(old, [_with_gpus(old, asked)]))
    judged = judge(text, spec.gpu_req, spec.queue, spec.slots, spec.application)
    before, wanted = _only(COMBINED.of(job.spec.combined_req)), _only(COMBINED.of(judged.text))
    kept = [item for item in before.rusage if is_gpus(item)]
    amounts = [item for item in wanted.rusage if not is_gpus(item)]
    value = with_rusage(before, [(*amounts, *kept)])
    combined = print_combined(value)
    COMBINED.keep(combined, value)
    made = msgspec.structs.replace(spec, res_req=text, combined_req=combined)
    allocation = with_amounts(job, made, job.allocation)
    _check_left(job, allocation, left, now)
    return ReservedAnew(made, allocation, effective_of(made, allocation))


def unreserved(
    state: ClusterState, config: ClusterConfig, observed: Callable[[str], Observation], name: str, resource: str
) -> Unreserved:
    """How much of a resource nobody has reserved on the host `name`."""
    host = config.hosts.get(name)
    if host is None:
        return Unreserved(name, None)
    seen = observed(name)
    shared = config.shared_on(name).get(resource)
    if shared is not None:
        value = host_values(config, host, seen).get(resource)
        used = state.ledger.reserved_on(shared.hosts, resource)
        return Unreserved(shared.key, value - used if isinstance(value, float | int) else None)
    # What jobs use is measured as taken, what they reserve is counted below: of all there is, where that is known.
    there = total_of(host, resource, seen)
    value = host_values(config, host, seen).get(resource) if there is None else there
    reserved = state.ledger.host(name).reserved.get(resource, 0.0)
    return Unreserved(name, value - reserved if isinstance(value, float | int) else None)


def _only(whole: AnyRequirement) -> Requirement:
    if not isinstance(whole, Requirement) or len(whole.every_rusage) > 1:
        raise BadRequest(f"{STARTED}: alternatives and compound requirements stay as they were")
    return whole


def _check_settled(old: Requirement, asked: Requirement) -> None:
    for name in SETTLED:
        section = _alone(asked, name)
        if section and section != _alone(old, name):
            raise BadRequest(f"{STARTED}: of the requirement only amounts of rusage[] can be changed, not {name}[]")


def _alone(requirement: Requirement, section: str) -> str:
    """The section as it is written; empty when the requirement has none."""
    value = getattr(requirement, section)
    return print_requirement(replace(Requirement(), **{section: value})) if value else ""


def _with_gpus(old: Requirement, asked: Requirement) -> tuple[Reservation, ...]:
    """What the job asks for now, with the GPUs that it asked for before."""
    before, wanted = _gpus(old.rusage), _gpus(asked.rusage)
    if wanted and _spelled(wanted) != _spelled(before):
        raise BadRequest(f"{STARTED}: its GPUs stay as they are, {wanted[0].name} cannot be changed")
    return (*before, *(item for item in asked.rusage if not is_gpus(item)))


def _gpus(items: Iterable[Reservation]) -> list[Reservation]:
    return [item for item in items if is_gpus(item)]


def _spelled(items: Iterable[Reservation]) -> str:
    return print_requirement(with_rusage(Requirement(), [tuple(items)]))


def _check_left(job: JobRecord, allocation: Allocation, left: UnreservedOf, now: float) -> None:
    """Refuse to reserve more than nobody else has. What hosts share is only so much on all of them together."""
    assert job.allocation is not None
    held = {part.host: part.amounts for part in job.allocation.as_of(now, job.held_since).hosts}
    wanted: dict[tuple[str, str], float] = {}
    for part in allocation.as_of(now, job.held_since).hosts:
        for name, amount in part.amounts.items():
            more = amount - held[part.host].get(name, 0.0)
            if more <= 0:
                continue
            place, there = left(part.host, name)
            more = wanted[place, name] = wanted.get((place, name), 0.0) + more
            if there is None or there < more:
                said = "how much is left is not known" if there is None else f"{max(there, 0.0):.10g} left"
                raise BadRequest(f"{part.host} has no {more:.10g} more of {name} to reserve: {said}")
