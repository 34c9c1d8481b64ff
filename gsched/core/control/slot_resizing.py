"""gresize: slots of a started job are given back while it runs, or more are asked for, or asked for no more.

What comes of a request is a cycle's business (gsched.policy.preempt.slot_growth). GPUs, processors by affinity[] and
whole hosts stay as they were given. Nothing is recorded of a release that is refused. Source: bresize(1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from gsched.base.coded_text import coded
from gsched.base.errors import BadRequest, GschedError
from gsched.core.command import ReleaseSlots, RequestSlots
from gsched.core.control.control_context import FINISHED_TEXT, NOT_STARTED_TEXT, ControlContext
from gsched.core.dispatch.held_amounts import with_slots
from gsched.core.dispatch.task_limits import task_limits
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.model.config import ClusterConfig
from gsched.model.event import JobModified
from gsched.model.jobs.job import KEEPS_SLOTS, MOST_SLOTS, NO_MORE, PENDING, JobSpec, JobState
from gsched.model.ledgers.allocation import Allocation

ALL = "all"
"""All slots but one of the first host."""
MOST_WORDS = 1_000
"""So many words a release may have."""
_WORD = re.compile(r"(?:([0-9]{1,9})\*)?([^*\s]+)", re.ASCII)
_NOT_RESIZABLE = "Job is not resizable: it had no -ar, and RESIZABLE_JOBS does not say so"
_NO_REQUEST = "No request for more slots is pending"
_REQUEST_PENDING = "A request for more slots is pending: it must be cancelled before slots are released, or by -c"
_BAD_HOST = "Bad host name, host group name or cluster name"


def check_release(command: ReleaseSlots, _config: ClusterConfig) -> None:
    """Raises BadRequest for words that can be no hosts. A job may have slots on a host that has left the cluster."""
    if not command.hosts:
        raise BadRequest("Bad argument: name hosts whose slots are to be released, or all")
    if len(command.hosts) > MOST_WORDS:
        raise BadRequest(f"Bad argument: {len(command.hosts)} words for hosts, a release may have {MOST_WORDS}")
    for word in command.hosts:
        found = _WORD.fullmatch(word)
        if found is None or (found[1] and not int(found[1])):
            raise BadRequest(f"{word[:60]}: Bad host specification: HOST, NUMBER*HOST or all")


def check_request(command: RequestSlots, config: ClusterConfig) -> None:
    """Raises BadRequest for a number that is none."""
    if not 0 <= command.slots <= MOST_SLOTS:
        raise BadRequest(f"Bad argument: a request is for 1 to {MOST_SLOTS} slots")


def release(context: ControlContext[ReleaseSlots], job: JobRecord) -> str:
    """Give slots back. A part on a host of which none are left is given up, and ends."""
    denied = _denied(job)
    if denied:
        return denied
    assert job.allocation is not None
    spec, words = job.spec, _once(context.command.hosts)
    context.turn.spend(len(words) + len(job.allocation.hosts))
    if spec.wanted_slots > job.allocation.slots and not context.command.cancels:
        return _REQUEST_PENDING
    try:
        kept = _without(job.allocation, words, context.config)
        allocation = with_slots(job, kept)
    except GschedError as error:
        return error.text
    if spec.wanted_slots:  # else the same slots would come back at once
        spec = msgspec.structs.replace(spec, resize_to=NO_MORE)
    context.decision.record(
        JobModified(
            at=context.now,
            job_id=job.job_id,
            by=context.command.user,
            spec=spec,
            changes=(coded("resize.released", _slots_text(_difference(job.allocation, kept))),),
            allocation=allocation,
            effective_req=job.effective_req,
        )
    )
    return ""


def request(context: ControlContext[RequestSlots], job: JobRecord) -> str:
    """Ask for more slots, or (0) for no more."""
    denied = _denied(job)
    if denied:
        return denied
    assert job.allocation is not None
    wanted, has = context.command.slots, job.allocation.slots
    if not wanted and job.spec.wanted_slots <= has:
        return _NO_REQUEST
    refused = _too_many(job.spec, has + wanted, context.config) if wanted else ""
    if refused:
        return refused
    text = coded("resize.requested", wanted) if wanted else coded("resize.cancelled")
    context.decision.record(
        JobModified(
            at=context.now,
            job_id=job.job_id,
            by=context.command.user,
            spec=msgspec.structs.replace(job.spec, resize_to=has + wanted if wanted else NO_MORE),
            changes=(text,),
        )
    )
    return ""


def of_waiting(context: ControlContext[ReleaseSlots | RequestSlots], array: JobArray) -> str:
    """Elements that wait have no slots."""
    return NOT_STARTED_TEXT if array.count else FINISHED_TEXT


def _denied(job: JobRecord) -> str:
    if job.state in PENDING:
        return NOT_STARTED_TEXT
    if job.spec.resizable in ("", KEEPS_SLOTS):
        return _NOT_RESIZABLE
    if job.state is not JobState.RUN or job.started_at is None or job.kill_by or job.requeue_by:
        return "Job is suspended, or about to end"
    assert job.allocation is not None
    if any(part.exclusive or part.bindings for part in job.allocation.parts):
        return "Job has whole hosts, or processors of its own: its slots stay as they are"
    return ""


def _too_many(spec: JobSpec, slots: int, config: ClusterConfig) -> str:
    """Why it may not have so many slots: those of any job, and TASKLIMIT of its profile and of its queue. The most of
    its own -n is what it grows to by itself; who asks may have more.
    """
    if slots > MOST_SLOTS:
        return f"Too many processors requested: {slots}, a job may have {MOST_SLOTS}"
    limits = task_limits(spec.application, spec.queue, config)
    refused = next(filter(None, (limit.wrong_size(slots, slots) or limit.too_many(slots) for limit in limits)), None)
    return "" if refused is None else str(refused)


def _once(words: Sequence[str]) -> list[str]:
    """Without what was said already; a number of slots counts again."""
    said: dict[str, int] = {}
    for place, word in enumerate(words):
        said.setdefault(word, place)
    return [word for place, word in enumerate(words) if "*" in word or said[word] == place]


def _without(allocation: Allocation, words: Sequence[str], config: ClusterConfig) -> Allocation:
    """What is left. Raises BadRequest where that is nothing of the first host, or a host has fewer slots."""
    first = allocation.first_host
    slots = {part.host: part.slots for part in allocation.hosts}
    for word in words:
        found = _WORD.fullmatch(word)
        number, host = (found[1], found[2]) if found is not None else (None, word)
        if word == ALL:
            slots = {each: int(each == first) for each in slots}
            continue
        if host not in slots:
            known = host in config.hosts
            raise BadRequest(f"{host[:60]}: " + ("the job has no slots there" if known else _BAD_HOST))
        slots[host] -= int(number) if number else slots[host] - int(host == first)
        if slots[host] < int(host == first):
            least = ", of which one stays" if host == first else ""
            raise BadRequest(f"{host}: the job has {_slots_on(allocation, host)} slots there{least}")
    if slots == {part.host: part.slots for part in allocation.hosts}:
        raise BadRequest("Nothing to release: one slot of the first host stays")
    kept = [msgspec.structs.replace(part, slots=slots[part.host]) for part in allocation.hosts if slots[part.host]]
    return msgspec.structs.replace(allocation, hosts=tuple(kept))


def _slots_on(allocation: Allocation, host: str) -> int:
    return sum(part.slots for part in allocation.hosts if part.host == host)


def _difference(before: Allocation, after: Allocation) -> list[tuple[str, int]]:
    changed = [(part.host, part.slots - _slots_on(after, part.host)) for part in before.hosts]
    return [each for each in changed if each[1]]


def _slots_text(slots: Sequence[tuple[str, int]]) -> str:
    return " ".join(f"{number}*{host}" for host, number in slots)
