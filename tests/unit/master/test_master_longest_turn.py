"""No request keeps the engine from others for long: each call is asked with the largest message that is let through,
and what the engine does at one go is counted in calls of functions, which are the same on every machine.

How long that is in milliseconds bench/pauses.py measures.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import msgspec
import pytest
from test_master_loop import FakeStore

from gsched.base.clock import SystemClock
from gsched.base.errors import BadRequest, GschedError
from gsched.base.ids import element_id, parse_attempt_name
from gsched.core.command import HostHello, HostReported, Submit
from gsched.core.control.job_control import MOST_TEXT
from gsched.core.engine import Engine
from gsched.core.resources.observed_hosts import UnrecordedAttempt
from gsched.core.state.cluster_state import ClusterState
from gsched.master.access.method_policy import RULES, Who
from gsched.master.access.request_sizes import LISTS, MOST_LISTED, MOST_NAMED, check_sizes
from gsched.master.engine_thread import EngineLoop, InboxItem
from gsched.master.rpc.administration_service import AdministrationServicer
from gsched.master.rpc.scheduler_service import SchedulerServicer, ServiceContext
from gsched.master.views import listing_order
from gsched.master.views.board import Board
from gsched.model.config import ClusterConfig, Locations
from gsched.model.hosts.host import GpuReport, HostConfig, LoadReport
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue
from gsched.model.views.view import JobFilter, JobView, Submission
from gsched.wire.identity.caller_identity import Proven, ProvenCaller
from gsched.wire.messages.batch_codec import add_submissions
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import model_pb2, scheduler_pb2

JOBS = 3_000
KINDS = 1_000
LOST = 1 << 20
"""The first number of attempts that lie on the host without a record."""
MOST_CALLS = 250_000
"""Calls of functions, Python's own among them, in one turn of the engine: a quarter of a microsecond each."""
ENGINE_IS_NOT_ASKED = frozenset(
    {f"Scheduler.{name}" for name in ("Jobs", "Hosts", "Queues", "Cluster", "History", "Events", "Output", "Texts")}
    | {f"Administration.{name}" for name in ("Groups", "Reservations", "Limits", "Guarantees", "Arrays", "Pending")}
    | {"Administration.Fragmentation"}
    | {
        method
        for method in RULES
        if method.split(".")[0] in ("Catalogue", "Waiting", "Fleet", "Terminal", "Past", "JobServices", "JobTables")
    }
    | {"Scheduler.Attachment", "Scheduler.Reconfigure", "Administration.SlotSums", "Administration.Metrics"}
    | {"Administration.RemoveArchived"}
)
"""What is answered from the board, the store or by agents; a configuration is checked beside the engine, and what an
archive has is taken out of the store in slices."""
IN_PARTS = {"Scheduler.SubmitInParts", "Scheduler.ControlInParts", "Administration.ModifyInParts"}
"""They put the commands into the inbox that Submit, Control and Modify do."""


class Ann(Proven):
    """Everybody is an administrator called ann: what she may do is the most."""

    def caller(self, context: Any) -> ProvenCaller:
        return ProvenCaller("ann", True, "", "owner")

    async def again(self, context: Any) -> None:
        pass


class AnyAccount:
    """Jobs may run as anybody."""

    async def check(self, user: str) -> None:
        pass


