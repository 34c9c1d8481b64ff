"""A cluster in virtual time: the real engine, agents that only keep time, and a record of what became of each job.

Everything that happens at one moment is told to the engine before its cycles run; then time jumps to the next moment.
It reads no clock, starts no process and stores nothing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gsched.base.errors import GschedError
from gsched.core.command import AttemptEnded, AttemptStarted, HostHello, HostReported, KillJobs, Submit
from gsched.core.command_turns import UNLIMITED
from gsched.core.decision import Decision
from gsched.core.engine import Engine
from gsched.core.instruction import Instruction, ResumeAttempt, StartJob, SuspendAttempt, TerminateAttempt
from gsched.core.state.cluster_state import replay
from gsched.model.config import ClusterConfig, Locations
from gsched.model.event import JobDispatched, JobFinished, JobRequeued, JobResumed, JobSuspended
from gsched.model.hosts.host import ComputeMode, GpuReport, HostConfig, LoadReport
from gsched.model.hosts.resource import GPU_COUNTERS, Resource
from gsched.model.jobs.job import EXIT_SAVED, AttemptResult
from gsched.model.jobs.reason import PlannedStart
from gsched.model.ledgers.allocation import Allocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Snapshot
from gsched.model.views.start_estimate import StartEstimate
from gsched.policy.cycle import Planning, schedule_in_turns
from gsched.sim.cluster_file import SimulatedHost
from gsched.sim.trace import TraceJob

START = 1_700_000_000.0
"""When a simulation begins, UTC seconds."""
MOST_CYCLES = 1000
"""Cycles at one moment; more mean that the engine never comes to rest."""
_ENDED, _ARRIVED, _LOOK = range(3)
_PLACES = Locations(conf_dir="/c", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")


class SimulationError(Exception):
    """The engine broke an invariant or does not come to rest."""


def simulated_config(
    hosts: int = 1, slots: int = 4, gpus: int = 0, queues: Iterable[Queue] = (Queue(name="normal"),), **changes: object
) -> ClusterConfig:
    """A cluster of equal hosts h000, h001 …; `changes` are fields of ClusterConfig."""
    names = [f"h{number:03}" for number in range(hosts)]
    counters = {name: Resource(name=name, interval_s=5, consumable=name != "ngpuprohibited") for name in GPU_COUNTERS}
    values: dict[str, object] = {
        "cluster": "sim",
        "master_host": names[0],
        "administrators": ("root",),
        "hosts": {name: HostConfig(name=name, max_slots=slots) for name in names},
        "queues": {queue.name: queue for queue in queues},
        "resources": counters,
        "mapped": dict.fromkeys(counters, tuple(names)) if gpus else {},
        "locations": _PLACES,
        "digest": "sim",
    }
    return ClusterConfig(**(values | changes))  # type: ignore[arg-type]


@dataclass(slots=True)
class Fate:
    """What became of a job. Times are UTC seconds."""

    job: TraceJob
    arrived_at: float = 0.0
    queue: str = ""
    """The one that it was accepted into."""
    starts: list[tuple[float, Allocation]] = field(default_factory=list)
    """One for each attempt."""
    ends: list[float] = field(default_factory=list)
    """The end of each attempt that is over, whether the job ended with it or waits again."""
    killed: bool = False
    """It was ended by something other than itself."""
    ended_at: float | None = None
    ended_as: int = 0
    """So many jobs had ended before: which was recorded first of those that ended at one time."""
    plans: list[tuple[float, PlannedStart]] = field(default_factory=list)
    """When it was said -> planned start; only what differs from what was said before."""
    said: list[StartEstimate] = field(default_factory=list)
    """What was said of its start, oldest first."""
    stops: list[float] = field(default_factory=list)
    """When it was suspended."""
    resumes: list[float] = field(default_factory=list)
    saved_s: float = 0.0
    """So much of its run time need not be done again."""

    @property
    def first_start(self) -> float | None:
        return self.starts[0][0] if self.starts else None

    @property
    def promised_at(self) -> float | None:
        """The first time that it was planned for."""
        return next((plan.at for _, plan in self.plans if plan.at is not None), None)


@dataclass(slots=True)
class _Attempt:
    """A virtual process."""

    host: str
    left_s: float
    term_reason: str = ""
    """Why it will be ended, if nobody does before."""
    since: float | None = None
    """When it began or went on; None while it is stopped."""
    has_saved: bool = False
    """It has saved its state before its end."""
    turn: int = 0
    """Counts what makes an end that was foreseen void."""


PATIENCE_S = 8 * 86_400.0
"""When nothing runs or arrives and nothing has happened for so long, jobs that still wait never start: every window of
a week has been open.
"""
LOOK_S = 60.0
"""Where jobs may have to wait for time alone that nothing foretells (budgets of GPU hours), it is looked so often."""


def _without_reasons(snapshot: Snapshot, now: float, budget: int, steps: int) -> Planning:
    """The same plan."""
    return schedule_in_turns(replace(snapshot, are_reasons_read=False), now, budget, steps)


class World:
    """A simulation. Hosts are `machines`; where there are none, each of the configuration has `gpus` devices in
    exclusive process mode and so much memory.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        gpus: int = 0,
        mem_mib: float = 100_000.0,
        ends_after_s: float = 0.0,
        audit_every: int = 1,
        machines: Sequence[SimulatedHost] = (),
        start: float = START,
        unread_reasons: bool = False,
    ) -> None:
        """`ends_after_s`: how long a job takes to end once it is told to. `audit_every`: of so many decisions one is
        followed by an audit, which costs more than the decision. `start`: when it begins, UTC
        seconds. `unread_reasons`: nobody asks why jobs wait, which it takes a part of each cycle to find out.
        """
        self.start = self.now = start
        self.fates: dict[int, Fate] = {}
        self.refused: Callable[[TraceJob, GschedError], None] | None = None
        """Told of each job that is refused as it arrives; None: the error is raised."""
        self._ended = 0
        self.decisions = 0
        self._config = config
        self._ends_after_s = ends_after_s
        self._audit_every = audit_every
        self._attempts: dict[AttemptKey, _Attempt] = {}
        self._parts: set[tuple[str, AttemptKey]] = set()
        """(host, attempt) of jobs that span hosts, on all but their first."""
        self._agenda: list[tuple[float, int, int, object]] = []
        self._looks: set[float] = set()
        """Moments of the agenda at which nothing but a look is due."""
        self._number = 0
        sparing = [config.params.sparing, *(each.sparing for each in config.queues.values())]
        sparing += [each.sparing for each in config.applications.values()]
        self._polls = any(limit.gpu_hours is not None for limit in config.limits) or (
            config.params.min_run_before_preempt_s > 0 or any(each.interval_s for each in sparing)
        )
        budgets = [limit.budget_window_s for limit in config.limits]
        self._patience_s = max(PATIENCE_S, *(2 * window for window in budgets), 0.0)
        self._happened_at = start
        self.engine = Engine(
            replay([]), config, self.now, schedule=_without_reasons if unread_reasons else schedule_in_turns
        )
        made = [
            SimulatedHost(
                name=name,
                slots=1,
                mem_mib=mem_mib,
                gpus=gpus,
                gpu_mem_mib=40_000,
                gpu_mode=ComputeMode.EXCLUSIVE_PROCESS,
            )
            for name in config.hosts
        ]
        for session, machine in enumerate(machines or made, 1):
            self._connect(machine, session)
        self._settle()

    # -- running --------------------------------------------------------------------------------------------------

    def expect(self, trace: Iterable[TraceJob]) -> None:
        """The jobs of a trace will arrive, each at its time."""
        for job in trace:
            self._plan(self.start + job.arrives_s, _ARRIVED, job)

    def run(self, trace: Iterable[TraceJob], until_s: float = math.inf) -> dict[int, Fate]:
        """Play a trace to its end, or for so many seconds; what became of the jobs, by their numbers."""
        self.expect(trace)
        for _ in self.steps(until_s):
            pass
        return self.fates

    def steps(self, until_s: float = math.inf) -> Iterator[float]:
        """Go from moment to moment; yields the time after each."""
        while self._agenda and self._agenda[0][0] <= self.start + until_s:
            if len(self._looks) == len(self._agenda) and self._agenda[0][0] > self._happened_at + self._patience_s:
                return
            self.now = self._agenda[0][0]
            self._take(self.engine.tick(self.now))
            while self._agenda and self._agenda[0][0] == self.now:
                _, what, _, about = heapq.heappop(self._agenda)
                self._looks.discard(self.now)
                if what == _ARRIVED:
                    assert isinstance(about, TraceJob)
                    self._arrive(about)
                elif what == _ENDED:
                    assert isinstance(about, tuple)
                    self._end(*about)
            self._settle()
            yield self.now

    def _arrive(self, job: TraceJob) -> None:
        try:
            self.submit(job)
        except GschedError as error:
            if self.refused is None:
                raise
            self.refused(job, error)

    def submit(self, job: TraceJob) -> int:
        """A job arrives now; its number. Raises GschedError where it is refused."""
        reply = self._take(self.engine.handle(Submit(job.user, "", (job.spec(),)), self.now)).reply
        number = int(reply[0].job_id)
        self.fates[number] = Fate(job, self.now, self.engine.state.jobs[number].spec.queue)
        return number

    def offer(self, jobs: Sequence[TraceJob]) -> list[Allocation | None]:
        """Jobs arrive now, and those that do not start at once are taken back; what each got, None: nothing."""
        numbers: list[int] = []
        for job in jobs:
            try:
                numbers.append(self.submit(job))
            except GschedError:  # no host could ever hold it
                numbers.append(0)
        self._settle()
        got = [self.fates[number].starts if number else [] for number in numbers]
        left = tuple(number for number, starts in zip(numbers, got, strict=True) if number and not starts)
        if left:
            self._take(self.engine.handle(KillJobs("root", True, left), self.now))
        return [starts[0][1] if starts else None for starts in got]

    def check(self, job: TraceJob) -> None:
        """Raises GschedError where the job would be refused. For a world that plays nothing."""
        reply = self.engine.handle(Submit(job.user, "", (job.spec(),)), self.now).reply
        self.engine.handle(KillJobs("root", True, (reply[0].job_id,)), self.now)

    @property
    def ended(self) -> int:
        """Jobs that have ended."""
        return self._ended

    def waiting(self) -> list[int]:
        """Jobs that have arrived and neither run nor have ended."""
        started = {key[0] for key in self._attempts}
        return [job_id for job_id, fate in self.fates.items() if fate.ended_at is None and job_id not in started]

    def running(self) -> list[int]:
        """Jobs that have started and not ended, stopped ones among them."""
        return [key[0] for key in self._attempts]

    def parts(self) -> list[tuple[str, int]]:
        """(host, job) of the parts of jobs that span hosts, which have not ended."""
        return sorted((host, key[0]) for host, key in self._parts)

    def _settle(self) -> None:
        """Cycles until the engine wants none; then look when it is to be asked again."""
        for _ in range(MOST_CYCLES):
            if not self.engine.cycles.needs_cycle:
                break
            self._take(self.engine.cycle(self.now))
            if self.engine.cycles.failure is not None:
                raise SimulationError(f"the cycle failed at {self.now}") from self.engine.cycles.failure
        else:
            raise SimulationError(f"the engine wants cycles for ever at {self.now}")
        for job_id, plan in self.engine.cycles.planned.items():
            fate = self.fates.get(job_id)
            if fate is not None and (not fate.plans or fate.plans[-1][1] != plan):
                fate.plans.append((self.now, plan))
        self.engine.say_estimates(self.now, UNLIMITED)
        for each in self.engine.estimates.take():
            if each.job_id in self.fates:
                self.fates[each.job_id].said.append(each)
        change = self.engine.next_change(self.now)
        if self._polls and self.engine.state.pending:
            change = min(self.now + LOOK_S, math.inf if change is None else change)
        if change is not None and (self._agenda or self.engine.state.pending or self._attempts):
            self._look_at(change)

    def _take(self, decision: Decision) -> Decision:
        """Note what was decided and do what agents are told. Raises SimulationError if an invariant is broken."""
        self.decisions += 1
        problems = self.engine.audit() if self.decisions % self._audit_every == 0 else []
        if problems:
            raise SimulationError(f"{self.now}: {problems[0]}")
        if decision.events:
            self._happened_at = self.now
        for event in decision.events:
            match event:
                case JobDispatched():
                    self.fates[event.job_id].starts.append((self.now, event.allocation))
                case JobFinished():
                    fate = self.fates[event.job_id]
                    fate.ended_at, fate.ended_as = self.now, self._ended
                    fate.killed = event.result.exit_code != 0
                    fate.ends.extend(() if len(fate.ends) == len(fate.starts) else (self.now,))
                    self._ended += 1
                case JobRequeued():
                    self.fates[event.job_id].ends.append(self.now)
                case JobSuspended():
                    self.fates[event.job_id].stops.append(self.now)
                case JobResumed():
                    self.fates[event.job_id].resumes.append(self.now)
        for instruction in decision.instructions:
            self._obey(instruction)
        return decision

    # -- agents ---------------------------------------------------------------------------------------------------

    def _connect(self, machine: SimulatedHost, session: int) -> None:
        names = ("r15s", "r1m", "r15m", "ut", "pg", "io", "ls")
        idle: dict[str, float | None] = dict.fromkeys(names, 0.0)
        room: dict[str, float | None] = {"it": 99.0, "mem": machine.mem_mib, "tmp": 1e5, "swp": 1e5}
        load = LoadReport(indices=idle | room, ncpus=4, maxmem_mib=machine.mem_mib)
        gpus = GpuReport(gpus=machine.devices(), provider="simulated", sets_modes=True)
        self._take(self.engine.handle(HostHello(machine.name, session, "boot", "sim"), self.now))
        self._take(self.engine.handle(HostReported(machine.name, session, load=load, gpus=gpus), self.now))

    def _obey(self, instruction: Instruction) -> None:
        match instruction:
            case StartJob():
                self._start(instruction)
            case SuspendAttempt() | ResumeAttempt() | TerminateAttempt():
                key = (instruction.job_id, instruction.attempt)
                if isinstance(instruction, TerminateAttempt) and (instruction.host, key) in self._parts:
                    self._close_part(instruction.host, key)
                attempt = self._attempts.get(key)
                if attempt is None or attempt.host != instruction.host:
                    return
                if isinstance(instruction, TerminateAttempt):
                    attempt.term_reason = attempt.term_reason or instruction.reason or "TERM_OWNER"
                    if instruction.save is not None:
                        self._save(instruction.job_id, attempt)
                    attempt.left_s = 0.0
                    self._foresee(key, attempt, self._ends_after_s)
                elif isinstance(instruction, SuspendAttempt) and attempt.since is not None:
                    attempt.left_s -= self.now - attempt.since
                    attempt.since = None
                    attempt.turn += 1
                elif isinstance(instruction, ResumeAttempt) and attempt.since is None:
                    self._foresee(key, attempt, attempt.left_s)

    def _save(self, job_id: int, attempt: _Attempt) -> None:
        """What it has done by now it need not do again."""
        if not attempt.has_saved:
            left_s = attempt.left_s - (0.0 if attempt.since is None else self.now - attempt.since)
            self.fates[job_id].saved_s = max(0.0, self.fates[job_id].job.runs_s - left_s)
            attempt.has_saved = True

    def _start(self, order: StartJob) -> None:
        key = (order.job_id, order.attempt)
        if key in self._attempts:
            return
        if order.host != self.fates[order.job_id].starts[-1][1].first_host:
            self._parts.add((order.host, key))
            self._take(self.engine.handle(AttemptStarted(*key, order.host, 1, self.now), self.now))
            return
        job = self.fates[order.job_id].job
        lasts = job.runs_s - self.fates[order.job_id].saved_s
        over = job.limit_s is not None and lasts > job.limit_s
        lasts = float(job.limit_s) if over and job.limit_s is not None else lasts
        attempt = _Attempt(order.host, lasts, "TERM_RUNLIMIT" if over else "")
        self._attempts[key] = attempt
        self._foresee(key, attempt, lasts)
        report = AttemptStarted(order.job_id, order.attempt, order.host, 100 + order.job_id, self.now)
        self._take(self.engine.handle(report, self.now))

    def _close_part(self, host: str, key: AttemptKey) -> None:
        """Nothing runs there by itself: it ends at once."""
        self._parts.discard((host, key))
        report = AttemptEnded(*key, host, AttemptResult(exit_code=0, ended_at=self.now), is_part=True)
        self._take(self.engine.handle(report, self.now))

    def _foresee(self, key: AttemptKey, attempt: _Attempt, after_s: float) -> None:
        attempt.since = self.now
        attempt.turn += 1
        self._plan(self.now + after_s, _ENDED, (key, attempt.turn))

    def _end(self, key: AttemptKey, turn: int) -> None:
        attempt = self._attempts.get(key)
        if attempt is None or attempt.turn != turn:
            return
        del self._attempts[key]
        killed = bool(attempt.term_reason)
        result = AttemptResult(
            exit_code=EXIT_SAVED if attempt.has_saved else None if killed else 0,
            signal=15 if killed and not attempt.has_saved else None,
            ended_at=self.now,
            term_reason=attempt.term_reason,
        )
        self._take(self.engine.handle(AttemptEnded(*key, attempt.host, result), self.now))

    # -- time -----------------------------------------------------------------------------------------------------

    def _plan(self, at: float, what: int, about: object) -> None:
        self._number += 1
        heapq.heappush(self._agenda, (at, what, self._number, about))

    def _look_at(self, at: float) -> None:
        """A moment at which the engine is to be asked, though nothing happens."""
        if at not in self._looks:
            self._looks.add(at)
            self._plan(at, _LOOK, None)
