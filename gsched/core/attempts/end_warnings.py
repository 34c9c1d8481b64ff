"""Jobs on several hosts are warned of their run limit on all of them (-wa, --signal).

Their first host minds the time and tells when it has warned them; only then the others do so. It never warns twice:
hosts are told again what they may have missed, and know what they have done.
"""

from __future__ import annotations

import signal

from gsched.core.attempts.attempt_notes import led_by
from gsched.core.command import AttemptWarned
from gsched.core.decision import Decision
from gsched.core.instruction import WarnAttempt
from gsched.core.records.job import JobRecord
from gsched.model.event import JobEndWarned
from gsched.model.jobs.job import SLURM
from gsched.model.jobs.job_signal import PASSED_ON

CLOCKS_S = 5.0
"""How far clocks of hosts may be apart."""


def attempt_warned(command: AttemptWarned, decision: Decision) -> None:
    """The first host has warned it. Told again it changes nothing."""
    job = led_by(decision.state, command.host, (command.job_id, command.attempt))
    if job is None or job.end_warned or job.kill_by or job.requeue_by or not job.spec.warning_signal:
        return
    if job.is_spared and (command.ends_by or 0.0) <= (job.save_by or 0.0) + CLOCKS_S:
        return  # that was when it was asked to save its state for another job
    decision.record(JobEndWarned(at=decision.now, job_id=job.job_id, attempt=job.attempt, ends_by=command.ends_by))
    for part in job.left_parts():
        warn_part(job, part.host, decision)


def warn_part(job: JobRecord, host: str, decision: Decision) -> None:
    """Tell a host that is not its first, as far as it has been warned."""
    if job.end_warned and job.spec.warning_signal:
        number = signal_on_others(job)
        if number or job.ends_by is not None:
            decision.instruct(WarnAttempt(host, job.job_id, job.attempt, number, job.ends_by))


def signal_on_others(job: JobRecord) -> int:
    """The signal that hosts but the first send its tasks; 0: none, for `glaunch` or `srun` passes it on, or it is for
    the job's main process alone.
    """
    number = int(signal.Signals[f"SIG{job.spec.warning_signal}"])
    is_for_some = job.spec.warns_main or job.spec.front_end == SLURM
    return 0 if is_for_some or number in PASSED_ON else number