class Counted:
    """An engine loop whose turns are counted while something is asked of it."""

    def __init__(self, hosts: tuple[str, ...] = ("a",)) -> None:
        places = Locations(conf_dir="", state_dir="", log_dir="", server_dir="", run_dir="", spool_dir="")
        self.config = ClusterConfig(
            cluster="c",
            master_host="a",
            hosts={host: HostConfig(name=host, max_slots=4) for host in hosts},
            queues={name: Queue(name=name, priority=30) for name in ("normal", "night")},
            locations=places,
        )
        clock = SystemClock()
        store: Any = FakeStore()
        store.shortage = lambda: ""
        self.engine, self.board = Engine(ClusterState(), self.config, clock.now()), Board(self.config)
        self.loop = EngineLoop(
            self.engine, store, self.board, clock, deliver=lambda *_: None, fatal=lambda text: self.faults.append(text)
        )
        self.faults: list[str] = []
        self.services = ServiceContext(self.loop, self.board, store, Ann())
        self.turns: list[int] = []
        self._is_counting, self._calls = False, 0
        take = self.loop._take

        def count(frame: FrameType, event: str, argument: object) -> None:
            self._calls += event in ("call", "c_call")

        def turn(wake_at: float) -> list[InboxItem]:
            self.turns.append(self._calls)
            items = take(wake_at)
            self._calls = 0
            sys.setprofile(count if self._is_counting else None)
            return items

        self.loop._take = turn  # type: ignore[method-assign]
        self.loop.start()

    def connect(self, host: str = "a") -> None:
        """The host reports, and takes jobs from now on."""
        values: dict[str, float | None] = {"r15s": 0.1, "r1m": 0.1, "r15m": 0.1, "ut": 0.1, "pg": 0.0, "ls": 0.0}
        values |= {"it": 0.0, "tmp": 9_000.0, "swp": 9_000.0, "mem": 9_000.0}
        load = LoadReport(indices=values, ncpus=4, maxmem_mib=10_000.0)
        answered = threading.Event()
        self.loop.put(InboxItem(HostHello(host, 1, "boot", "1"), lambda answer, error: answered.set()))
        self.loop.put(InboxItem(HostReported(host, 1, load, GpuReport()), None))
        assert answered.wait(120)

    def submit(self, specs: list[JobSpec]) -> None:
        answered = threading.Event()
        self.loop.put(InboxItem(Submit("ann", "", tuple(specs)), lambda answer, error: answered.set()))
        assert answered.wait(120)

    def rest(self) -> None:
        """Until no cycle is due."""
        deadline = time.monotonic() + 120
        while self.engine.cycles.needs_cycle or self.engine.unsettled:
            assert time.monotonic() < deadline
            self.loop.has_turned()
            time.sleep(0.001)

    async def ask(self, method: str, request: Any) -> int:
        """The largest turn while that is answered, in calls."""
        check_sizes(request)
        service, _, name = method.partition(".")
        services: Any = self.services
        servicer: Any = object.__new__(SchedulerServicer)  # without sessions, history and feed: they are not asked
        servicer._services, servicer._auth, servicer._job_accounts = services, services.auth, AnyAccount()
        if service == "Administration":
            servicer = AdministrationServicer(services)
        self.turns.clear()
        self._is_counting = True
        try:
            await getattr(servicer, name).__wrapped__(servicer, request, None)
        except GschedError as error:
            assert "\n" not in error.text
        finally:
            counted, self._is_counting = len(self.turns), True
            while len(self.turns) < counted + 2 or self.engine.unsettled or self.engine.cycles.needs_cycle:
                self.loop.has_turned()  # has it go round once more
                await asyncio.sleep(0.001)
            self._is_counting = False
        assert not self.faults
        return max(self.turns, default=0)


@pytest.fixture(scope="module")
def crowded() -> Iterator[Counted]:
    made = Counted()
    one = JobSpec(command="run", user="", queue="")
    for start in range(0, JOBS, 500):
        kinds = [
            msgspec.structs.replace(one, name=f"sweep-{number}", res_req=f"rusage[mem={1 + number % 20}]")
            for number in range(start, start + 500)
        ]
        made.submit(kinds)
    made.submit([msgspec.structs.replace(one, name="array", indices="1-100000")])
    made.submit([msgspec.structs.replace(one, name="same", command="a" * 4000)] * 500)
    made.submit([msgspec.structs.replace(one, command="a" * 4094)] * 500)
    made.submit([msgspec.structs.replace(one, name=f"{number:03d}" + "a" * 4091) for number in range(500)])
    yield made
    made.loop.stop(60)


NUMBERS = [*range(1, JOBS + 1), *range(10**6, 10**6 + MOST_LISTED - JOBS)]
LONG_PATTERN = "*a?" * 1365
ORPHANS = [f"{number}.1" for number in range(LOST, LOST + MOST_NAMED)]
STEP_BY_STEP = "*" + "?a" * 2000 + "b*"
"""A pattern that is held against each character of a name."""
NAMES = [f"{number:0250d}" for number in range(MOST_NAMED)]


def control(action: str, **changes: Any) -> tuple[str, Any]:
    request = scheduler_pb2.ControlRequest(action=action, **changes)
    if not request.job_ids:
        request.filter.SetInParent()
    return "Scheduler.Control", request


def submission(**changes: Any) -> tuple[str, Any]:
    request, spec = scheduler_pb2.SubmitRequest(), JobSpec(**{"command": "run", "user": "", "queue": ""} | changes)
    add_submissions(request, [Submission(spec=spec)])
    return "Scheduler.Submit", request


def forecast(**changes: Any) -> Any:
    request = pb.ForecastRequest()
    fill(request.spec, JobSpec(**{"command": "run", "user": "", "queue": ""} | changes))
    return request


