"""The states of jobs in DRMAA's words, and what `Session.control` does to jobs.

It keeps nothing: whoever asks hands over the cluster and the numbers of the jobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gsched.api import Cluster
from gsched.base.ids import array_of, show_job
from gsched.contrib.drmaa import const, errors
from gsched.contrib.drmaa.translation import translated
from gsched.model.jobs.job import FINISHED, STARTED, JobState
from gsched.wire.identity.caller_identity import user_name

_STATES = {
    JobState.PEND: const.JobState.QUEUED_ACTIVE,
    JobState.PSUSP: const.JobState.USER_ON_HOLD,
    JobState.RUN: const.JobState.RUNNING,
    JobState.USUSP: const.JobState.USER_SUSPENDED,
    JobState.SSUSP: const.JobState.SYSTEM_SUSPENDED,
    JobState.DONE: const.JobState.DONE,
    JobState.EXIT: const.JobState.FAILED,
}
"""All others are UNDETERMINED."""
_MOST_AT_ONCE = 10_000
"""Numbers in one question: a request to the master has a limit."""


class _Step(NamedTuple):
    """What an action is to gsched."""

    verb: str
    """Method of Cluster."""
    before: frozenset[str]
    """States from which it leads somewhere."""
    after: frozenset[str]
    """States in which nothing is left to do."""
    error: type[errors.DrmaaException]
    """For a job in any other state."""


_STEPS = {
    const.JobControlAction.SUSPEND: _Step(
        "stop",
        frozenset({JobState.RUN, JobState.SSUSP}),
        frozenset({JobState.USUSP}),
        errors.SuspendInconsistentStateException,
    ),
    const.JobControlAction.RESUME: _Step(
        "resume", frozenset({JobState.USUSP, JobState.SSUSP}), frozenset(), errors.ResumeInconsistentStateException
    ),
    const.JobControlAction.HOLD: _Step(
        "stop", frozenset({JobState.PEND}), frozenset({JobState.PSUSP}), errors.HoldInconsistentStateException
    ),
    const.JobControlAction.RELEASE: _Step(
        "resume", frozenset({JobState.PSUSP}), frozenset(), errors.ReleaseInconsistentStateException
    ),
    const.JobControlAction.TERMINATE: _Step(
        "kill", STARTED | {JobState.PEND, JobState.PSUSP}, FINISHED, errors.DeniedByDrmException
    ),
}


def _parts(job_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (job_ids[first : first + _MOST_AT_ONCE] for first in range(0, len(job_ids), _MOST_AT_ONCE))


def states_of(cluster: Cluster, job_ids: Sequence[int]) -> dict[int, str]:
    """LSF's codes of the states of jobs and elements, however long ago they finished; those that there are not are left
    out. Raises InvalidJobException for the number of an array, which has as many states as elements.
    """
    found: dict[int, str] = {}
    with translated():
        for part in _parts(job_ids):
            found.update((view.job_id, view.state) for view in cluster.jobs(ids=part))
            missing = [job_id for job_id in part if job_id not in found]
            if missing:
                found.update((view.job_id, view.state) for view in cluster.history(ids=missing))
    arrays = {array_of(job_id) for job_id in found if array_of(job_id) != job_id}
    for job_id in job_ids:
        if job_id in arrays and job_id not in found:
            text = f"{job_id} is an array: its jobs are {job_id}[1] and so on"
            raise errors.coded(errors.InvalidJobException, text)
    return found


def status_of(cluster: Cluster, job_id: int) -> str:
    """The state of one job in DRMAA's words. Raises InvalidJobException."""
    state = states_of(cluster, [job_id]).get(job_id)
    if state is None:
        raise not_there(job_id)
    return _STATES.get(JobState(state), const.JobState.UNDETERMINED)


def not_there(job_id: int) -> errors.DrmaaException:
    """The error for a job that there is not."""
    return errors.coded(errors.InvalidJobException, f"Job <{show_job(job_id)}> is not found")


def act_on(cluster: Cluster, job_ids: Sequence[int], action: str, *, skips_finished: bool) -> None:
    """Do it to all of the jobs whose state allows it, then raise for the first whose state does not.

    `skips_finished`: finished jobs are left out, as for "all jobs of the session". Raises InvalidArgumentException for
    an action that there is not, InvalidJobException, AuthorizationException, and the action's own error.
    """
    step = _STEPS.get(action)
    if step is None:
        raise errors.coded(errors.InvalidArgumentException, f"{action!r} is no action; {', '.join(_STEPS)} are")
    states = states_of(cluster, job_ids)
    wanted = [job_id for job_id in job_ids if states.get(job_id) in step.before]
    problems: dict[int, str] = {}
    with translated():
        for part in _parts(wanted):
            problems |= getattr(cluster, step.verb)(part)
    if problems and action == const.JobControlAction.TERMINATE:
        states |= states_of(cluster, list(problems))  # one that has ended meanwhile is what was asked for
    for job_id in job_ids:
        state = states.get(job_id)
        if state is None:
            raise not_there(job_id)
        if state in step.after or (skips_finished and state in FINISHED):
            continue
        if job_id in problems or state not in step.before:
            is_denied = job_id in problems and _is_anothers(cluster, job_id)
            kind = errors.AuthorizationException if is_denied else step.error
            reason = problems.get(job_id) or f"it is {state}"
            raise errors.coded(kind, f"{action}: Job <{show_job(job_id)}>: {reason}")


def _is_anothers(cluster: Cluster, job_id: int) -> bool:
    """Whether the job is of another user: why the master refuses an action is told in words, for people."""
    return any(view.spec.user != user_name(os.getuid()) for view in cluster.jobs(ids=[job_id]))
