"""From what has just happened to the notices that users want of it. In the same decision, so that none is lost or made
twice: whatever is on disk of the one is on disk of the other.

Of an array all elements together have one notice of the start, one of the end, and one of each kind of warning, unless
each element's were asked for. What is too much for a job or a user is dropped, and the history says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from gsched.base.coded_text import AnyText, CodedText, coded
from gsched.base.ids import show_job
from gsched.core.decision import Decision
from gsched.core.instruction import SendNotice
from gsched.core.notices.notice_hosts import host_for
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import (
    ArrayElementsFinished,
    JobFinished,
    JobIdleWarned,
    JobNoted,
    JobNoticeMade,
    JobNoticeSettled,
    JobRequeued,
    JobStarted,
    JobStatusLost,
    JobSuspended,
)
from gsched.model.jobs.failure import failure_of, failure_text
from gsched.model.jobs.job import FINISHED, AttemptResult, JobState
from gsched.model.jobs.notice import END, FAIL, START, WARNING, Notice, NoticeJob, NoticeWish

MOST_WARNINGS = 20
"""Of one job, by each of its ways; what there is to be known beyond that is in its history."""
MOST_UNSENT = 1_000
"""Of one user: who cannot be told so much, because nobody answers there, is not told more."""
MOST_OF_ALL = 50_000
"""Of all users together: what is not sent yet is kept in memory, and in each checkpoint."""
LIMIT_NEAR = "limit_near"
_NOTES = "note."
"""How the codes of notes begin that are warnings; others say again what an end or a requeue tells."""
_NO_WARNINGS = frozenset({"note.most_requeues", "note.most_retries", "note.no_gpu_asked"})


def make_notices(decision: Decision) -> None:
    """Make the notices of what the decision has brought about so far, and order them to be sent."""
    for event in decision.events[:]:
        tell = _TELL.get(type(event))
        if tell is not None:
            tell(event, decision)


def _started(event: JobStarted, decision: Decision) -> None:
    job = decision.state.jobs.get(event.job_id)
    if job is not None and job.spec.notices:
        _tell(job, START, f"{job.attempt} {START}", event.at, decision)


def _finished(event: JobFinished, decision: Decision) -> None:
    job = decision.state.jobs.get(event.job_id)
    if job is None or not job.spec.notices or job.state not in FINISHED:
        return
    _tell(job, FAIL if job.state is JobState.EXIT else END, f"{job.attempt} {END} {event.at}", event.at, decision)
    array = decision.state.arrays.get(job.array_id)
    if array is not None and array.is_over():
        _array_over(array, event.at, decision)


def _elements_finished(event: ArrayElementsFinished, decision: Decision) -> None:
    array = decision.state.arrays.get(event.job_id)
    if array is not None and array.spec.notices and array.is_over():
        _array_over(array, event.at, decision)


def _array_over(array: JobArray, at: float, decision: Decision) -> None:
    """Once each time that all elements have ended."""
    event = FAIL if array.counts.get(JobState.EXIT.value) else END
    for place, wish in enumerate(array.spec.notices):
        if not wish.each_element and wish.wants(event):
            _make(array, place, wish, event, f"{place} {END} {array.last_end}", at, decision)


def _noted(event: JobNoted, decision: Decision) -> None:
    text = event.text
    if not event.is_warning or not isinstance(text, CodedText) or text.code in _NO_WARNINGS:
        return
    if text.code.startswith(_NOTES):
        _warn(event.job_id, text.code, text, event.at, decision)


def _requeued(event: JobRequeued, decision: Decision) -> None:
    """A start that fails is tried again and again: it is told once, and when it is given up. One that goes on at once
    with another number of GPUs is as it was asked for.
    """
    job = decision.state.jobs.get(event.job_id)
    if job is not None and not event.resized and (not event.failed_start or event.hold or job.failed_starts == 1):
        _warn(event.job_id, "requeued", coded("notice.requeued", event.reason), event.at, decision)


def _suspended(event: JobSuspended, decision: Decision) -> None:
    state = decision.state
    holder = state.arrays.get(event.job_id) or state.jobs.get(event.job_id)
    if holder is None or (event.by == holder.spec.user and not event.by_system):
        return
    what = coded("notice.suspended", event.reason) if event.by_system else coded("notice.suspended_by", event.by)
    _warn(event.job_id, "suspended", what, event.at, decision)


def _idle(event: JobIdleWarned, decision: Decision) -> None:
    _warn(event.job_id, "idle", event.warning.text, event.at, decision)


def _status_lost(event: JobStatusLost, decision: Decision) -> None:
    _warn(event.job_id, "host_lost", coded("notice.host_lost", event.host), event.at, decision)


def warn_of_limit(job: JobRecord, what: AnyText, decision: Decision) -> None:
    """A job that runs is soon to be ended; once for each attempt."""
    _tell(job, WARNING, f"{job.attempt} {LIMIT_NEAR}", decision.now, decision, what)


def _warn(number: int, kind: str, what: AnyText, at: float, decision: Decision) -> None:
    """Of a job as often as it happens, of an array once for each kind."""
    state = decision.state
    job: JobRecord | JobArray | None = state.jobs.get(number) or state.arrays.get(number)
    if job is not None and job.spec.notices:
        _tell(job, WARNING, f"{len(job.told)} {kind}" if isinstance(job, JobRecord) else kind, at, decision, what)


_TELL: dict[type, Callable[[Any, Decision], None]] = {
    JobStarted: _started,
    JobFinished: _finished,
    ArrayElementsFinished: _elements_finished,
    JobNoted: _noted,
    JobIdleWarned: _idle,
    JobRequeued: _requeued,
    JobSuspended: _suspended,
    JobStatusLost: _status_lost,
}


def _tell(job: JobRecord | JobArray, event: str, key: str, at: float, decision: Decision, what: AnyText = "") -> None:
    """Make a notice for each wish that wants it. `key` tells this occasion from others of the same job."""
    array = decision.state.arrays.get(job.array_id)
    for place, wish in enumerate(job.spec.notices):
        if not wish.wants(event):
            continue
        if array is None or (wish.each_element and isinstance(job, JobRecord)):
            _make(job, place, wish, event, f"{place} {key}", at, decision, what)
        elif event not in (END, FAIL):  # the end of an array is that of its last element
            _make(array, place, wish, event, f"{place} {key.split()[-1]}", at, decision, what)


def _too_many(state: ClusterState, user: str) -> AnyText:
    """Why no more are made for this user for now; empty: there are not too many."""
    if state.notices.count_of(user) >= MOST_UNSENT:
        return coded("notice.too_many", user, MOST_UNSENT)
    if len(state.notices) >= MOST_OF_ALL:
        return coded("notice.too_many_of_all", MOST_OF_ALL)
    return ""


def _make(
    holder: JobRecord | JobArray,
    place: int,
    wish: NoticeWish,
    event: str,
    key: str,
    at: float,
    decision: Decision,
    what: AnyText = "",
) -> None:
    state, spec = decision.state, holder.spec
    number = holder.array_id if isinstance(holder, JobArray) else holder.job_id
    key = f"{key} {WARNING}" if event == WARNING else key
    if key in holder.told or wish.way not in decision.config.params.notice_ways:
        return
    if event == WARNING and sum(_is_warning(each, place) for each in holder.told) >= MOST_WARNINGS:
        return
    dropped = _too_many(state, spec.user)
    if dropped:
        decision.record(
            JobNoticeSettled(at=at, job_id=number, notice_id="", event=event, way=wish.way, problem=dropped)
        )
        return
    notice = Notice(
        notice_id=_notice_id(decision.config.cluster, number, holder.submitted_at, key, event),
        job_id=number,
        host=host_for(holder, decision),
        user=spec.user,
        event=event,
        at=at,
        way=wish.way,
        place=place,
        targets=spec.notice_targets,
        what=what,
        job=_facts(holder),
    )
    decision.record(JobNoticeMade(at=at, job_id=number, notice=notice, key=key))
    decision.instruct(SendNotice(notice.host, notice))


def _facts(holder: JobRecord | JobArray) -> NoticeJob:
    spec = holder.spec
    if isinstance(holder, JobArray):
        waiting = {JobState.PSUSP.value if holder.stopped_by else JobState.PEND.value: holder.count}
        counts = {**holder.counts}
        for state, count in waiting.items():
            counts[state] = counts.get(state, 0) + count
        return NoticeJob(
            label=str(holder.array_id),
            name=f"{spec.name}[{spec.indices}]",
            queue=spec.queue,
            project=spec.project,
            state=_state_of(counts),
            submitted_at=holder.submitted_at,
            ended_at=holder.last_end if holder.is_over() else None,
            elements={state: count for state, count in sorted(counts.items()) if count},
        )
    allocation, result = holder.allocation, holder.result or AttemptResult()
    failure = failure_of(result) if holder.state is JobState.EXIT else None
    return NoticeJob(
        label=show_job(holder.job_id),
        name=spec.shown_name(holder.job_id),
        queue=spec.queue,
        project=spec.project,
        state=holder.state.value,
        attempt=holder.attempt,
        hosts=tuple(dict.fromkeys(part.host for part in allocation.hosts)) if allocation is not None else (),
        gpus=sum(len(part.gpus) for part in allocation.hosts) if allocation is not None else 0,
        submitted_at=holder.submitted_at,
        started_at=holder.started_at,
        ended_at=holder.finished_at,
        run_s=result.run_s if holder.result is not None and result.started else None,
        exit_code=result.exit_code,
        signal=result.signal,
        term_reason=result.term_reason,
        failure=failure.kind if failure is not None else "",
        why=failure_text(failure) if failure is not None else "",
    )


def _state_of(counts: dict[str, int]) -> str:
    """Of an array: what is worst of it once it is over, else where it stands."""
    for state in (JobState.RUN, JobState.PEND, JobState.PSUSP, JobState.EXIT):
        if counts.get(state.value):
            return state.value
    return JobState.DONE.value


def _is_warning(key: str, place: int) -> bool:
    """Whether the key is that of a warning by the wish at that place."""
    return key.startswith(f"{place} ") and key.endswith(f" {WARNING}")


def _notice_id(*parts: object) -> str:
    """An id that says nothing and is the same for the same parts."""
    text = "\0".join(map(str, parts))
    return hashlib.sha256(text.encode("utf8", "surrogateescape")).hexdigest()[:32]