def many_jobs() -> tuple[str, Any]:
    request = scheduler_pb2.SubmitRequest(token="t")
    specs = [JobSpec(command=f"run {number}", user="", queue="") for number in range(2_000)]
    add_submissions(request, [Submission(spec=spec) for spec in specs])
    return "Scheduler.Submit", request


def modification(**changes: Any) -> tuple[str, Any]:
    request = scheduler_pb2.ModifyRequest(fields=list(changes))
    fill(request.spec, JobSpec(**{"command": "", "user": "", "queue": ""} | changes))
    request.filter.SetInParent()
    return "Administration.Modify", request


def of(method: str, request: Any) -> tuple[str, Any]:
    return method, request


pb = scheduler_pb2
LARGEST: dict[str, Callable[[], tuple[str, Any]]] = {
    "one name very often": lambda: submission(dependency="&&".join(["sweep-77"] * 400)),
    "many names": lambda: submission(dependency="&&".join(f"sweep-{number}" for number in range(1000, 1340))),
    "many patterns": lambda: submission(dependency="&&".join(f"s*{number}" for number in range(600))),
    "a pattern of many jobs": lambda: submission(dependency="ended(sweep*)"),
    "many numbers": lambda: submission(dependency="||".join(f"done({number})" for number in range(1, 340))),
    "many hosts": lambda: submission(hosts=("a",) * 10_000),
    "a long command": lambda: submission(command="x" * (1 << 20)),
    "a long requirement": lambda: submission(res_req="select[" + "||".join(["mem>1"] * 9000) + "]"),
    "a large array": lambda: submission(name="large", indices="1-100000"),
    "many jobs": many_jobs,
    "a long pattern": lambda: control("stop", filter={"name": LONG_PATTERN}),
    "a long pattern over long names": lambda: control("stop", filter={"name": STEP_BY_STEP}),
    "many pieces over long names": lambda: control("stop", filter={"name": "*a" * 2047}),
    "many pieces in a condition": lambda: submission(dependency=f"ended({'*a' * 2047})"),
    "stop all": lambda: control("stop"),
    "resume all": lambda: control("resume"),
    "stop by number": lambda: control("stop", job_ids=NUMBERS),
    "move": lambda: control("top", job_ids=NUMBERS[:JOBS]),
    "move far": lambda: control("bottom", job_ids=[5], position=2_000_000),
    "post": lambda: control("post", job_ids=NUMBERS[:JOBS], text="x" * MOST_TEXT),
    "run": lambda: control("run", job_ids=NUMBERS, hosts=["a"] * MOST_NAMED),
    "modify all": lambda: modification(run_limit_s=60),
    "switch all": lambda: modification(queue="night"),
    "a condition": lambda: of("Administration.Condition", pb.ConditionRequest(text="&&".join(["array"] * 500))),
    "a forecast": lambda: of("Administration.Forecast", forecast(hosts=("a",) * 10_000)),
    "a dry run": lambda: of("Administration.DryRun", forecast(hosts=("a",) * 10_000)),
    "an explanation": lambda: of("Administration.Explain", pb.ExplainRequest(job_id=NUMBERS[5])),
    "a comparison": lambda: of(
        "Administration.WhyNot", pb.WhyNotRequest(job_id=NUMBERS[5], other_id=NUMBERS[JOBS - 1])
    ),
    "close queues": lambda: of("Administration.QueueControl", pb.QueueControlRequest(action="close", queues=NAMES)),
    "make groups": lambda: of(
        "Administration.GroupControl",
        pb.GroupControlRequest(
            action="add", groups=[f"/g{number}" for number in range(LISTS["GroupControlRequest.groups"])]
        ),
    ),
    "close hosts": lambda: of("Scheduler.HostControl", pb.HostControlRequest(action="close", hosts=["a"] * MOST_NAMED)),
    "close GPUs": lambda: of(
        "Administration.GpuControl",
        pb.GpuControlRequest(action="close", gpus=["a:0"] * LISTS["GpuControlRequest.gpus"]),
    ),
    "reserve": lambda: of(
        "Administration.ReservationControl", pb.ReservationControlRequest(action="add", hosts=NAMES, slots=1)
    ),
    "end orphans": lambda: of("Administration.EndOrphans", pb.EndOrphansRequest(names=ORPHANS)),
    "requeue all": lambda: control("requeue"),
    "kill all": lambda: control("kill"),
}


