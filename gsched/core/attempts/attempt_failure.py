"""Why an attempt failed, as far as the state knows more of it than its agent: errors of GPUs on all of its hosts; and
RETRY: whether its job waits again by itself. What a person has ended never does.
"""

from __future__ import annotations

from typing import NamedTuple

from gsched.base.coded_text import CodedText
from gsched.core.records.job import JobRecord
from gsched.model.config import ClusterConfig
from gsched.model.gpus.xid import xids_in
from gsched.model.jobs.failure import FailureClass, death, failure_of, judge
from gsched.model.jobs.job import AttemptResult
from gsched.model.jobs.retry import RetryRule, retry_rules

_FAILED = "gpu.has_failed"
_OF_GPUS = ("note.xid", "note.gpu_failed")
"""Notes that begin with the number of the attempt."""


def with_gpu_errors(job: JobRecord, result: AttemptResult) -> AttemptResult:
    """The result of its attempt that ends, with the errors that the driver has told of its GPUs."""
    xids = _xids_of(job)
    if not xids or (result.succeeded and result.started):
        return result
    return judge(result, result.failure, xids=xids)


def host_of_gpu_error(job: JobRecord) -> str:
    """The host of the first GPU of its attempt of which the driver has told an error; empty where there is none."""
    for note in _notes_of_gpus(job):
        told = next((value for value in note.values if isinstance(value, CodedText) and value.code == _FAILED), None)
        values, place = (note.values, 4) if told is None else (told.values, 2)
        if len(values) > place:
            return str(values[place])
    return ""


def _xids_of(job: JobRecord) -> tuple[int, ...]:
    return tuple(number for note in _notes_of_gpus(job) for number in xids_in(note))


def _notes_of_gpus(job: JobRecord) -> list[CodedText]:
    """Those of its attempt."""
    told = [note for note in job.notes if isinstance(note, CodedText) and note.code in _OF_GPUS]
    return [note for note in told if note.values[:1] == (job.attempt,)]


class Retry(NamedTuple):
    """A failure that the job's queue has a rule for. `tried`: how often the job was run again because of it."""

    kind: str
    rule: RetryRule
    tried: int
    exclude: str
    """The host that it is not to run on again; empty: none."""

    @property
    def is_over(self) -> bool:
        return self.tried >= self.rule.times


def retry_of(job: JobRecord, result: AttemptResult, config: ClusterConfig) -> Retry | None:
    """What its queue says of this failure; None where it says nothing, or the job must not run again by itself."""
    queue, failure = config.queues.get(job.spec.queue), failure_of(result)
    if queue is None or failure is None or not queue.retry or job.spec.interactive:
        return None
    rule = retry_rules(queue.retry).get(failure.kind)
    if rule is None or death(result) in job.signals:
        return None
    return Retry(failure.kind, rule, job.retries.get(failure.kind, 0), _excluded(job, failure.kind, rule))


def _excluded(job: JobRecord, kind: str, rule: RetryRule) -> str:
    """Of a job on several hosts only a failed GPU tells which of them it was."""
    if not rule.elsewhere or job.allocation is None:
        return ""
    at_fault = host_of_gpu_error(job) if kind == FailureClass.XID else ""
    return at_fault or (job.allocation.first_host if len(job.allocation.hosts) == 1 else "")
