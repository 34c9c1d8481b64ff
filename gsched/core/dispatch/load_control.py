"""Suspends, or ends, started jobs whose queue's run window is closed or whose host's load is beyond loadStop; lets them
go on.

It decides from configuration and observation only; jobs that people or preemption have suspended are not its business.
Source of the rules and texts: lsb.queues(5), RUN_WINDOW, thresholds, STOP_COND, RESUME_COND, TERMINATE_WHEN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from gsched.base.coded_text import AnyText, coded
from gsched.core.decision import Decision
from gsched.core.instruction import ResumeAttempt, SuspendAttempt, TerminateAttempt
from gsched.core.records.job import JobRecord
from gsched.core.resources.observed_hosts import Observation
from gsched.core.resources.resource_values import host_values
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.event import JobNoted, JobResumed, JobSignalRequested, JobSuspended
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.resource import BUILTIN
from gsched.model.jobs.job import JobState
from gsched.model.jobs.reason import PendingReason
from gsched.model.queues.queue import LOAD, WINDOW, Queue, Threshold
from gsched.model.queues.window import is_open
from gsched.model.scheduling.snapshot import HostValues
from gsched.resreq.judging.evaluate import Verdict, compile_select
from gsched.resreq.parsing.syntax import parse

WINDOW_CLOSED = coded("suspend.window_closed")
SYSTEM = "_system_"

_BUSY = frozenset({"r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "tmp", "swp", "mem"})
"""Indices for which LSF has texts."""


@lru_cache(maxsize=256)
def _condition(text: str) -> Callable[[HostValues], Verdict]:
    """The judge of a host by STOP_COND or RESUME_COND."""
    return compile_select(parse(text).select)


def beyond(
    thresholds: Mapping[str, Threshold], values: HostValues, config: ClusterConfig, *, stop: bool
) -> Iterator[tuple[str, PendingReason]]:
    """(index, reason) for each threshold that the values are beyond; an unknown value is beyond none."""
    for name, threshold in thresholds.items():
        bound = threshold.stop if stop else threshold.sched
        value = values.get(name)
        if bound is None or not isinstance(value, float | int):
            continue
        resource = config.resource(name) or BUILTIN.get(name)
        increasing = resource is None or resource.increasing
        if value > bound if increasing else value < bound:
            text = coded(f"load.{name}") if name in _BUSY else coded("load.external", name)
            yield name, PendingReason(text, detail=coded("load.threshold", _rounded(value), _rounded(bound)))


def _rounded(value: float) -> str:
    """No more digits than people read: a text that stays the same costs nothing."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def busy_reasons(
    host: HostConfig, queues: Mapping[str, Queue], values: HostValues, config: ClusterConfig
) -> dict[str, PendingReason]:
    """Queue ("" for all) -> why the host takes none of its jobs now: loadSched."""
    found: dict[str, PendingReason] = {}
    for _, reason in beyond(host.thresholds, values, config, stop=False):
        found[""] = reason
        break
    for queue in queues.values():
        for _, reason in beyond(queue.thresholds, values, config, stop=False):
            found[queue.name] = reason
            break
    return found