COUNTED_LONG = (
    *("modify all", "switch all", "a long pattern", "many pieces over long names", "stop by number"),
    *("move", "run", "a long pattern over long names", "stop all", "resume all"),
)
"""Those whose calls take seconds to count."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in COUNTED_LONG else name for name in LARGEST]
)
def test_no_request_keeps_the_engine_for_long(crowded: Counted, name: str) -> None:
    method, request = LARGEST[name]()
    if method == "Administration.EndOrphans":
        crowded.engine.observations.of("a").unrecorded.update(
            dict.fromkeys(map(parse_attempt_name, ORPHANS), UnrecordedAttempt(None))
        )
    most = asyncio.run(crowded.ask(method, request))
    print(f"{name}: {most} calls at one go")
    assert 0 < most < MOST_CALLS, f"{name}: {most} calls at one go"


def test_what_is_listed_of_arrays_is_not_gone_through_in_the_loop_that_serves_everybody(
    crowded: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number may stand for a hundred thousand elements, each of which is held against a name."""
    threads: list[int] = []
    jobs = Board.jobs

    def looked_through(board: Board, wanted: JobFilter) -> Iterator[JobView]:
        threads.append(threading.get_ident())
        return jobs(board, wanted)

    monkeypatch.setattr(Board, "jobs", looked_through)
    servicer: Any = object.__new__(SchedulerServicer)
    servicer._board = crowded.board

    async def listed(**wanted: Any) -> int:
        request = model_pb2.JobFilter(**wanted)
        replies = [reply async for reply in SchedulerServicer.Jobs.__wrapped__(servicer, request, None)]
        return sum(len(reply.jobs) for reply in replies)

    array = max(crowded.board._arrays)
    assert asyncio.run(listed(ids=[1])) == 1
    assert threads.pop() == threading.get_ident(), "one job is told at once"
    assert asyncio.run(listed(ids=[array], name="other")) == 0
    assert asyncio.run(listed(ids=[element_id(array, 7)])) == 1
    assert asyncio.run(listed(ids=[1], name=LONG_PATTERN)) == 0
    monkeypatch.setattr(listing_order, "MOST_LOOKS", 500 * 4094)
    with pytest.raises(BadRequest, match=r"^\*\?a\?a.*: such a pattern would be held against too many long names$"):
        asyncio.run(listed(name=STEP_BY_STEP, user="all"))
    assert len(threads) == 4 and threading.get_ident() not in threads


def test_every_call_that_asks_the_engine_is_among_them() -> None:
    asked = {make()[0] for make in LARGEST.values()}
    assert {
        method for method, rule in RULES.items() if rule.who is not Who.AGENT
    } - ENGINE_IS_NOT_ASKED == asked | IN_PARTS


@pytest.mark.slow
def test_a_cycle_over_many_new_kinds_of_jobs_does_not_either() -> None:
    """Each of them wants something else, which a cycle looks at for the first time; one of the hosts takes jobs."""
    made = Counted()
    made.connect()
    request = scheduler_pb2.SubmitRequest(token="kinds")
    specs = [
        JobSpec(command="run", user="", queue="", res_req=f"select[mem>{number}] rusage[mem={500 + number}]")
        for number in range(KINDS)
    ]
    add_submissions(request, [Submission(spec=spec) for spec in specs])
    most = asyncio.run(made.ask("Scheduler.Submit", request))
    made.loop.stop(60)
    print(f"many kinds: {most} calls at one go, {sum(made.turns)} in all")
    assert sum(made.turns) > 3 * MOST_CALLS
    assert 0 < most < MOST_CALLS


@pytest.mark.slow
def test_a_plan_for_a_job_that_is_asked_about_does_not_either() -> None:
    """A hundred kinds wait on a thousand hosts, and the job names GPUs that no other job has asked about."""
    hosts = tuple(f"h{number:04d}" for number in range(1_000))
    made = Counted(("a", *hosts))
    for host in hosts:
        made.connect(host)
    made.submit(
        [JobSpec(command="run", user="", queue="", res_req=f"rusage[mem={20_000 + number}]") for number in range(99)]
    )
    made.rest()
    request = pb.ForecastRequest()
    fill(request.spec, JobSpec(command="run", user="", queue="", res_req="select[gpu_mtotal0>1 && mem>5]"))
    most = asyncio.run(made.ask("Administration.Forecast", request))
    made.loop.stop(60)
    turns = sum(calls > 1_000 for calls in made.turns)
    print(f"a plan: {most} calls at one go, {turns} turns")
    assert turns > 2
    assert 0 < most < MOST_CALLS
