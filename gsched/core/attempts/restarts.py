"""What a job that saves its state is asked for before its end, and whether and how often it is run again afterwards.
Nothing is decided here.
"""

from __future__ import annotations

import signal
from typing import NamedTuple

from gsched.core.attempts.end_warnings import CLOCKS_S, signal_on_others
from gsched.core.instruction import SaveRequest
from gsched.core.records.job import JobRecord
from gsched.model.config import ClusterConfig
from gsched.model.jobs.failure import death
from gsched.model.jobs.job import EXIT_SAVED, MOST_RESTARTS, PREEMPTED, RESIZING, SLURM, AttemptResult, JobState
from gsched.model.jobs.job_signal import MAIN, STEPS
from gsched.model.jobs.requeue_exits import RestartCause, success_codes

RUN_LIMIT = "TERM_RUNLIMIT"
SHORT_RUN_S = 60.0
"""An attempt that asks for another one sooner than this is followed by a pause."""
FIRST_PAUSE_S = 1.0
MOST_PAUSE_S = 300.0


class RestartPause(NamedTuple):
    """How long a job waits before it may run again."""

    seconds: float
    short_runs: int
    """So many attempts in a row, with the one before it, were short."""


NO_PAUSE = RestartPause(0.0, 0)


def restart_pause(run_s: float, short_runs: int) -> RestartPause:
    """The pause after an attempt of `run_s` seconds, before which `short_runs` in a row were short: 1, 2, 4 … seconds.
    One that has lasted is followed by none, and the next short one counts anew.
    """
    if run_s >= SHORT_RUN_S:
        return RestartPause(0.0, 0)
    return RestartPause(min(FIRST_PAUSE_S * 2.0 ** min(short_runs, 10), MOST_PAUSE_S), short_runs + 1)


def asks_for_another_run(job: JobRecord, result: AttemptResult) -> bool:
    """Whether the attempt has saved the job's state and wants it to be run again: by `gsched requeue-me`, or by its
    exit code where the job has said that it saves its state. What a person, or a limit but that of run time, has ended
    asks for nothing.
    """
    if job.spec.interactive or not result.started or result.term_reason not in ("", RUN_LIMIT):
        return False
    if result.wants_requeue:
        return death(result) not in job.signals
    return job.spec.saves_itself and result.exit_code == EXIT_SAVED


def most_requeues(job: JobRecord, config: ClusterConfig) -> int | None:
    """MAX_JOB_REQUEUE of its profile, else of its queue, else of the cluster; None: there is no limit."""
    queue, profile = config.queues.get(job.spec.queue), config.applications.get(job.spec.application)
    if profile is not None and profile.max_requeue is not None:
        return profile.max_requeue
    if queue is not None and queue.max_requeue is not None:
        return queue.max_requeue
    return config.params.max_requeue


def preexec_retries(job: JobRecord, config: ClusterConfig) -> tuple[int | None, bool]:
    """(LOCAL_MAX_PREEXEC_RETRY, whether LOCAL_MAX_PREEXEC_RETRY_ACTION is EXIT): each of the job's profile, else of its
    queue, else of the cluster. None: there is no limit.
    """
    most, ends = config.params.max_preexec_retry, config.params.preexec_exit
    for each in (config.queues.get(job.spec.queue), config.applications.get(job.spec.application)):
        if each is not None:
            most = most if each.max_preexec_retry is None else each.max_preexec_retry
            ends = ends if each.preexec_exit is None else each.preexec_exit
    return most, ends


def is_success(job: JobRecord, exit_code: int | None, config: ClusterConfig) -> bool:
    """Whether SUCCESS_EXIT_VALUES of its profile, else of its queue, names the exit code."""
    profile, queue = config.applications.get(job.spec.application), config.queues.get(job.spec.queue)
    text = (profile.success_exit_values if profile is not None else "") or (queue.success_exit_values if queue else "")
    return exit_code is not None and exit_code in success_codes(text)


def most_restarts(job: JobRecord, config: ClusterConfig) -> int:
    """--max-restarts, else MAX_JOB_REQUEUE, else MOST_RESTARTS; never more than MAX_JOB_REQUEUE."""
    allowed, asked = most_requeues(job, config), job.spec.max_restarts
    if allowed is None:
        return MOST_RESTARTS if asked is None else asked
    return allowed if asked is None else min(asked, allowed)


def restart_cause(job: JobRecord, cause: RestartCause) -> str:
    """What is recorded of a restart; empty where restarts of the job are not counted."""
    return cause if job.spec.saves_itself else ""


def has_reached_run_limit(job: JobRecord, result: AttemptResult) -> bool:
    """Also one that its signal before the limit has ended, of which it took no notice."""
    spec = job.spec
    if result.term_reason == RUN_LIMIT:
        return True
    if not (spec.saves_on_signal and spec.warning_signal and spec.run_limit_s) or result.term_reason:
        return False
    number = signal.Signals[f"SIG{spec.warning_signal}"]
    return death(result) == number and result.run_s >= spec.run_limit_s - (spec.warning_s or 0)


def save_by(job: JobRecord, now: float, grace_s: int | None = None) -> float | None:
    """Until when the started job may save its state before it is ended; None: it has no time for that. `grace_s`: how
    long somebody gives it, else its own word counts.
    """
    spec = job.spec
    if not spec.saves_on_signal or job.started_at is None or job.state not in (JobState.RUN, JobState.SSUSP):
        return None
    if job.save_by is not None and job.save_by > now:  # it was asked for another job, which needs its place no more
        return job.save_by
    return now + ((spec.warning_s or 0) if grace_s is None else grace_s)


def ended_as_asked(job: JobRecord, result: AttemptResult, at: float) -> bool:
    """Whether a job that was spared after it had been asked to save its state has ended all the same: in its time for
    that, or by an agent that had not heard of it.
    """
    if job.save_by is None or result.term_reason not in ("", PREEMPTED, RESIZING):
        return False
    return at <= job.save_by + CLOCKS_S or bool(result.term_reason)


def save_request(job: JobRecord, host: str) -> SaveRequest | None:
    """What asks it on that host; None where it was given no time. `glaunch` passes most signals on to other hosts; the
    others are sent to its tasks there as well.
    """
    spec = job.spec
    if job.save_by is None or job.allocation is None or job.kill_by:
        return None
    number = int(signal.Signals[f"SIG{spec.warning_signal}"])
    target = MAIN if spec.warns_main else STEPS if spec.front_end == SLURM else ""
    if host != job.allocation.first_host:
        number = signal_on_others(job)
    return SaveRequest(number, job.save_s or spec.warning_s or 0, target)
