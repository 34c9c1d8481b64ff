"""RETRY: whether a job whose attempt has failed waits again by itself. What a person has ended never does."""

from __future__ import annotations

from typing import NamedTuple

from gsched.core.attempts.attempt_failure import host_of_gpu_error
from gsched.core.records.job import JobRecord
from gsched.model.config import ClusterConfig
from gsched.model.jobs.failure import FailureClass, death, failure_of
from gsched.model.jobs.job import AttemptResult
from gsched.model.jobs.retry import RetryRule, retry_rules


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
