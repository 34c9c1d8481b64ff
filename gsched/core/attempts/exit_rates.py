"""A host on which attempts fail again and again is closed, before it has eaten the whole queue.

What is counted is what agents tell this master, by when it was, for as long as JOB_EXIT_RATE_DURATION; it is never
stored, so a master that has just come up knows of no earlier ones. A host that somebody has opened begins at 0 as well.
"""

from __future__ import annotations

from bisect import insort

from gsched.core.attempts.restarts import asks_for_another_run, ended_as_asked, is_success
from gsched.core.command import AttemptEnded
from gsched.core.decision import Decision
from gsched.core.records.job import JobRecord
from gsched.core.resources.exit_counts import exit_limit
from gsched.core.resources.observed_hosts import Observation
from gsched.model.event import HostClosed
from gsched.model.hosts.exit_rates import ExitKind
from gsched.model.jobs.failure import death
from gsched.model.jobs.job import AttemptResult

CLOSED_BY = "eadmin"
"""Who closes it, as in LSF, whose program of that name does."""
EXCEEDED = "eadmin: JOB EXIT THRESHOLD EXCEEDED"
"""How LSF's comment on such a host begins."""

NO_FOLDER = "TERM_CWD_NOTEXIST"
"""How LSF calls the end of a job whose folder is not there, as where a file system is not mounted: it never began."""


def count_exit(job: JobRecord, report: AttemptEnded, seen: Observation, decision: Decision) -> None:
    """The attempt is over on that host, or could not begin there. To be called before anything is made of that."""
    config, now = decision.config, decision.now
    host = config.hosts.get(report.host)
    limit = exit_limit(host, config, seen) if host is not None else None
    if host is None or limit is None or is_success(job, report.result.exit_code, config):
        return
    at, since = min(report.result.ended_at or now, now), now - config.params.exit_rates.within_s
    if at <= since or not _kinds(job, report.result, at) & config.params.exit_rates.kinds:
        return
    exits = [each for each in seen.exits if since < each <= now]
    insort(exits, at)
    seen.exits = exits[-(limit + 1) :]
    if len(seen.exits) > limit and host.name not in decision.state.closed_hosts:
        minutes = round(config.params.exit_rates.within_s / 60)
        comment = f"{EXCEEDED} ({len(seen.exits)} within {minutes} min)"
        decision.record(HostClosed(at=now, host=host.name, by=CLOSED_BY, comment=comment))
        decision.state.touched_hosts.add(host.name)


def _kinds(job: JobRecord, result: AttemptResult, at: float) -> set[ExitKind]:
    """What this end counts as: nothing where all is well, the host itself has gone down, or the job only makes room."""
    if result.succeeded or result.host_down or result.is_interrupted or job.is_resizing:
        return set()
    if job.ended_parts:  # the job was ended as another host has lost its part
        return set()
    is_asked = bool(job.kill_by or job.requeue_by)
    if not result.started or result.pre_failed or result.term_reason == NO_FOLDER:
        if is_asked or result.gpus_unfit:  # those GPUs are closed, each for itself
            return set()
        is_parallel = job.allocation is not None and len(job.allocation.hosts) > 1
        return {ExitKind.START, ExitKind.PARALLEL_START} if is_parallel else {ExitKind.START}
    if asks_for_another_run(job, result) or ended_as_asked(job, result, at):
        return set()
    is_ended = is_asked or bool(result.term_reason) or death(result) in job.signals
    return {ExitKind.ANY} if is_ended else {ExitKind.ANY, ExitKind.OWN}
