"""What a started job holds of amounts, reckoned anew where its requirement or its slots change. It changes nothing."""

from __future__ import annotations

import msgspec

from gsched.base.errors import BadRequest
from gsched.core.records.job import JobRecord
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.policy.requirement.demand_reader import demand_of
from gsched.resreq.ast import Requirement
from gsched.resreq.combining.stored import COMBINED


def with_amounts(job: JobRecord, spec: JobSpec, slots: Allocation) -> Allocation:
    """What the job holds when it reserves as `spec` says: the hosts, slots, GPUs and processors of `slots`."""
    requirement = job.bucket().requirement._replace(requirement=spec.combined_req)
    (term,) = demand_of(requirement, "").choices[0].terms
    parts: list[HostAllocation] = []
    for part in slots.hosts:
        need = term.need(part.slots, first=not parts)
        parts.append(msgspec.structs.replace(part, amounts=dict(need.amounts), courses=need.courses))
    return msgspec.structs.replace(slots, hosts=tuple(parts))


def with_slots(job: JobRecord, slots: Allocation) -> Allocation:
    """What the started job holds when it has these slots in place of its own: its amounts follow. Raises BadRequest
    for compound requirements and alternatives.
    """
    whole = COMBINED.of(job.spec.combined_req)
    if not isinstance(whole, Requirement) or len(whole.every_rusage) > 1:
        raise BadRequest("Job has alternatives or a compound requirement: its slots stay as they are")
    return with_amounts(job, job.spec, slots)
