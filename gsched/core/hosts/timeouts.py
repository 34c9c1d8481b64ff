"""What time alone brings about: hosts that are lost, jobs that are forgotten, begin and end times, windows, loads.

It says when it has something to do next, so that nobody polls. Time is an argument.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from gsched.core.attempts import attempt_reports, attempt_results
from gsched.core.control.termination import end_pending, end_waiting
from gsched.core.decision import Decision
from gsched.core.dispatch.load_control import LoadControl
from gsched.core.hosts.forgetting import forget
from gsched.core.instruction import TerminateAttempt
from gsched.core.records.array import JobArray
from gsched.core.resources.observed_hosts import Observations
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.event import JobSignalRequested, ReservationRemoved
from gsched.model.jobs.job import PENDING, STARTED
from gsched.model.queues.window import minute_of_week

ARRIVAL_MOST = 10
"""So many times GSCHED_HOST_LOST at most a host is waited for after a restart of the master, while others come back."""
FORGET_MOST = 250
"""Most jobs that one tick forgets; the next tick follows at once."""
END_MOST = 250
"""The same of jobs whose termination time has come."""
DEADLINE = "TERM_DEADLINE"


class Timeouts:
    """Looks after everything that is due."""

    def __init__(self, state: ClusterState, observations: Observations) -> None:
        self._state = state
        self._observations = observations
        self._load_control = LoadControl(state, observations.of)

    def tick(self, decision: Decision) -> None:
        """Do all that is due at `now`."""
        config, now = decision.config, decision.now
        for name in self._silent(config):
            if now >= self._lost_at(name, config):
                attempt_reports.host_lost(name, self._observations.of(name), decision)
        params = config.params
        retention = self._state.retention
        for job_id in retention.forgettable(now, params.clean_period_s, FORGET_MOST, params.clean_period_done_s):
            forget(job_id, decision)
        self._end_overdue(decision)
        for made in [made for made in self._state.reservations.values() if made.end <= now]:
            decision.record(ReservationRemoved(at=now, name=made.name, by=""))
        self.relieve(decision)
        self._state.let_go_on(now)

    def relieve(self, decision: Decision, host: str = "") -> None:
        """Suspend and resume by windows and loads, where any are configured; `host`: only jobs that are there."""
        if decision.config.can_suspend or self._state.suspended:
            self._load_control.relieve(minute_of_week(decision.now), decision, host)

    def due(self, config: ClusterConfig, now: float) -> Iterator[float]:
        """Times at which `tick` has something to do, UTC seconds."""
        yield from self.changes(config, now)
        yield from self._state.retention.times(config.params.clean_period_s, config.params.clean_period_done_s)

    def changes(self, config: ClusterConfig, now: float) -> Iterator[float]:
        """The same without jobs to be forgotten, which changes nothing for others."""
        yield from (self._lost_at(name, config) for name in self._silent(config))
        waits = self._state.waits.next_time()
        if waits is not None:
            yield waits
        if self._state.deadlines:
            yield min(self._state.deadlines.values())
        for made in self._state.reservations.values():
            yield made.end
            if made.start > now:
                yield made.start
        yield from (each.until for each in self._state.closed_gpus.values() if each.until is not None)
        yield from self._window_changes(config, now)

    def _window_changes(self, config: ClusterConfig, now: float) -> Iterator[float]:
        if config.windows:
            minute, into = minute_of_week(now), now % 60
            yield now - into + 60 * min(window.until_change_min(minute) for window in config.windows)

    def _silent(self, config: ClusterConfig) -> list[str]:
        """Hosts without a connected agent that are not lost yet; also those no longer configured while jobs run."""
        host_ledger = self._state.ledger.hosts
        away = self._observations.roll.away
        return sorted(name for name in away if name in config.hosts or (name in host_ledger and host_ledger[name].held))

    def _lost_at(self, host: str, config: ClusterConfig) -> float:
        """After a restart of the master hosts come back one by one: a host has time as long as others still do."""
        seen, patience = self._observations.of(host), config.params.host_lost_after_s
        if seen.session:
            return seen.last_heard + patience
        last = max(seen.last_heard, self._observations.roll.last_first)
        return min(last + patience, self._observations.started_at + ARRIVAL_MOST * patience)

    def _end_overdue(self, decision: Decision) -> None:
        """-t: the job is ended at that time, started or not."""
        overdue = (number for number, at in self._state.deadlines.items() if at <= decision.now)
        for job_id in heapq.nsmallest(END_MOST, overdue):
            array = self._state.arrays.get(job_id)
            if array is not None:
                self._end_array(array, decision)
                continue
            job = self._state.jobs.get(job_id)
            del self._state.deadlines[job_id]
            if job is None or (job.state not in PENDING and job.state not in STARTED) or job.kill_by:
                continue
            if job.state in PENDING:
                end_pending(job, DEADLINE, decision)
                continue
            # One whose host does not answer becomes a ZOMBI by this, and is ended when the host is back.
            decision.record(JobSignalRequested(at=decision.now, job_id=job_id, by=attempt_results.SYSTEM, signal=0))
            for part in job.allocation.hosts if job.allocation is not None else ():
                decision.instruct(TerminateAttempt(part.host, job_id, job.attempt, attempt_results.ending_reason(job)))

    def _end_array(self, array: JobArray, decision: Decision) -> None:
        del self._state.deadlines[array.array_id]
        if array.count:
            end_waiting(array, DEADLINE, decision)
