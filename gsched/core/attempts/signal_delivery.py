"""Signals that somebody has asked for, kept until each of the job's hosts has told that it has sent them.

They are numbered, so that an agent that missed some is told of those alone when it is back. An attempt that is over is
owed nothing. Which signals may be sent, and to whom, is not decided here.
"""

from __future__ import annotations

from gsched.core.command import SignalsSent
from gsched.core.decision import Decision
from gsched.core.instruction import SignalAttempt
from gsched.core.records.job import JobRecord
from gsched.model.event import JobSignalsSent
from gsched.model.jobs.job import STARTED
from gsched.model.jobs.job_signal import OwedSignal


def is_kept_for(job: JobRecord, host: str, decision: Decision) -> bool:
    """Whether a signal for the job is kept until the host has told that it has sent it: agents of earlier versions
    never tell.
    """
    seen = decision.observed(host)
    return host not in job.ended_parts and (seen.confirms_signals or not seen.session)


def order_of(job: JobRecord, host: str, owed: OwedSignal) -> SignalAttempt:
    """What the host is told of it."""
    number = owed.number if host in owed.hosts else 0
    return SignalAttempt(host, *job.key, owed.signal, owed.reason, target=owed.target, step=owed.step, number=number)


def signals_sent(command: SignalsSent, decision: Decision) -> None:
    """An agent has sent them. Told again it changes nothing."""
    job = decision.state.jobs.get(command.job_id)
    if job is not None and job.attempt == command.attempt and job.state in STARTED:
        _note_sent(job, command.host, command.number, decision)


def repeat_signals(job: JobRecord, host: str, sent: int, decision: Decision) -> None:
    """Of a host that is back, and has sent the signals up to that number: those that it has missed."""
    _note_sent(job, host, sent, decision)
    for owed in job.owed_signals:
        if host in owed.hosts:
            decision.instruct(order_of(job, host, owed))
    if not decision.observed(host).confirms_signals:
        _note_sent(job, host, job.last_signal, decision)


def _note_sent(job: JobRecord, host: str, number: int, decision: Decision) -> None:
    if any(host in owed.hosts and owed.number <= number for owed in job.owed_signals):
        decision.record(
            JobSignalsSent(at=decision.now, job_id=job.job_id, attempt=job.attempt, host=host, number=number)
        )