class LoadControl:
    """What suspends and resumes started jobs without anybody asking."""

    def __init__(self, state: ClusterState, observed: Callable[[str], Observation]) -> None:
        self._state = state
        self._observed = observed

    def relieve(self, minute_of_week: int, decision: Decision, host: str = "") -> None:
        """Suspend what must stop, resume what may go on; `host`: of the jobs that are there."""
        config = decision.config
        values: dict[str, HostValues] = {}
        for job in self._started(host):
            # Of a queue that has been removed no rule is left: its jobs go on.
            queue = config.queues.get(job.spec.queue) or Queue(name=job.spec.queue)
            if job.state is JobState.RUN:
                reason = self._stop_reason(job, queue, config, minute_of_week, values)
                if reason and not (job.kill_by or job.requeue_by):
                    cause = WINDOW if reason == WINDOW_CLOSED else LOAD
                    if cause in queue.terminate_when:
                        terminate_instead(job, reason, f"TERM_{cause}", decision)
                    else:
                        self._suspend(job, reason, decision)
            elif not job.gave_slots and self._may_go_on(job, queue, config, minute_of_week, values):
                self._resume(job, decision)

    def _started(self, host: str) -> list[JobRecord]:
        """Jobs in RUN and SSUSP, by number."""
        keys = self._state.ledger.host(host).held if host else [running.key for running in self._state.running.values()]
        found = (self._state.jobs.get(job_id) for job_id, _ in sorted(keys))
        return [
            job
            for job in found
            if job is not None and job.allocation is not None and job.state in (JobState.RUN, JobState.SSUSP)
        ]

    def _values(self, host: str, config: ClusterConfig, known: dict[str, HostValues]) -> HostValues:
        if host not in known and host in config.hosts:
            known[host] = host_values(config, config.hosts[host], self._observed(host))
        return known.get(host, {})

    def _stop_reason(
        self, job: JobRecord, queue: Queue, config: ClusterConfig, minute: int, known: dict[str, HostValues]
    ) -> AnyText:
        if not is_open(queue.run_window, minute):
            return WINDOW_CLOSED
        assert job.allocation is not None
        for part in job.allocation.hosts:
            values = self._values(part.host, config, known)
            host = config.hosts.get(part.host)
            for thresholds in (queue.thresholds, host.thresholds if host else {}):
                for name, found in beyond(thresholds, values, config, stop=True):
                    # LSF leaves the last batch job of a host alone when somebody else makes the load.
                    alone = len(self._state.ledger.host(part.host).held) == 1 and name in ("it", "ls")
                    if not alone:
                        return coded("suspend.load", found.text, found.detail)
            if queue.stop_cond and _condition(queue.stop_cond)(values).holds is True:
                return coded("suspend.stop_cond")
        return ""

    def _may_go_on(
        self, job: JobRecord, queue: Queue, config: ClusterConfig, minute: int, known: dict[str, HostValues]
    ) -> bool:
        """Whether nothing stops it any more, and it could begin anew, or may go on by RESUME_COND."""
        if self._stop_reason(job, queue, config, minute, known):
            return False
        assert job.allocation is not None
        for part in job.allocation.hosts:
            values = self._values(part.host, config, known)
            host = config.hosts.get(part.host)
            if queue.resume_cond:
                if _condition(queue.resume_cond)(values).holds is not True:
                    return False
                continue
            both = (queue.thresholds, host.thresholds if host else {})
            if any(any(True for _ in beyond(each, values, config, stop=False)) for each in both):
                return False
        return True

    def _suspend(self, job: JobRecord, reason: AnyText, decision: Decision) -> None:
        decision.record(JobSuspended(at=decision.now, job_id=job.job_id, by=SYSTEM, by_system=True, reason=reason))
        assert job.allocation is not None
        for part in job.allocation.hosts:
            decision.instruct(SuspendAttempt(part.host, job.job_id, job.attempt))

    def _resume(self, job: JobRecord, decision: Decision) -> None:
        decision.record(JobResumed(at=decision.now, job_id=job.job_id, by=SYSTEM, by_system=True))
        assert job.allocation is not None
        for part in job.allocation.hosts:
            decision.instruct(ResumeAttempt(part.host, job.job_id, job.attempt))


def terminate_instead(job: JobRecord, reason: AnyText, keyword: str, decision: Decision) -> None:
    """TERMINATE_WHEN: as with gkill, and for good."""
    now, number = decision.now, job.job_id
    decision.record(JobNoted(at=now, job_id=number, text=coded("terminated.instead_of_suspended", reason)))
    decision.record(JobSignalRequested(at=now, job_id=number, by=SYSTEM, signal=0, keyword=keyword))
    for part in job.allocation.hosts if job.allocation is not None else ():
        decision.instruct(TerminateAttempt(part.host, number, job.attempt, keyword))
