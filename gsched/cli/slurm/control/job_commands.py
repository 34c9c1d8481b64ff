"""scontrol's commands for jobs: hold, release, requeue, suspend, resume, top, wait_job, write, listpids; and ping."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from gsched.base.errors import BadRequest, Conflict, GschedError
from gsched.cli.session.command_line import complain
from gsched.cli.slurm.control.scontrol_call import ScontrolCall, job_words
from gsched.cli.slurm.facts.job_facts import SlurmJob
from gsched.cli.slurm.facts.slurm_clock import SlurmClock
from gsched.dialect.slurm.slurm_values import parse_job
from gsched.model.jobs.job import FINISHED, PENDING, STARTED
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.messages.control_action import ControlAction

_STARTED = ("RUN", "USUSP", "SSUSP")
_REQUEUED = (*_STARTED, "DONE", "EXIT")
_NO_LONGER_PENDING = "Job is no longer pending execution"
_PENDING = "Job is pending execution"
_OVER = "Job/step already completing or completed"


def _each(
    asked: ScontrolCall,
    words: Sequence[str],
    what: ControlAction,
    check: Callable[[JobView], str],
    passed: Sequence[str] = (),
) -> int:
    """Do it to every job; what goes wrong is told for each. `check`: why it cannot be done to one, or nothing.

    `passed`: states of jobs that are left alone.
    """
    code = 0
    for word in job_words(words):
        try:
            jobs = [job for job in asked.jobs(*parse_job(word)) if job.state not in passed]
            wrong = next((text for job in jobs if (text := check(job))), "")
            fit = [job.job_id for job in jobs if not check(job)]
            if fit:
                answers = asked.session.client.control(what, fit)
                wrong = next((answer.error for answer in answers if answer.error), "")
        except GschedError as problem:
            wrong = problem.text
        if wrong:
            code = 1
            if not asked.options.has("quiet"):
                complain(asked.call, f"error: {wrong.rstrip('.')} for job {word[:60]}")
    return code


def _hold(asked: ScontrolCall) -> int:
    return _each(
        asked, asked.words, ControlAction(action="stop"), lambda job: "" if job.state in PENDING else _NO_LONGER_PENDING
    )


def _release(asked: ScontrolCall) -> int:
    return _each(
        asked,
        asked.words,
        ControlAction(action="resume"),
        lambda job: "" if job.state in PENDING else _NO_LONGER_PENDING,
    )


def _suspend(asked: ScontrolCall) -> int:
    return _each(asked, asked.words, ControlAction(action="stop"), _of_started)


def _resume(asked: ScontrolCall) -> int:
    return _each(asked, asked.words, ControlAction(action="resume"), _of_started)


def _of_started(job: JobView) -> str:
    return _PENDING if job.state in PENDING else _OVER if job.state in FINISHED else ""


def _top(asked: ScontrolCall) -> int:
    return _each(
        asked, asked.words, ControlAction(action="top"), lambda job: "" if job.state in PENDING else _NO_LONGER_PENDING
    )


def _requeue(asked: ScontrolCall) -> int:
    return _again(asked, hold=False)


def _requeue_hold(asked: ScontrolCall) -> int:
    return _again(asked, hold=True)


def _again(asked: ScontrolCall, *, hold: bool) -> int:
    """Options of the form `State=SpecialExit` are refused, `Incomplete` chooses jobs that have not succeeded."""
    words = list(asked.words)
    is_incomplete = bool(words) and words[0].lower() == "incomplete"
    if is_incomplete:
        words.pop(0)
    if words and "=" in words[0]:
        raise BadRequest(f"{words[0][:40]}: a job that waits again is PENDING")

    what = ControlAction(action="requeue", hold=hold, states=_REQUEUED)
    passed = ("DONE",) if is_incomplete else ()
    return _each(asked, words, what, lambda job: _PENDING if job.state in PENDING else "", passed)


def _wait(asked: ScontrolCall) -> int:
    """Wait until the job has started. Raises Conflict for one that ends without."""
    words = job_words(asked.words)
    if len(words) > 1:
        raise BadRequest("wait_job: name one job")
    client = asked.session.client
    number = asked.jobs(*parse_job(words[0]))[0].job_id
    while True:
        last = client.last_event()
        job = next(iter(client.jobs(JobFilter(ids=(number,), user="all", finished=True))), None)
        if job is None or job.state in FINISHED:
            raise Conflict(f"{_OVER} for job {words[0]}")
        if job.state in STARTED and job.started_at is not None:
            return 0
        next(asked.session.follow(last, (number,)), None)


def _write(asked: ScontrolCall) -> int:
    """`write batch_script JOB [FILE|-]`."""
    if not asked.words or asked.words[0].lower() != "batch_script":
        raise BadRequest("write: `write batch_script JOB [FILE]` is there; gadmin showconf shows the configuration")
    if len(asked.words) < 2 or len(asked.words) > 3:
        raise BadRequest("write batch_script: JOB [FILE] is expected")
    job = asked.jobs(*parse_job(asked.words[1]))[0]
    script = asked.session.client.texts(job.job_id).script
    if not script:
        raise BadRequest(f"job script retrieval failed: job {asked.words[1]} has none")
    name = asked.words[2] if len(asked.words) == 3 else f"slurm-{asked.words[1]}.sh"
    if name == "-":
        asked.call.write_bytes(script)
        return 0
    asked.call.take_over()
    if not asked.call.own_streams:
        raise BadRequest("write batch_script: files are written by the command itself: say - for standard output")
    try:
        # A script may hold secrets of the job's owner; and in a folder of others, a link may lie there already.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(os.path.join(asked.call.cwd, name), flags, 0o600), "wb") as file:
            file.write(script)
    except OSError as problem:
        raise BadRequest(f"failed to open file {name[:200]}: {problem.strerror}") from None
    asked.call.write(f"batch script for job {asked.words[1]} written to {name}\n")
    return 0


def _list_processes(asked: ScontrolCall) -> int:
    """Processes of jobs, as of the last look at them: all that runs, or one job."""
    words = asked.words[:1] if asked.words and asked.words[0] != "*" else ()
    if words:
        jobs = asked.jobs(*parse_job(words[0].partition(".")[0]))
    else:
        jobs = list(asked.session.client.jobs(JobFilter(user="all")))
    asked.call.write("PID      JOBID    STEPID   LOCALID GLOBALID\n")
    for job in jobs:
        name = SlurmJob(job, SlurmClock.unused()).shown_id
        for pid in job.usage.pids if job.usage is not None and job.state in STARTED else ():
            asked.call.write(f"{pid:<8} {name:<8} {'batch':<8} {'-':<7} -\n")
    return 0


def _ping(asked: ScontrolCall) -> int:
    host = asked.session.client.cluster().master_host
    asked.call.write(f"Slurmctld(primary) at {host} is UP\n")
    return 0


JOB_COMMANDS: Mapping[str, Callable[[ScontrolCall], int]] = {
    "hold": _hold,
    "uhold": _hold,
    "release": _release,
    "requeue": _requeue,
    "requeuehold": _requeue_hold,
    "suspend": _suspend,
    "resume": _resume,
    "top": _top,
    "wait_job": _wait,
    "write": _write,
    "listpids": _list_processes,
    "ping": _ping,
}
