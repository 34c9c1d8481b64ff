"""What agents tell of outputs that they no longer keep: noted in the histories of their jobs, then forgotten there.

Nothing is noted of a job that there has not been, nor of a run that is not over: no honest agent tells that. Where a
job of which nothing is in memory any more has run is not looked up, so an agent that lies can put such a line into its
history; but it cannot fill the history: for each host so many are noted in a day.
"""

from __future__ import annotations

from gsched.core.attempts.attempt_reports import has_been
from gsched.core.command import OutputsRemoved
from gsched.core.decision import Decision
from gsched.core.instruction import ForgetRemovedOutputs
from gsched.model.event import JobOutputRemoved
from gsched.model.hosts.kept_output import RemovedOutput
from gsched.model.jobs.job import STARTED

MOST_A_DAY = 50_000
_DAY_S = 86_400


def outputs_removed(command: OutputsRemoved, decision: Decision) -> None:
    """Told twice, as the master has crashed in between, it is noted twice."""
    seen = decision.observed(command.host)
    day = int(decision.now // _DAY_S)
    if seen.removed_outputs_day != day:
        seen.removed_outputs_day, seen.removed_outputs = day, 0
    once = {(gone.job_id, gone.attempt): gone for gone in command.outputs}
    for gone in once.values():
        if seen.removed_outputs < MOST_A_DAY and _can_be(gone, command.host, decision):
            seen.removed_outputs += 1
            decision.record(
                JobOutputRemoved(
                    at=decision.now,
                    job_id=gone.job_id,
                    attempt=gone.attempt,
                    host=command.host,
                    size=gone.size,
                    limit_mib=gone.limit_mib,
                    of_user=gone.of_user,
                )
            )
    decision.instruct(ForgetRemovedOutputs(command.host, tuple(once)))


def _can_be(gone: RemovedOutput, host: str, decision: Decision) -> bool:
    if gone.job_id in decision.state.quarantined or not has_been(gone.job_id, decision.state):
        return False
    job = decision.state.jobs.get(gone.job_id)
    if job is None or gone.attempt < job.attempt:
        return True
    if gone.attempt > job.attempt or job.state in STARTED:
        return False
    return job.allocation is None or any(part.host == host for part in job.allocation.hosts)
