"""How a job ended, as `drmaa.JobInfo` tells it. It asks the cluster nothing."""

from __future__ import annotations

import signal
from typing import NamedTuple

from gsched.base.ids import show_job
from gsched.model.jobs.job import AttemptResult
from gsched.model.views.view import JobEnd

_MIB = 1024 * 1024


class JobInfo(NamedTuple):
    """What `Session.wait` returns."""

    jobId: str
    hasExited: bool
    """The program ended by itself; `exitStatus` is its exit code."""
    hasSignal: bool
    """A signal ended it."""
    terminatedSignal: str
    """Its name, `SIGKILL`; empty where there was none."""
    hasCoreDump: bool
    wasAborted: bool
    """It was ended before it began to run."""
    exitStatus: int
    """What a shell would say: the exit code, 128 and the signal, 126 for a job that never ran, 255: nobody knows."""
    resourceUsage: dict[str, str]
    """start_time and end_time (seconds since 1970), walltime and cpu (seconds), mem and vmem (bytes, the most at a
    time; vmem is what was swapped out), hosts (the first), term_reason (LSF's keyword). What is not known is absent.
    """


def info_of(end: JobEnd) -> JobInfo:
    """What is told of a job that ended so; of an array that it has exited, with 0 if all its elements are DONE."""
    result = end.result
    number = None if result is None else result.signal
    was_aborted = result is not None and not result.started
    exited = not was_aborted and (result is None or result.exit_code is not None)
    return JobInfo(
        jobId=show_job(end.job_id),
        hasExited=exited,
        hasSignal=number is not None and not was_aborted,
        terminatedSignal="" if number is None or was_aborted else _signal_name(number),
        hasCoreDump=result is not None and result.core_dumped,
        wasAborted=was_aborted,
        exitStatus=end.exit_code,
        resourceUsage={} if result is None else _usage(end, result),
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"  # a real-time signal has no name of its own


def _usage(end: JobEnd, result: AttemptResult) -> dict[str, str]:
    found: dict[str, str] = {}
    if result.started and result.ended_at:
        found["start_time"] = str(int(result.ended_at - result.run_s))
        found["walltime"] = f"{result.run_s:.3f}"
        found["cpu"] = f"{result.usage.cpu_s:.3f}"
    if result.ended_at:
        found["end_time"] = str(int(result.ended_at))
    for name, most in (("mem", result.usage.max_mem_mib), ("vmem", result.usage.max_swap_mib)):
        if most is not None:
            found[name] = str(int(most * _MIB))
    if end.host:
        found["hosts"] = end.host
    if result.term_reason:
        found["term_reason"] = result.term_reason
    return found
