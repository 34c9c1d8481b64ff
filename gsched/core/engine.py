"""The one writer: `handle(command, now)`, `tick(now)` and `cycle(now)` turn requests and time into decisions.

Events of a decision are applied to the state when it is made; whoever drives the engine commits them before anything
leaves the process. The engine checks every placement of a plan against the ledger before it becomes an event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gsched.base.errors import BadRequest, NotFound
from gsched.core import attempts, control
from gsched.core.admission import admit
from gsched.core.cluster import ClusterState, audit
from gsched.core.command import (
    AttemptEnded,
    AttemptStarted,
    Command,
    ControlHosts,
    ControlJobs,
    HostDisconnected,
    HostHello,
    HostReported,
    Reconfigure,
    Submit,
)
from gsched.core.decision import Decision
from gsched.core.instruction import ConfigureAgent, StartJob
from gsched.core.observed import Observations
from gsched.core.values import LOCAL_TYPE, host_values, slot_limit
from gsched.core.views import closed_reason
from gsched.model.config import ClusterConfig
from gsched.model.event import ConfigApplied, JobDispatched, JobForgotten, JobSubmitted
from gsched.model.job import FINISHED
from gsched.model.snapshot import Bucket, HostSnapshot, Placement, Snapshot
from gsched.model.view import Submitted
from gsched.policy import cycle
from gsched.policy.explain import WAITING

Schedule = Callable[[Snapshot, float, int], Any]


class Engine:
    """Owns the state. Not thread-safe: one thread drives it."""

    def __init__(self, state: ClusterState, config: ClusterConfig, now: float, *, schedule: Schedule = cycle.schedule):
        self.state = state
        self.config = config
        self.observations = Observations(now)
        self.reasons: dict[Bucket, tuple[str, ...]] = {}
        self.summary = "no scheduling cycle yet"
        self.needs_cycle = True
        self._schedule = schedule
        self._handlers: dict[type, Callable[[Any, float, Decision], None]] = {
            Submit: self._submit,
            ControlJobs: self._control_jobs,
            ControlHosts: self._control_hosts,
            Reconfigure: self._reconfigure,
            HostHello: self._hello,
            HostReported: self._reported,
            HostDisconnected: self._disconnected,
            AttemptStarted: self._attempt_started,
            AttemptEnded: self._attempt_ended,
        }
        self._observe_all()

    # -- commands -------------------------------------------------------------------------------------------------

    def handle(self, command: Command, now: float) -> Decision:
        """Decide one command. Raises GschedError when it is refused; nothing has changed then."""
        decision = Decision(self.state)
        self._handlers[type(command)](command, now, decision)
        return decision

    def _submit(self, command: Submit, now: float, decision: Decision) -> None:
        if not command.specs:
            raise BadRequest("an empty submission")
        known = self.state.tokens.get(command.token) if command.token else None
        if known is not None:
            decision.reply = [self._submitted(known[place]) for place in sorted(known)]
            return
        last = self.state.next_job_id + len(command.specs) - 1
        if last > self.config.params.max_job_id:
            raise BadRequest(f"job id {last} would exceed MAX_JOBID {self.config.params.max_job_id}")
        specs = [admit(spec, command.user, self.config, self.observations.of) for spec in command.specs]
        ids = []
        for place, spec in enumerate(specs):
            job_id = self.state.next_job_id
            decision.record(JobSubmitted(at=now, job_id=job_id, spec=spec, token=command.token, place=place))
            ids.append(job_id)
        decision.reply = [self._submitted(job_id) for job_id in ids]
        self.needs_cycle = True

    def _submitted(self, job_id: int) -> Submitted:
        spec = self.state.jobs[job_id].spec
        return Submitted(job_id=job_id, queue=spec.queue, default_queue=not spec.queue_named, warnings=spec.warnings)

    def _control_jobs(self, command: ControlJobs, now: float, decision: Decision) -> None:
        control.control_jobs(self.state, command, now, decision)
        self.needs_cycle = True

    def _control_hosts(self, command: ControlHosts, now: float, decision: Decision) -> None:
        control.control_hosts(self.state, self.config, command, now, decision)
        self.needs_cycle = True

    def _reconfigure(self, command: Reconfigure, now: float, decision: Decision) -> None:
        decision.record(ConfigApplied(at=now, digest=command.config.digest, by=command.user))
        self.config = command.config
        self._observe_all()
        for host in command.config.hosts:
            if self.observations.of(host).connected:
                decision.instruct(ConfigureAgent(host))
        self.needs_cycle = True

    # -- agents ---------------------------------------------------------------------------------------------------

    def _hello(self, command: HostHello, now: float, decision: Decision) -> None:
        if command.host not in self.config.hosts:
            raise NotFound(f"host {command.host} is not in the Host section of lsf.cluster.{self.config.cluster}")
        attempts.hello(self.state, command, self.observations.of(command.host), now, decision)
        self.needs_cycle = True

    def _reported(self, command: HostReported, now: float, decision: Decision) -> None:
        seen = self.observations.of(command.host)
        if not seen.connected or seen.session != command.session:
            return
        seen.last_heard = now
        seen.usage.update(command.usage)
        self.state.touched.update(job_id for job_id, _ in command.usage)
        if command.load is None and command.gpus is None:
            return
        changed = command.gpus is not None and command.gpus != seen.gpus
        if command.load is not None:
            changed = changed or seen.load is None or command.load.external != seen.load.external
            seen.load = command.load
        if command.gpus is not None:
            seen.gpus = command.gpus
        self._observe(command.host)
        # Load moves all the time: only what can make a job fit wakes the scheduler at once (tick does the rest).
        self.needs_cycle = self.needs_cycle or bool(changed and self.state.pending)

    def _disconnected(self, command: HostDisconnected, now: float, decision: Decision) -> None:
        seen = self.observations.of(command.host)
        if seen.session == command.session:
            seen.connected = False
            seen.last_heard = now
            self._observe(command.host)

    def _attempt_started(self, command: AttemptStarted, now: float, decision: Decision) -> None:
        seen = self.observations.of(command.host)
        attempts.attempt_started(self.state, command, seen, now, decision)
        job = self.state.jobs.get(command.job_id)
        if job is not None and decision.events:
            attempts.note_hidden_gpus(job, self.config, seen, max(now, command.at), decision)

    def _attempt_ended(self, command: AttemptEnded, now: float, decision: Decision) -> None:
        attempts.attempt_ended(self.state, command, self.observations.of(command.host), now, decision)
        self.needs_cycle = True

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> Decision:
        """What time alone brings about: lost hosts, forgotten jobs, starts that may be tried again."""
        decision = Decision(self.state)
        for name in self.config.hosts:
            seen = self.observations.of(name)
            if not seen.connected and not seen.lost and now - seen.last_heard >= self.config.params.host_lost_after_s:
                attempts.host_lost(self.state, name, seen, now, decision)
        for job in [job for job in self.state.jobs.values() if self._is_forgettable(job.finished_at, now)]:
            if job.state in FINISHED:
                decision.record(JobForgotten(at=now, job_id=job.job_id))
        if self.state.pending:
            self.needs_cycle = True
        return decision

    def _is_forgettable(self, finished_at: float | None, now: float) -> bool:
        return finished_at is not None and now - finished_at >= self.config.params.clean_period_s

    def cycle(self, now: float, budget: int = cycle.DEFAULT_BUDGET) -> Decision:
        """One scheduling cycle: plan on a snapshot, check each placement on the truth, record the dispatches."""
        decision = Decision(self.state)
        self.needs_cycle = False
        if not self.state.pending:
            self.reasons = {}
            return decision
        plan = self._schedule(self.snapshot(now), now, budget)
        refused = [text for placement in plan.placements if (text := self._dispatch(placement, now, decision))]
        self.reasons = dict(plan.reasons)
        self.summary = plan.summary + (f"; {len(refused)} placements did not fit: {refused[0]}" if refused else "")
        self.needs_cycle = plan.truncated
        return decision

    def _dispatch(self, placement: Placement, now: float, decision: Decision) -> str:
        """Record the dispatch; or say why the ledger does not allow it, and leave the job pending."""
        job = self.state.jobs[placement.job_id]
        misfit = self.state.ledger.misfit(placement.allocation)
        if misfit:
            return f"job {job.job_id}: {misfit}"
        decision.record(
            JobDispatched(
                at=now,
                job_id=job.job_id,
                attempt=job.attempt + 1,
                allocation=placement.allocation,
                effective_req=job.spec.combined_req,
            )
        )
        for part in placement.allocation.hosts:
            self.observations.of(part.host).last_dispatch = now
        decision.instruct(StartJob(placement.allocation.first_host, job.job_id, job.attempt))
        return ""

    # -- what others look at --------------------------------------------------------------------------------------

    def snapshot(self, now: float) -> Snapshot:
        """What a cycle sees now."""
        delayed = {job_id for job_id, at in self.state.delayed.items() if at > now}
        pending = self.state.pending
        if delayed:
            pending = {bucket: [i for i in ids if i not in delayed] for bucket, ids in pending.items()}
        hosts = {}
        for name, host in self.config.hosts.items():
            seen = self.observations.of(name)
            queue_slots, user_slots = self._slots_on(name)
            hosts[name] = HostSnapshot(
                name=name,
                values=host_values(self.config, host, seen),
                closed=closed_reason(host, self.state, seen),
                queue_slots=queue_slots,
                user_slots=user_slots,
                user_limit=host.user_slots,
                last_dispatch=seen.last_dispatch,
            )
        return Snapshot(
            queues=self.config.queues,
            hosts=hosts,
            ledger=self.state.ledger.fork(),
            pending=pending,
            queue_slots=self.state.queue_slots,
            queue_user_slots=self.state.queue_user_slots,
            local_type=LOCAL_TYPE,
            job_accept_interval_s=self.config.params.job_accept_interval_s,
        )

    def _slots_on(self, host: str) -> tuple[dict[str, int], dict[str, int]]:
        by_queue: dict[str, int] = {}
        by_user: dict[str, int] = {}
        for (job_id, _), part in self.state.ledger.host(host).held.items():
            job = self.state.jobs.get(job_id)
            if job is not None:
                by_queue[job.spec.queue] = by_queue.get(job.spec.queue, 0) + part.slots
                by_user[job.spec.user] = by_user.get(job.spec.user, 0) + part.slots
        return by_queue, by_user

    def pending_reasons(self, job_id: int) -> tuple[str, ...]:
        """Why the job waits; never empty."""
        job = self.state.jobs[job_id]
        if job_id in self.state.delayed:
            return (f"Waiting before the next attempt to start it (the last one failed on {job.avoid_host})",)
        return self.reasons.get(job.bucket(), (WAITING,))

    def next_deadline(self, now: float) -> float:
        """When `tick` has something to do at the latest, in UTC seconds; far away when nothing is due."""
        due = [now + 60.0]
        for name in self.config.hosts:
            seen = self.observations.of(name)
            if not seen.connected and not seen.lost:
                due.append(seen.last_heard + self.config.params.host_lost_after_s)
        due.extend(at for at in self.state.delayed.values())
        return max(now, min(due))

    def audit(self) -> list[str]:
        """Broken invariants, one line each."""
        return audit(self.state, self.observations.strays())

    def _observe_all(self) -> None:
        for name in {*self.config.hosts, *self.state.ledger.hosts}:
            self._observe(name)

    def _observe(self, name: str) -> None:
        """Let the ledger know slots and devices of a host; a host no longer configured offers nothing."""
        ledger = self.state.ledger.host(name)
        host = self.config.hosts.get(name)
        seen = self.observations.of(name)
        ledger.max_slots = slot_limit(host, seen) if host is not None else 0
        ledger.shared_jobs = self.config.params.gpu_shared_jobs
        ledger.observe_gpus(seen.gpus if host is not None and seen.connected else None)
        self.state.touched_hosts.add(name)

