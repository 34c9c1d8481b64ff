"""A cluster without processes for the engine's tests: configuration, an engine, and what agents would say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from gsched.base.coded_text import sentence
from gsched.base.ids import array_of
from gsched.core.command import (
    AttemptEnded,
    AttemptStarted,
    ControlGroups,
    ControlHosts,
    ControlQueues,
    ControlReservations,
    ExchangeJobs,
    HeldAttempt,
    HostDisconnected,
    HostHello,
    HostReported,
    JobCommand,
    KillJobs,
    ModifyJobs,
    MoveJobsToBottom,
    MoveJobsToTop,
    PostToJobs,
    Reconfigure,
    ReleaseSlots,
    RequestSlots,
    RequeueJobs,
    ResumeJobs,
    RunJobs,
    SignalJobs,
    StopJobs,
    Submit,
)
from gsched.core.decision import Decision
from gsched.core.engine import Engine
from gsched.core.instruction import Instruction, TerminateAttempt
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import replay
from gsched.model.config import ClusterConfig, Locations, Params
from gsched.model.event import AnyEvent, JobDispatched, decode_event, encode_event
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, HostConfig, LoadReport
from gsched.model.hosts.resource import GPU_COUNTERS, Resource, ResourceType
from gsched.model.jobs.job import AttemptResult, JobSpec, JobState
from gsched.model.jobs.reason import PendingReason
from gsched.model.queues.queue import Queue
from gsched.model.views.room_view import ReservationView
from gsched.model.views.view import JobFilter

EXCLUSIVE = ComputeMode.EXCLUSIVE_PROCESS
SHARED = ComputeMode.DEFAULT
START = 1_000_000.0
LOCATIONS = Locations(conf_dir="/c", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")
COUNTERS = {name: Resource(name=name, interval_s=5, consumable=name != "ngpuprohibited") for name in GPU_COUNTERS}
OTHERS = {
    "licence": Resource(name="licence", consumable=True, source="lsf.shared:9"),
    "bigmem": Resource(name="bigmem", type=ResourceType.BOOLEAN),
    "site": Resource(name="site", type=ResourceType.STRING),
    "heat": Resource(name="heat", interval_s=30, increasing=True, source="lsf.shared:12"),
    "seats": Resource(name="seats", interval_s=30, consumable=True),
}

JOB_COMMANDS: dict[str, type[JobCommand]] = {
    "kill": KillJobs,
    "signal": SignalJobs,
    "stop": StopJobs,
    "resume": ResumeJobs,
    "requeue": RequeueJobs,
    "release": ReleaseSlots,
    "request": RequestSlots,
    "top": MoveJobsToTop,
    "bottom": MoveJobsToBottom,
    "exchange": ExchangeJobs,
    "run": RunJobs,
    "post": PostToJobs,
}


def job_command(
    action: str, user: str, *ids: int, wanted: JobFilter | None = None, is_admin: bool | None = None, **options: Any
) -> JobCommand:
    """The command of that name; root is an administrator."""
    return JOB_COMMANDS[action](user, user == "root" if is_admin is None else is_admin, ids, wanted, **options)


def make_config(
    hosts: Iterable[HostConfig | str] = ("a",),
    queues: Iterable[Queue] = (Queue(name="normal", priority=30),),
    **changes: Any,
) -> ClusterConfig:
    """A cluster in which every host has all GPU counters."""
    found = [HostConfig(name=host, max_slots=16) if isinstance(host, str) else host for host in hosts]
    names = tuple(host.name for host in found)
    params = changes.pop("params", Params())
    values: dict[str, Any] = {
        "mapped": dict.fromkeys((*COUNTERS, "heat", "seats"), names),
        "resources": COUNTERS | OTHERS,
        "administrators": ("root",),
        "digest": "d1",
    }
    return ClusterConfig(
        cluster="test",
        master_host=names[0],
        hosts={host.name: host for host in found},
        queues={queue.name: queue for queue in queues},
        params=params,
        locations=LOCATIONS,
        **(values | changes),
    )


def gpus(count: int, mode: ComputeMode | None = EXCLUSIVE, host: str = "a", **changes: Any) -> GpuReport:
    """`count` GPUs that are all in one mode."""
    found = [Gpu(uuid=f"GPU-{host}{i}", index=i, mode=mode, pci_bus_id=f"0:{i}", **changes) for i in range(count)]
    return GpuReport(gpus=tuple(found), provider="simulated")


def load(ncpus: int = 16, external: dict[str, float | str] | None = None, **indices: float) -> LoadReport:
    """A load report; indices that are not named are those of an idle host."""
    idle = {"r15s": 0.0, "r1m": 0.0, "r15m": 0.0, "ut": 0.0, "pg": 0.0, "io": 0.0, "ls": 1.0, "it": 9.0}
    room = {"tmp": 50_000.0, "swp": 4_000.0, "mem": 100_000.0}
    return LoadReport(
        indices=idle | room | indices, external=external or {}, ncpus=ncpus, maxmem_mib=128_000.0, maxswp_mib=8_000.0
    )


def spec(command: str = "run", **changes: Any) -> JobSpec:
    return JobSpec(**({"command": command, "user": "", "queue": ""} | changes))


def gpu_spec(count: int = 1, claim: str = "ngpus_excl_p", **changes: Any) -> JobSpec:
    return spec(**({"res_req": f"select[ngpus>0] rusage[{claim}={count}]"} | changes))


def told(reason: PendingReason) -> str:
    """A reason as a line: text, hosts, numbers."""
    hosts = f": {reason.hosts} host{'s' if reason.hosts > 1 else ''}" if reason.hosts else ""
    return sentence(reason.text) + hosts + (f" ({sentence(reason.detail)})" if reason.detail else "")


class World:
    """An engine with a clock and everything that came out of it. Each step is audited."""

    def __init__(self, config: ClusterConfig | None = None, *, connect: bool = True, devices: int = 4) -> None:
        self.config = config or make_config()
        self.now = START
        self.events: list[AnyEvent] = []
        self.instructions: list[Instruction] = []
        self.dropped: list[str] = []
        self.session = 0
        self.engine = Engine(replay([]), self.config, self.now)
        if connect:
            for host in self.config.hosts:
                self.connect(host, gpus(devices, host=host))

    # -- steps ----------------------------------------------------------------------------------------------------

    def do(self, command: Any) -> Any:
        """Handle the command; its reply."""
        return self.take(self.engine.handle(command, self.now)).reply

    def cycle(self, **options: Any) -> Decision:
        return self.take(self.engine.cycle(self.now, **options))

    def settle(self) -> None:
        """Cycles until none is wanted."""
        for _ in range(1000):
            if not self.engine.cycles.needs_cycle:
                return
            self.cycle()
            assert self.engine.cycles.failure is None, self.engine.cycles.failure
        raise AssertionError("the engine wants cycles for ever")

    def wait(self, seconds: float) -> Decision:
        """Let time pass, then tick."""
        self.now += seconds
        return self.take(self.engine.tick(self.now))

    def restart(self) -> None:
        """The master comes back with what is stored; agents are not connected."""
        stored = [decode_event(encode_event(event)) for event in self.events]
        self.engine = Engine(replay(stored), self.engine.config, self.now)

    def take(self, decision: Decision) -> Decision:
        """Note what came out of it."""
        self.events += decision.events
        self.instructions += decision.instructions
        self.dropped += decision.dropped
        assert self.engine.audit() == []
        return decision

    # -- people ---------------------------------------------------------------------------------------------------

    def submit(self, *specs: JobSpec, user: str = "ann", token: str = "") -> list[int]:
        return [done.job_id for done in self.do(Submit(user, token, specs or (spec(),)))]

    def run(self, *specs: JobSpec, user: str = "ann") -> list[int]:
        """Submit and start, elements of arrays too."""
        ids = self.submit(*specs, user=user)
        self.settle()
        for job_id in sorted(self.engine.state.jobs):
            if array_of(job_id) in ids and self.job(job_id).state is JobState.RUN:
                self.started(job_id)
        return ids

    def control(self, action: str, *ids: int, user: str = "ann", signal: int = 0, **wanted: Any) -> list[str]:
        options = {"signal": signal} if action == "signal" else {}
        command = job_command(action, user, *ids, wanted=JobFilter(**wanted) if wanted else None, **options)
        return [result.error for result in self.do(command)]

    def order(self, action: str, *ids: int, user: str = "ann", **options: Any) -> list[str]:
        """A control with options of its own (position, hosts, hold, states): the jobs' errors."""
        return [result.error for result in self.do(job_command(action, user, *ids, **options))]

    def queues(self, action: str, *names: str, user: str = "root", comment: str = "") -> list[str]:
        return [answer.text for answer in self.do(ControlQueues(user, user == "root", action, names, comment))]

    def groups(self, action: str, *names: str, user: str = "ann", job_limit: int = -1) -> list[str]:
        """What is wrong with each, empty where nothing is."""
        return [each.error for each in self.do(ControlGroups(user, user == "root", action, names, job_limit))]

    def reserve(self, action: str = "add", user: str = "root", name: str = "", **options: Any) -> str:
        """The name of the reservation. Fields of the view and of the command alike."""
        fields = {each: options.pop(each) for each in ("users", "start", "end") if each in options}
        on = {f"{each}s": options.pop(f"{each}s_on") for each in ("slot", "gpu") if f"{each}s_on" in options}
        view = ReservationView(name=name, **fields, **on)
        return str(self.do(ControlReservations(user, user == "root", action, view, **options))[0].name)

    def modify(self, *ids: int, user: str = "ann", **fields: Any) -> list[str]:
        """gmod: the jobs' errors, empty where it worked."""
        command = ModifyJobs(user, user == "root", ids, spec(**fields), tuple(fields))
        return [result.error for result in self.do(command)]

    def with_params(self, **changes: Any) -> ClusterConfig:
        """The configuration with other parameters."""
        return msgspec.structs.replace(self.config, params=msgspec.structs.replace(self.config.params, **changes))

    def with_queue(self, name: str = "normal", **changes: Any) -> ClusterConfig:
        """The configuration with another queue of that name."""
        queue = msgspec.structs.replace(self.config.queues[name], **changes)
        return msgspec.structs.replace(self.config, queues={**self.config.queues, name: queue})

    def hosts(self, action: str, *names: str, user: str = "root", comment: str = "") -> Any:
        return self.do(ControlHosts(user, user == "root", action, names, comment))

    def reconfigure(self, config: ClusterConfig) -> None:
        self.config = config
        self.do(Reconfigure("root", config))

    # -- agents ---------------------------------------------------------------------------------------------------

    def hello(self, host: str = "a", held: Iterable[tuple[int, int]] = (), boot_id: str = "boot1", **more: Any) -> None:
        self.session += 1
        sent = more.pop("signalled", {})
        parts = tuple(
            HeldAttempt(job_id, attempt, self.part(job_id, host), signalled=sent.get((job_id, attempt), 0))
            for job_id, attempt in held
        )
        self.do(HostHello(host, self.session, boot_id, "1", parts, **more))

    def part(self, job_id: int, host: str) -> Any:
        """What the job was given on the host, by the newest record of it there; else by the newest at all."""
        allocations = [
            event.allocation for event in self.events if isinstance(event, JobDispatched) and event.job_id == job_id
        ]
        there = [part for allocation in allocations for part in allocation.hosts if part.host == host]
        return (there or allocations[-1].hosts)[-1]

    def report(self, host: str = "a", **what: Any) -> None:
        session = self.engine.observations.of(host).session
        self.do(HostReported(host, session, **what))

    def connect(self, host: str = "a", devices: GpuReport | None = None, **hello: Any) -> None:
        """Hello, and everything that an agent tells after it."""
        self.hello(host, **hello)
        self.report(host, load=load(), gpus=devices if devices is not None else gpus(4, host=host))

    def disconnect(self, host: str = "a") -> None:
        self.do(HostDisconnected(host, self.engine.observations.of(host).session))

    def started(self, job_id: int, **changes: Any) -> None:
        job = self.job(job_id)
        assert job.allocation is not None
        for part in job.allocation.hosts[1:]:
            if job.started_at is None:
                self.part_started(job_id, part.host)
        values: dict[str, Any] = {"pid": 100 + job_id, "at": self.now, "boot_id": "boot1", "home": "/h", "cwd": "/w"}
        self.do(AttemptStarted(job_id, job.attempt, job.allocation.first_host, **(values | changes)))

    def part_started(self, job_id: int, host: str) -> None:
        """The agent of another host than the first says that the job's part there is open."""
        self.do(AttemptStarted(job_id, self.job(job_id).attempt, host, 1, self.now))

    def part_ended(self, job_id: int, host: str, attempt: int = 1, **result: Any) -> None:
        values: dict[str, Any] = {"exit_code": 0, "ended_at": self.now}
        self.do(AttemptEnded(job_id, attempt, host, AttemptResult(**(values | result)), is_part=True))

    def ended(self, job_id: int, attempt: int = 1, host: str = "a", leaves_parts: bool = False, **result: Any) -> None:
        """It ends on its first host, and its parts on others when they are told to, unless they are left there."""
        values: dict[str, Any] = {"exit_code": 0, "ended_at": self.now}
        since = len(self.instructions)
        self.do(AttemptEnded(job_id, attempt, host, AttemptResult(**(values | result))))
        for order in () if leaves_parts else self.instructions[since:]:
            if isinstance(order, TerminateAttempt) and order.given_up:
                self.part_ended(job_id, order.host, attempt)

    def not_started(self, job_id: int, attempt: int = 1, host: str = "a", problem: str = "fork failed") -> None:
        self.ended(job_id, attempt, host, exit_code=None, started=False, problem=problem)

    # -- looking --------------------------------------------------------------------------------------------------

    def job(self, job_id: int) -> JobRecord:
        return self.engine.state.jobs[job_id]

    def reasons(self, job_id: int) -> tuple[str, ...]:
        """The pending reasons as lines."""
        return tuple(told(reason) for reason in self.engine.pending_reasons(job_id))

    def state(self, job_id: int) -> str:
        return self.job(job_id).state.value

    def held(self, job_id: int) -> list[int]:
        """Indices of the job's GPUs."""
        allocation = self.job(job_id).allocation
        return [gpu.index for part in allocation.hosts for gpu in part.gpus] if allocation else []

    def kinds(self, job_id: int) -> list[str]:
        """Kinds of the job's events, in order."""
        return [type(event).__name__ for event in self.events if getattr(event, "job_id", None) == job_id]

    def orders(self, since: int = 0) -> list[Instruction]:
        """Instructions, without those that tell of parameters and of what may be forgotten."""
        dull = ("ConfigureAgent", "ForgetAttempts")
        return [each for each in self.instructions[since:] if type(each).__name__ not in dull]

    def check_replay(self) -> None:
        """The events alone give the same state, however much of them is in a checkpoint."""
        dump = self.engine.state.dump()
        stored = [decode_event(encode_event(event)) for event in self.events]
        assert msgspec.json.decode(replay(stored).dump()) == msgspec.json.decode(dump)
        half = len(stored) // 2
        checkpoint = type(self.engine.state).load(replay(stored[:half]).dump())
        assert msgspec.json.decode(replay(stored[half:], checkpoint).dump()) == msgspec.json.decode(dump)


def total(world: World, host: str = "a", name: str = "ngpus_excl_p") -> tuple[float, float]:
    """What is left of a GPU counter of a host, and what is reserved."""
    counter = world.engine.state.ledger.host(host).counter(name)
    assert counter is not None
    return counter.total, counter.reserved


def first_words(errors: Iterable[str]) -> list[str]:
    """What is said before who may."""
    return [error.partition(": for ")[0] for error in errors]
