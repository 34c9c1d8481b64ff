"""The one writer: `handle(command, now)`, `tick(now)` and `cycle(now)` turn requests and time into decisions.

Events of a decision are applied to the state when it is made; whoever drives the engine commits them before anything
leaves the process. The engine checks every placement of a plan against the ledger before it becomes an event.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from gsched.base.errors import BadRequest, Conflict, GschedError, Internal, NotFound
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
from gsched.core.judgement import judge_for
from gsched.core.observed import Observations
from gsched.core.outlook import Outlook
from gsched.core.values import slot_limit
from gsched.model.allocation import Allocation
from gsched.model.config import ClusterConfig
from gsched.model.event import ConfigApplied, JobDispatched, JobForgotten, JobSubmitted
from gsched.model.job import JobSpec, JobState
from gsched.model.snapshot import Bucket, Placement, Plan, Snapshot
from gsched.model.view import Submitted
from gsched.policy import cycle
from gsched.policy.explain import SUSPENDED, WAITING, waiting_to_retry

Schedule = Callable[[Snapshot, float, int], Plan]

IDLE_TICK_S = 60.0
"""Longest time between two ticks."""
BUSY_TICK_S = 10.0
"""The same while jobs wait: load that changes little by little wakes nobody."""
FORGET_MOST = 1000
"""Most jobs that one tick forgets; the next tick follows at once."""


class HalfDone(Exception):
    """A command failed after some of its events had been applied: memory and store have parted."""


class Engine:
    """Owns the state. Not thread-safe: one thread drives it."""

    def __init__(self, state: ClusterState, config: ClusterConfig, now: float, *, schedule: Schedule = cycle.schedule):
        self.state = state
        self.config = config
        self.observations = Observations(now)
        self.reasons: dict[Bucket, tuple[str, ...]] = {}
        self.summary = "no scheduling cycle yet"
        self.needs_cycle = True
        self.failure: Exception | None = None
        """Why the last scheduling cycle failed; None when it did not."""
        self._judge = judge_for(config)
        self._outlook = Outlook(state, self.observations)
        self._schedule = schedule
        self._ticked_at = now
        self._news = True
        """Something has happened since the current pass over the pending jobs began."""
        self._tried: dict[Bucket, tuple[str, ...]] = {}
        """Kinds of jobs that the pass has found no place for, when a cycle's budget cut it short."""
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
        """Decide one command. Raises GschedError when it is refused; nothing has changed then.

        A fault is a refusal too (Internal) as long as no event was applied; after that it is raised as it is, for only
        a replay can say what the state is.
        """
        decision = Decision(self.state)
        try:
            self._handlers[type(command)](command, now, decision)
        except Exception as error:
            if decision.events:
                raise HalfDone(f"{type(command).__name__} failed after {len(decision.events)} events") from error
            if isinstance(error, GschedError):
                raise
            raise Internal(
                f"{type(command).__name__} failed; nothing was changed, the master's log says why"
            ) from error
        return decision

    def _submit(self, command: Submit, now: float, decision: Decision) -> None:
        if not command.specs:
            raise BadRequest("an empty submission")
        known = self.state.tokens.get(command.token) if command.token else None
        if known:
            decision.reply = self._submitted_before(command, known)
            return
        last = self.state.next_job_id + len(command.specs) - 1
        if last > self.config.params.max_job_id:
            raise BadRequest(f"job id {last} would exceed MAX_JOBID {self.config.params.max_job_id}")
        specs = [admit(spec, command.user, self.config, self.observations.of, self._judge) for spec in command.specs]
        ids = []
        for place, spec in enumerate(specs):
            job_id = self.state.next_job_id
            decision.record(JobSubmitted(at=now, job_id=job_id, spec=spec, token=command.token, place=place))
            ids.append(job_id)
        decision.reply = [self._submitted(self.state.jobs[job_id].spec, job_id) for job_id in ids]
        self._wake()

    def _submitted_before(self, command: Submit, known: dict[int, int]) -> list[Submitted]:
        """The first answer again. A submission's jobs have numbers in a row, so those forgotten since are known too."""
        first = min(job_id - place for place, job_id in known.items())
        replies = []
        for place, spec in enumerate(command.specs):
            job = self.state.jobs.get(first + place)
            if job is not None and (job.token, job.place, job.spec.user) != (command.token, place, command.user):
                raise Conflict(f"submission {command.token} is already known, and it is another one")
            known_spec = job.spec if job is not None else spec
            replies.append(self._submitted(known_spec, first + place))
        return replies

    def _submitted(self, spec: JobSpec, job_id: int) -> Submitted:
        queue = spec.queue or self.config.params.default_queue
        return Submitted(job_id=job_id, queue=queue, default_queue=not spec.queue_named, warnings=spec.warnings)

    def _wake(self) -> None:
        """What has happened may let a pending job start."""
        self.needs_cycle = self._news = True

    def _control_jobs(self, command: ControlJobs, now: float, decision: Decision) -> None:
        control.control_jobs(self.state, command, self.observations.of, now, decision)
        self._wake()

    def _control_hosts(self, command: ControlHosts, now: float, decision: Decision) -> None:
        control.control_hosts(self.state, self.config, command, now, decision)
        self._wake()

    def _reconfigure(self, command: Reconfigure, now: float, decision: Decision) -> None:
        decision.record(ConfigApplied(at=now, digest=command.config.digest, by=command.user))
        self.config = command.config
        self._judge = judge_for(command.config)
        self._observe_all()
        for host in command.config.hosts:
            if self.observations.of(host).connected:
                decision.instruct(ConfigureAgent(host))
        self._wake()

    # -- agents ---------------------------------------------------------------------------------------------------

    def _hello(self, command: HostHello, now: float, decision: Decision) -> None:
        if command.host not in self.config.hosts:
            raise NotFound(f"host {command.host} is not in the Host section of lsf.cluster.{self.config.cluster}")
        attempts.hello(self.state, command, self.observations.of(command.host), now, decision)
        self._observe(command.host)
        self._wake()

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
        if changed:
            self._wake()

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
        self._wake()

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> Decision:
        """What time alone brings about: lost hosts, forgotten jobs, starts that may be tried again."""
        decision = Decision(self.state)
        self._ticked_at = now
        for name in self._silent():
            if now >= self._lost_at(name):
                attempts.host_lost(self.state, name, self.observations.of(name), now, decision)
        for job_id in self.state.forgettable(now, self.config.params.clean_period_s, FORGET_MOST):
            decision.record(JobForgotten(at=now, job_id=job_id))
        self.state.let_go_on(now)
        if self.state.pending:
            self._wake()
        return decision

    def _silent(self) -> list[str]:
        """Hosts without a connected agent that are not lost yet; also those no longer configured while jobs run."""
        held = {name for name, ledger in self.state.ledger.hosts.items() if ledger.held}
        return [
            name
            for name in sorted({*self.config.hosts, *held})
            if not (seen := self.observations.of(name)).connected and not seen.lost
        ]

    def _lost_at(self, host: str) -> float:
        return self.observations.of(host).last_heard + self.config.params.host_lost_after_s

    def next_deadline(self, now: float) -> float:
        """When `tick` has something to do at the latest, in UTC seconds."""
        self._ticked_at = min(self._ticked_at, now)  # the clock may have been set back
        due = [self._ticked_at + (BUSY_TICK_S if self.state.pending else IDLE_TICK_S)]
        due.extend(self._lost_at(name) for name in self._silent())
        due.extend(self.state.delayed.values())
        ended = self.state.first_end()
        if ended is not None:
            due.append(ended + self.config.params.clean_period_s)
        interval = self.config.params.job_accept_interval_s
        if interval and self.state.pending:
            again = (self.observations.of(name).last_dispatch + interval for name in self.config.hosts)
            due.extend(at for at in again if at > self._ticked_at)
        return max(now, min(due))

    def cycle(self, now: float, budget: int = cycle.DEFAULT_BUDGET) -> Decision:
        """One scheduling cycle: plan on a snapshot, check each placement on the truth, record the dispatches.

        A pass over all pending jobs may take several cycles: one that the budget cuts short is gone on with by the
        next, which leaves out the kinds of jobs that found no place before.
        """
        decision = Decision(self.state)
        self.needs_cycle = False
        self.state.let_go_on(now)
        if not self._tried:
            self._news = False
        if not self.state.pending:
            self.reasons, self._tried = {}, {}
            return decision
        try:
            plan = self._schedule(self.snapshot(now, self._tried), now, budget)
        except Exception as error:  # planning changes nothing: whoever waits goes on waiting, and all else goes on
            self.failure, self._tried = error, {}
            self.summary = f"the scheduling cycle failed, nothing was placed: {error!r}"
            return decision
        self.failure = None
        reasons = {**self._tried, **plan.reasons}
        refused = [text for placement in plan.placements if (text := self._dispatch(placement, reasons, now, decision))]
        self.reasons = reasons
        self.summary = plan.summary + (f"; {len(refused)} placements did not fit: {refused[0]}" if refused else "")
        self._tried = reasons if plan.truncated else {}
        self.needs_cycle = plan.truncated or self._news
        return decision

    def _dispatch(
        self, placement: Placement, reasons: dict[Bucket, tuple[str, ...]], now: float, decision: Decision
    ) -> str:
        """Record the dispatch; or say why the ledger does not allow it, and leave the job pending."""
        job = self.state.jobs[placement.job_id]
        misfit = self.state.ledger.misfit((job.job_id, job.attempt + 1), placement.allocation)
        if misfit:
            reasons[job.bucket()] = (f"The place found for it was gone: {misfit}",)
            return f"job {job.job_id}: {misfit}"
        decision.record(
            JobDispatched(
                at=now,
                job_id=job.job_id,
                attempt=job.attempt + 1,
                allocation=placement.allocation,
                effective_req=_effective(job.spec, placement.allocation),
            )
        )
        for part in placement.allocation.hosts:
            self.observations.of(part.host).last_dispatch = now
        decision.instruct(StartJob(placement.allocation.first_host, job.job_id, job.attempt))
        return ""

    # -- what others look at --------------------------------------------------------------------------------------

    def snapshot(self, now: float, leave_out: Container[Bucket] = ()) -> Snapshot:
        """What a cycle sees now, without the buckets to be left out."""
        return self._outlook.snapshot(self.config, now, leave_out)

    def pending_reasons(self, job_id: int) -> tuple[str, ...]:
        """Why the job waits; never empty for a pending job."""
        job = self.state.jobs[job_id]
        if job.state is JobState.PSUSP:
            return (SUSPENDED,)
        if job_id in self.state.delayed:
            return (waiting_to_retry(job.avoid_host),)
        return self.reasons.get(job.bucket(), (WAITING,))

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
        self._outlook.forget(name)
        self.state.touched_hosts.add(name)


def _effective(spec: JobSpec, allocation: Allocation) -> str:
    """The requirement the job starts with; a GPU that it did not ask for (auto=1) is said there."""
    claims = {gpu.claim for part in allocation.hosts for gpu in part.gpus} if spec.auto_gpu else set()
    return spec.combined_req + "".join(f" rusage[{claim}=1.00]" for claim in sorted(claims))
