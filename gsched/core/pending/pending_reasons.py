"""Why a job waits: its own reason (held, another job, a time), or that of its kind from the last cycle.

Never empty for a pending job. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gsched.base.coded_text import AnyText, CodedText, CodedValue, coded
from gsched.base.errors import ResourceExhausted
from gsched.base.ids import array_of, show_job
from gsched.core.attempts.restarts import SHORT_RUN_S
from gsched.core.pending.dependent_jobs import Dependents
from gsched.core.records.array import JobArray, indices_of
from gsched.core.records.job import ANYWHERE, JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import JobSpec, JobState
from gsched.model.jobs.reason import PendingReason
from gsched.model.queues.user import UserLimits
from gsched.model.scheduling.snapshot import Bucket, RequirementClass

WAITING = PendingReason(coded("pending.new"))
NEW = PendingReason(WAITING.text, detail=coded("pending.new_job_delay"))
SUSPENDED = PendingReason(coded("pending.suspended"))
SUSPENDED_BY_ADMIN = PendingReason(coded("pending.suspended_by_admin"))
START_TIME = PendingReason(coded("pending.start_time"))
FORCED = PendingReason(coded("pending.forced"))
FORCED_ANYWHERE = PendingReason(coded("pending.forced_anywhere"))
EVERYBODY = "all"
MOST_SAVING = 4
"""Jobs that are named because they make room and save their state first."""

ClassReasons = Mapping[Bucket | tuple[str, RequirementClass], tuple[PendingReason, ...]]


def waiting_to_retry(host: str, problem: AnyText = "") -> PendingReason:
    """The reason of a job whose last attempt could not be started on `host`, until it may be tried again."""
    failed = _failed_pre_exec(problem)
    if failed is not None:
        whose, code = failed.values[:2]
        return PendingReason(coded(_PRE_EXEC, whose), detail=_retry(host, coded("retry.exit_code", code)))
    if isinstance(problem, CodedText) and problem.code == "start.failed_on" and problem.values[0] == host:
        why: CodedValue = problem.values[1]
    else:
        why = problem
    told = coded("retry.why", why) if host and why else ""
    return PendingReason(coded("pending.start_failed"), detail=_retry(host, told))


_PRE_EXEC = "pending.pre_exec_failed"
_LENT, _PLACE = "pending.waits_for_lent", "pending.waits_for_save"


def _retry(host: str, why: AnyText) -> CodedText:
    return coded("retry.on_host", host, why) if host else coded("retry.anywhere", why)


def _failed_pre_exec(text: CodedValue) -> CodedText | None:
    """The failure of a pre-execution command that the text tells of; None when it tells of none."""
    if not isinstance(text, CodedText):
        return None
    if text.code == "start.pre_exec_failed":
        return text
    return next(filter(None, map(_failed_pre_exec, text.values)), None)


def own_reasons(state: ClusterState, dependents: Dependents, number: int) -> tuple[PendingReason, ...]:
    """The reason of this very job, array or element; empty when it waits for a place, or does not wait at all."""
    asked, number = number, number if number in state.jobs else array_of(number)
    item = state.arrays.get(number) or state.jobs.get(number)
    if item is None:
        return ()
    if item.stopped_by and (isinstance(item, JobArray) or item.state is JobState.PSUSP):
        return (SUSPENDED if item.stopped_by == item.spec.user else SUSPENDED_BY_ADMIN,)
    if isinstance(item, JobRecord) and item.state is JobState.PSUSP:
        failed = _failed_pre_exec(item.start_problem)
        if failed is None:
            return (SUSPENDED,)
        detail = coded("pending.suspended_after", item.failed_starts)
        return (PendingReason(coded(_PRE_EXEC, failed.values[0]), detail=detail),)
    if number in state.waits.blocked:
        return (dependents.reason(asked),)
    if number in state.waits.delayed:
        if (item.spec.begin_at or 0.0) >= item.not_before:
            return (START_TIME,)
        if isinstance(item, JobRecord) and is_pausing(item):
            return (_pause(item),)
        if isinstance(item, JobRecord) and item.failed_starts:
            return (waiting_to_retry(item.avoid_host, item.start_problem),)
        return (NEW,)
    if number in state.waits.forced:
        return (FORCED_ANYWHERE if state.jobs[number].forced_hosts == ANYWHERE else FORCED,)
    return ()


def is_pausing(job: JobRecord) -> bool:
    """Whether a job that waits for a time waits because its last attempts ended at once and asked for another."""
    return bool(job.short_runs) and not job.avoid_host  # a start that has failed since then names a host


def _pause(job: JobRecord) -> PendingReason:
    detail = coded("pending.short_runs", job.short_runs, round(SHORT_RUN_S))
    return PendingReason(coded("pending.restart_pause"), detail=detail, until=job.not_before)


def pending_reasons(
    state: ClusterState, dependents: Dependents, reasons: ClassReasons, job_id: int
) -> tuple[PendingReason, ...]:
    """Why the job (or an array's waiting elements) waits."""
    number = job_id if job_id in state.jobs else array_of(job_id)
    own = own_reasons(state, dependents, job_id)
    if own:
        return own
    saving = those_that_save(state, job_id) if state.saving else ()
    item = state.arrays.get(number) or state.jobs[number]
    bucket = (item.template() if isinstance(item, JobArray) else item).bucket()
    return saving + (reasons.get(bucket) or reasons.get((bucket.queue, bucket.requirement)) or (WAITING,))


def those_that_save(state: ClusterState, job_id: int) -> tuple[PendingReason, ...]:
    """The jobs that save their state before the job gets their place, or GPUs that were lent to them; of an array those
    for any of its elements.
    """
    is_array = job_id in state.arrays
    found = [
        state.jobs[number]
        for number, others in sorted(state.saving.items())
        if job_id in others or (is_array and any(array_of(other) == job_id for other in others))
    ]
    return tuple(
        PendingReason(coded(_LENT if job.is_resizing else _PLACE, show_job(job.job_id)), until=job.save_by)
        for job in found[:MOST_SAVING]
    )


def check_pending(state: ClusterState, config: ClusterConfig, user: str, jobs: int, slots: int) -> None:
    """MAX_PEND_JOBS and MAX_PEND_SLOTS: raises ResourceExhausted when so many new jobs would be too many.

    Every job in PEND or PSUSP counts, with the slots that it wants at the least, and every one that is accepted.
    """
    _check_more(state, config, user, jobs, slots)


def check_growth(state: ClusterState, config: ClusterConfig, user: str, spec: JobSpec, old: JobSpec) -> None:
    """The same for a job that waits and is to want more slots than before."""
    more = number_of(spec) * (spec.slots - old.slots)
    if more > 0:
        _check_more(state, config, user, 0, more)


def number_of(spec: JobSpec) -> int:
    """One, or the elements of the array."""
    return indices_of(spec.indices).count if spec.indices else 1


def _check_more(state: ClusterState, config: ClusterConfig, user: str, jobs: int, slots: int) -> None:
    accepted = list(state.accepted.values())
    for limit in _pending_limits(config, user):
        coming = [each for each in accepted if limit.members is None or each.event.user in limit.members]
        for what, counted, more, new, most in (
            ("jobs", state.tally.pending_jobs, sum(each.jobs_left for each in coming), jobs, limit.jobs),
            ("slots", state.tally.pending_slots, sum(each.slots_left for each in coming), slots, limit.slots),
        ):
            if most is None or not new:
                continue
            waiting = _sum(counted, limit.members) + more
            if waiting + new > most:
                of = f"{what} of {limit.who}" if limit.who else what
                text = f"{waiting} {of} wait, {new} more would exceed {most} (MAX_PEND_{what.upper()})"
                raise ResourceExhausted(f"{limit.text.format(what[:-1])}: {text}")


_OF_USER = "The user has reached his/her pending {} limit"
_OF_ALL = "Pending {} threshold reached"


class _PendingLimit(NamedTuple):
    """`members`: whose jobs count together; None: everybody's."""

    text: str
    who: str
    members: tuple[str, ...] | None
    jobs: int | None
    slots: int | None


def _pending_limits(config: ClusterConfig, user: str) -> Iterator[_PendingLimit]:
    """The cluster's limits, the user's own, and those of his groups as a whole."""
    params = config.params
    yield _PendingLimit(_OF_ALL, "", None, params.max_pending, params.max_pending_slots)
    own = row_of(config, user)
    if own is not None:
        yield _PendingLimit(_OF_USER, user, (user,), own.max_pending, own.max_pending_slots)
    for name, row in config.users.items():
        group = config.user_groups.get(name)
        if group is not None and (user in group.users or EVERYBODY in group.users):
            members = None if EVERYBODY in group.users else group.users
            yield _PendingLimit(_OF_USER, name, members, row.max_pending, row.max_pending_slots)


def _sum(counted: Mapping[str, int], members: tuple[str, ...] | None) -> int:
    return sum(counted.values()) if members is None else sum(counted.get(member, 0) for member in members)


def row_of(config: ClusterConfig, user: str) -> UserLimits | None:
    """The row of lsb.users that holds for the user: his own, else that of a group with `@`, else `default`."""
    own = config.users.get(user)
    if own is not None and user not in config.user_groups:
        return own
    for name, row in config.users.items():
        group = config.user_groups.get(name[:-1]) if name.endswith("@") else None
        if group is not None and (user in group.users or EVERYBODY in group.users):
            return row
    return config.users.get("default")
