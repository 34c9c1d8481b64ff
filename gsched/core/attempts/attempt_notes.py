"""Attempts that agents name in their reports, and what is noted in jobs' histories because an agent says so.

An agent is believed of its own host alone: of jobs that hold nothing there it can say nothing, and what it says of one
job fills no store, however often it says something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.base.coded_text import AnyText
from gsched.base.ids import parse_attempt_name
from gsched.core.decision import Decision
from gsched.core.records.job import JobRecord
from gsched.core.state.apply_notices import MOST_NOTES
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import JobNoted
from gsched.model.jobs.job import FINISHED, STARTED
from gsched.model.ledgers.host_ledger import AttemptKey


def named(names: Iterable[str]) -> Iterator[AttemptKey]:
    """The attempts of these names; whatever is none is left out."""
    for name in names:
        try:
            yield parse_attempt_name(name)
        except ValueError:
            continue


def running_on(state: ClusterState, host: str, names: Iterable[str]) -> Iterator[JobRecord]:
    """Started jobs whose current attempts are named and hold something on the host."""
    for key in named(names):
        job = state.jobs.get(key[0])
        if job is not None and job.attempt == key[1] and job.state in STARTED and state.ledger.holds(host, key):
            yield job


def led_by(state: ClusterState, host: str, key: AttemptKey) -> JobRecord | None:
    """The started job whose current attempt this is, and whose first host this is: that one speaks for all of it."""
    job = state.jobs.get(key[0])
    if job is None or job.attempt != key[1] or job.state not in STARTED or job.allocation is None:
        return None
    return job if job.allocation.first_host == host else None


def known_on(state: ClusterState, host: str, names: Iterable[str]) -> Iterator[JobRecord]:
    """These, and those that have finished and held something there in the end."""
    for key in named(names):
        job = state.jobs.get(key[0])
        if job is None or job.attempt != key[1] or job.state not in STARTED | FINISHED or job.allocation is None:
            continue
        if any(part.host == host for part in job.allocation.hosts):
            yield job


def note(job: JobRecord, text: AnyText, decision: Decision) -> bool:
    """Note it once, unless so much has been noted already; whether it was."""
    if text in job.notes or len(job.notes) >= MOST_NOTES:
        return False
    decision.record(JobNoted(at=decision.now, job_id=job.job_id, text=text))
    return True
