"""The engine's thread and its store: what a full disk and a doubtful commit do. The store fails when it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from gsched.base.clock import SystemClock
from gsched.base.errors import Conflict, GschedError, Internal, ResourceExhausted
from gsched.base.ids import element_id
from gsched.core.command import (
    AttemptEnded,
    AttemptStarted,
    ControlHosts,
    HostDisconnected,
    HostHello,
    HostReported,
    KillJobs,
    ModifyJobs,
    StopJobs,
    Submit,
)
from gsched.core.engine import Engine
from gsched.core.resources.host_entries import unpack_entries
from gsched.core.scheduling_cycles import Schedule
from gsched.core.state.cluster_state import ClusterState, replay
from gsched.master.engine_thread import EngineLoop, InboxItem
from gsched.master.views.board import Board
from gsched.model.config import ClusterConfig, Locations
from gsched.model.event import JobDispatched, JobFinished, JobSubmitted
from gsched.model.hosts.host import GpuReport, HostConfig, LoadReport
from gsched.model.jobs.job import AttemptResult, JobSpec
from gsched.model.queues.queue import Queue
from gsched.model.views.start_estimate import StartEstimate
from gsched.model.views.view import JobFilter
from gsched.policy.cycle import schedule_in_turns
from gsched.store.safeguards.failure import StoreBroken, StoreFull
from gsched.store.tables.schema import HostRecordRow


class FakeStore:
    """Keeps batches in memory; fails as long as `failure` is set. `changed` is told of checkpoints."""

    def __init__(self, changed: threading.Condition | None = None) -> None:
        self.changed = changed or threading.Condition()
        self.failure: GschedError | None = None
        self.is_promised = self.has_unpacked = self.is_last = False
        self.last_checkpoints: list[int] = []
        self.batches: list[list[Any]] = []
        self.parts: list[bytes] = []
        self.estimates: list[StartEstimate] = []
        self.host_rows: list[tuple[int, list[HostRecordRow]]] = []
        """With how many batches there were by then."""
        self.checkpoints: list[tuple[int, bytes]] = []
        self.tries = 0
        self.last_seq = 0
        self.tried = threading.Condition()

    def append(
        self,
        events: Any,
        rows: Any,
        blobs: Any,
        next_job_id: int = 1,
        hosts: Any = (),
        estimates: Any = (),
        dropped: Any = (),
    ) -> int:
        with self.tried:
            self.tries += 1
            self.tried.notify_all()
        if self.failure is not None:
            raise self.failure
        self.batches.append(list(events))
        self.host_rows.append((len(self.batches), [*hosts]))
        self.estimates += estimates
        self.last_seq += len(events)
        return self.last_seq

    def add_hosts(self, hosts: Any, estimates: Any = ()) -> None:
        with self.changed:
            if self.failure is not None:
                raise self.failure
            self.host_rows.append((len(self.batches), [*hosts]))
            self.estimates += estimates
            self.changed.notify_all()

    def drop_hosts(self, before: float, most: int) -> bool:
        return False

    def drop_estimates(self, before: float, most: int) -> bool:
        return False

    def put_part(self, data: bytes) -> str:
        self.parts.append(data)
        return str(len(self.parts) - 1)

    def put_parts(self, parts: Iterable[bytes]) -> list[str]:
        """Of the last checkpoint: nobody waits any more."""
        self.is_last = True
        return [self.put_part(each) for each in parts]

    def save_checkpoint_of(self, seq: int, names: list[str]) -> None:
        if self.is_last:
            self.last_checkpoints.append(seq)
            return
        with self.changed:
            self.checkpoints.append((seq, b"".join(self.parts[int(name)] for name in names)))
            self.changed.notify_all()

    def drop_parts(self, most: int) -> bool:
        return False

    def wait_for_tries(self, count: int) -> None:
        with self.tried:
            assert self.tried.wait_for(lambda: self.tries >= count, 60)


class Master:
    """An engine loop and everything that leaves it."""

    def __init__(self, state: ClusterState | None = None, schedule: Schedule = schedule_in_turns) -> None:
        config = ClusterConfig(
            cluster="c",
            master_host="a",
            hosts={"a": HostConfig(name="a", max_slots=4)},
            queues={"normal": Queue(name="normal", priority=30)},
            locations=Locations(conf_dir="", state_dir="", log_dir="", server_dir="", run_dir="", spool_dir=""),
        )
        clock = SystemClock()
        self.changed = threading.Condition()
        self.store = FakeStore(self.changed)
        self.board = Board(config)
        self.delivered: list[Any] = []
        self.fatal: list[str] = []
        self.answers: dict[str, Any] = {}
        self.engine = Engine(state or ClusterState(), config, clock.now(), schedule=schedule)
        self.loop = EngineLoop(
            self.engine,
            self.store,  # type: ignore[arg-type]
            self.board,
            clock,
            deliver=self._deliver,
            fatal=self._fatal,
        )
        self.loop.start()

    def ask(self, name: str, command: Any) -> None:
        def reply(answer: Any, error: GschedError | None) -> None:
            self._note(lambda: self.answers.update({name: error or answer}))

        self.loop.put(InboxItem(command, reply))

    def submit(self, name: str) -> None:
        self.ask(name, Submit("u", "", (JobSpec(command=name, user="", queue=""),)))

    def kinds(self, kind: type) -> int:
        """How many events of the kind have been delivered."""
        return sum(isinstance(event, kind) for event in self.delivered)

    def until(self, is_true: Callable[[], object]) -> None:
        with self.changed:
            assert self.changed.wait_for(is_true, 60)

    def _deliver(self, last_seq: int, events: Any, instructions: Any) -> None:
        self._note(lambda: self.delivered.extend(events))

    def _fatal(self, text: str) -> None:
        self._note(lambda: self.fatal.append(text))

    def _note(self, change: Callable[[], object]) -> None:
        with self.changed:
            change()
            self.changed.notify_all()


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Iterator[Master]:
    monkeypatch.setattr("gsched.master.engine_thread.RETRY_FULL_S", 0.02)
    made = Master()
    yield made
    made.loop.stop()


def test_nothing_leaves_before_it_is_stored(master: Master) -> None:
    master.store.failure = StoreFull("no room")
    master.submit("first")
    master.store.wait_for_tries(3)
    assert not master.answers
    assert not master.delivered
    assert master.board.job(1) is None
    master.store.failure = None
    master.until(lambda: "first" in master.answers)
    assert master.answers["first"][0].job_id == 1
    assert master.board.job(1) is not None


def entries(master: Master) -> list[str]:
    """Hosts of which records are stored, in order."""
    return [entry[0] for _, rows in master.store.host_rows for row in rows for entry in unpack_entries(row.data)]


def test_what_is_seen_of_a_host_is_stored_while_nobody_waits(master: Master) -> None:
    master.ask("hello", HostHello("a", 1, "boot", "0"))
    master.until(lambda: entries(master) == ["a"])
    assert "hello" in master.answers
    first, *_ = [row for _, rows in master.store.host_rows for row in rows]
    assert (first.whole, [*unpack_entries(first.data)]) == (1, [])


def test_records_of_hosts_that_do_not_fit_are_stored_later(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    master.until(lambda: master.store.host_rows)
    master.store.failure = StoreFull("no room")
    master.ask("hello", HostHello("a", 1, "boot", "0"))
    master.until(lambda: "hello" in master.answers)
    master.store.failure = None
    master.submit("later")
    master.until(lambda: "later" in master.answers)
    assert entries(master) == ["a"]
    (batches,) = [count for count, rows in master.store.host_rows if any([*unpack_entries(row.data)] for row in rows)]
    assert batches <= 1, "they went with what was stored next"


def test_what_was_said_of_starts_is_stored_while_nobody_waits(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.core.dispatch.start_estimates.GATHER_S", 0.0)
    master.submit("first")
    master.until(lambda: [each.job_id for each in master.store.estimates] == [1])
    master.submit("second")
    master.until(lambda: [each.job_id for each in master.store.estimates] == [1, 2])


def test_what_was_said_is_stored_once_there_is_room_again(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.core.dispatch.start_estimates.GATHER_S", 0.0)
    tried = threading.Event()

    def refuse(hosts: Any, estimates: Any = ()) -> None:
        if estimates:
            tried.set()
            raise StoreFull("no room")

    with monkeypatch.context() as full:
        full.setattr(master.store, "add_hosts", refuse)
        master.submit("first")
        assert tried.wait(60)
    master.submit("second")
    master.until(lambda: {each.job_id for each in master.store.estimates} == {1, 2})
    assert len(master.store.estimates) == 2


def test_garbage_is_collected_when_replies_are_out(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for an answer, or for what a cycle has found, does not wait for the collector as well."""
    seen: list[tuple[int, int]] = []

    def note() -> None:
        master._note(lambda: seen.append((len(master.answers), len(master.store.batches))))

    monkeypatch.setattr("gsched.master.engine_thread.tidy_up", note)
    master.submit("first")
    master.until(lambda: any(batches for _, batches in seen))
    assert all(answers == 1 for answers, batches in seen if batches)


def test_a_full_disk_refuses_people_keeps_reports_and_goes_on_with_the_same_batch(master: Master) -> None:
    master.store.failure = StoreFull("no room")
    master.submit("stuck")
    master.store.wait_for_tries(2)
    master.submit("late")
    master.ask("hclose", ControlHosts("u", True, "close", ("a",)))
    master.ask("hello", HostHello("a", 1, "boot", "0"))
    master.loop.put(InboxItem(AttemptStarted(1, 1, "a", 7, 0.0)))
    master.loop.put(InboxItem(HostDisconnected("a", 1)))
    master.until(lambda: {"late", "hclose"} <= set(master.answers))
    for name in ("late", "hclose"):
        error = master.answers[name]
        assert isinstance(error, ResourceExhausted)
        assert "no room" in error.text
        assert "\n" not in error.text
    assert "no room" in master.loop.problem
    assert "hello" not in master.answers
    master.store.failure = None
    master.until(lambda: {"stuck", "hello"} <= set(master.answers))
    assert master.answers["hello"] is None
    assert master.loop.problem == ""
    stored = [event for batch in master.store.batches for event in batch]
    assert [event.job_id for event in stored if type(event).__name__ == "JobSubmitted"] == [1]
    # Hello before its end: the host is gone again, and the order in which things happened was kept.
    master.submit("again")
    master.until(lambda: "again" in master.answers)
    assert master.board.hosts()[0].status == "unreach"


def test_only_an_unknown_outcome_ends_the_process(master: Master, caplog: pytest.LogCaptureFixture) -> None:
    """One line says why: that another master leads by now is no fault of this one."""
    master.store.failure = StoreBroken("fsync failed")
    master.submit("doubtful")
    master.until(lambda: master.fatal)
    assert master.fatal == ["fsync failed"]
    assert not [record for record in caplog.records if record.name == "gsched.master.engine_thread"]
    assert not master.answers
    assert not master.delivered


def test_a_master_that_is_asked_to_end_does_not_wait_for_room(master: Master) -> None:
    master.store.failure = StoreFull("no room")
    master.submit("stuck")
    master.store.wait_for_tries(2)
    begun = time.monotonic()
    master.loop.stop(300.0)
    assert time.monotonic() - begun < 60
    assert not master.fatal
    assert not master.answers


@pytest.mark.parametrize("is_promised", [False, True])
def test_a_master_that_another_one_waits_for_writes_no_last_checkpoint(master: Master, is_promised: bool) -> None:
    """It would be away for as long as that takes, and who follows needs none."""
    master.submit("one")
    master.until(lambda: "one" in master.answers)
    master.store.is_promised = is_promised
    master.loop.stop(60.0)
    assert master.store.last_checkpoints == ([] if is_promised else [master.store.last_seq])


def test_a_command_that_fails_is_refused_and_the_next_one_carried_out(master: Master) -> None:
    real = master.engine._handlers[ControlHosts]
    master.engine._handlers[ControlHosts] = lambda command, decision: {}["missing"]
    master.ask("fails", ControlHosts("u", True, "close", ("a",)))
    master.until(lambda: "fails" in master.answers)
    assert isinstance(master.answers["fails"], Internal)
    master.engine._handlers[ControlHosts] = real
    master.ask("works", ControlHosts("u", True, "close", ("a",)))
    master.until(lambda: "works" in master.answers)
    assert master.answers["works"] == ["a"]
    assert not master.fatal


@pytest.mark.parametrize("error", [KeyError("missing"), Conflict("refused too late")])
def test_a_command_that_fails_half_way_ends_the_process(master: Master, error: Exception) -> None:
    real = master.engine._handlers[ControlHosts]

    def half(command: Any, decision: Any) -> None:
        real(command, decision)
        raise error

    master.engine._handlers[ControlHosts] = half
    master.ask("half", ControlHosts("u", True, "close", ("a",)))
    master.until(lambda: master.fatal)
    assert "half" not in master.answers
    assert not master.store.batches


def test_a_cycle_that_fails_loses_nothing_and_stops_nobody(master: Master, caplog: pytest.LogCaptureFixture) -> None:
    real = master.engine.cycles._schedule

    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("in the policy")

    master.engine.cycles._schedule = fail
    for name in ("one", "two"):
        master.submit(name)
        master.until(lambda name=name: name in master.answers)
    master.loop.put(InboxItem(HostDisconnected("a", 0)))
    master.submit("three")
    master.until(lambda: "three" in master.answers)
    assert "in the policy" in master.board.summary
    assert sum("in the policy" in record.message for record in caplog.records) == 1
    assert not master.fatal
    master.engine.cycles._schedule = real
    master.submit("four")
    master.until(lambda: "four" in master.answers)
    master.ask("last", ControlHosts("u", True, "close", ("a",)))
    master.until(lambda: "last" in master.answers)
    assert "failed" not in master.board.summary
    assert [master.board.job(job_id) is not None for job_id in (1, 2, 3, 4)] == [True] * 4


def test_reasons_are_renewed_that_do_not_count_what_their_own_cycle_started(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.master.engine_thread.RENEW_REASONS_S", 0.05)
    monkeypatch.setattr("gsched.core.engine.BUSY_TICK_S", 3600.0)
    cycles: list[tuple[float, bool]] = []
    monkeypatch.setattr(master.engine, "cycle", counted(master, cycles))
    master.ask("hello", HostHello("a", 1, "boot", "1"))
    master.ask("load", HostReported("a", 1, LoadReport(ncpus=4), GpuReport()))
    impossible = JobSpec(command="wait", user="", queue="", res_req="select[ut<-1]")
    master.ask("jobs", Submit("u", "", (impossible, JobSpec(command="run", user="", queue=""))))
    master.until(lambda: any(misses for _, misses in cycles) and not cycles[-1][1])
    assert master.engine.cycles.reason_times.last_cycle == cycles[-1][0]


def test_an_end_and_what_starts_in_its_place_are_stored_together(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One commit less between the two; who waits for an answer has it before the cycle, and a cycle that takes long
    holds up no news of an end.
    """
    master.ask("hello", HostHello("a", 1, "boot", "1"))
    master.ask("load", HostReported("a", 1, LoadReport(ncpus=4), GpuReport()))
    whole = JobSpec(command="run", user="", queue="", slots=4)
    master.ask("jobs", Submit("u", "", (whole, whole, whole)))
    for place, short_s in ((1, 60.0), (2, 0.0)):
        master.until(lambda place=place: (master.kinds(JobDispatched), "jobs" in master.answers) == (place, True))
        monkeypatch.setattr("gsched.master.engine_thread.SHORT_CYCLE_S", short_s)
        master.loop.put(InboxItem(AttemptEnded(place, 1, "a", AttemptResult(exit_code=0, ended_at=time.time()))))
    master.until(lambda: master.kinds(JobDispatched) == 3)
    found = [{type(event) for event in batch} for batch in master.store.batches]
    assert [JobDispatched in kinds for kinds in found if JobFinished in kinds] == [True, False]
    assert [JobDispatched in kinds for kinds in found if JobSubmitted in kinds] == [False]


def counted(master: Master, cycles: list[tuple[float, bool]]) -> Callable[..., Any]:
    """The engine's cycle, with a note of each: when it ran, and whether its reasons miss what it started."""
    cycle = master.engine.cycle

    def noted(now: float, **options: Any) -> Any:
        decision = cycle(now, **options)
        with master.changed:
            cycles.append((now, master.engine.cycles.misses_own_starts))
            master.changed.notify_all()
        return decision

    return noted


def test_a_refused_command_changes_nothing_and_stores_nothing(master: Master) -> None:
    master.ask("bad", Submit("u", "", (JobSpec(command="x", user="", queue="nowhere"),)))
    master.until(lambda: "bad" in master.answers)
    assert isinstance(master.answers["bad"], GschedError)
    assert master.store.tries == 0


def test_the_watchdog_learns_of_an_engine_that_hangs(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    def turns() -> bool:
        deadline = time.monotonic() + 60
        while not master.loop.has_turned():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)  # the engine's thread tells nobody that it goes round
        return True

    assert turns() and turns() and turns(), "an idle engine goes round when it is asked"
    hangs, may_go_on = threading.Event(), threading.Event()

    def hang(*_: Any) -> None:
        hangs.set()
        may_go_on.wait(60)

    monkeypatch.setattr(master.board, "publish", hang)
    master.loop.put(InboxItem(HostDisconnected("a", 1)))
    assert hangs.wait(60)
    master.loop.has_turned()  # what it had done before it hung
    assert not master.loop.has_turned()
    assert not master.loop.has_turned()
    may_go_on.set()
    assert turns()


def test_the_lease_learns_of_an_engine_that_hangs(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that rests goes round when it is asked, so that it is not taken for one that hangs."""

    def until(is_true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not is_true():
            assert time.monotonic() < deadline
            time.sleep(0.001)  # the engine's thread tells nobody that it goes round

    loop = master.loop
    hangs, may_go_on, publish = threading.Event(), threading.Event(), master.board.publish
    for _ in range(3):
        rested = loop._turned_at = time.monotonic() - 50.0
        assert loop.is_turning(60.0)
        until(lambda rested=rested: loop._turned_at > rested + 25.0)

    def hang(engine: Engine) -> None:
        hangs.set()
        may_go_on.wait(60)
        publish(engine)

    monkeypatch.setattr(master.board, "publish", hang)
    loop.put(InboxItem(HostDisconnected("a", 1)))
    assert hangs.wait(60)
    until(lambda: not loop.is_turning(0.1))
    may_go_on.set()
    until(lambda: loop.is_turning(60.0) and loop.has_turned())


def test_an_engine_that_waits_for_room_on_the_disk_is_alive(master: Master) -> None:
    master.store.failure = StoreFull("no room")
    master.submit("stuck")
    for tries in (2, 5, 8):
        master.store.wait_for_tries(tries)
        assert master.loop.has_turned()


def test_a_checkpoint_of_many_jobs_comes_after_many_events(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes time for each job: with a million of them it must not come every few seconds."""
    monkeypatch.setattr("gsched.master.engine_thread.CHECKPOINT_EVENTS", 2)
    for number in range(16):
        master.submit(f"job {number}")
        master.until(lambda name=f"job {number}": name in master.answers)
    written = [seq for seq, _ in master.store.checkpoints]
    gaps = [after - before for before, after in pairwise(written)]
    assert written and gaps == sorted(gaps) and gaps[-1] > gaps[0] >= 2, written


def test_a_command_over_many_jobs_lets_others_in_between_and_is_answered_when_all_of_it_is_stored(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.master.engine_thread.TURN_STEPS", 400)
    specs = tuple(JobSpec(command=f"{number}", user="", queue="") for number in range(300))
    master.ask("many", Submit("u", "", specs))
    master.until(lambda: "many" in master.answers)
    stored = len(master.store.batches)
    may_store, append = threading.Event(), master.store.append

    def append_later(*batch: Any) -> int:
        assert may_store.wait(60)
        return append(*batch)

    monkeypatch.setattr(master.store, "append", append_later)
    master.ask("kill", KillJobs("u", False, wanted=JobFilter()))
    master.submit("other")  # it is there before anything of the other is stored
    may_store.set()
    master.until(lambda: "kill" in master.answers)
    batches = master.store.batches[stored:]
    assert max(len(batch) for batch in batches) <= 40
    numbers = [number for number, batch in enumerate(batches) if any(isinstance(e, JobSubmitted) for e in batch)]
    assert not isinstance(master.answers["other"], GschedError) and numbers and numbers[0] < len(batches) / 2
    assert [each.error for each in master.answers["kill"]] == [""] * 300
    ended = [event.job_id for batch in master.store.batches for event in batch if isinstance(event, JobFinished)]
    assert sorted(ended) == list(range(1, 301)), "the answer came when the last of them was stored"


def test_so_many_commands_at_a_time_are_cut_into_turns_too(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.master.engine_thread.TURN_STEPS", 400)
    for number in range(200):
        master.submit(f"job{number}")
    master.until(lambda: len(master.answers) == 200)
    assert [master.answers[f"job{number}"][0].job_id for number in range(200)] == list(range(1, 201))
    assert max(len(batch) for batch in master.store.batches) <= 20


def test_a_checkpoint_is_written_between_turns_and_holds_all_that_was_stored_then(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.master.engine_thread.CHECKPOINT_EVENTS", 40)
    monkeypatch.setattr("gsched.master.checkpoint_writer.JOBS_AT_A_TIME", 7)
    monkeypatch.setattr("gsched.core.state.checkpoint.PART_BYTES", 300)
    monkeypatch.setattr("gsched.core.state.checkpoint.LAST", 3)
    for number in range(120):
        master.submit(f"job {number}")
        if number % 3 == 0:
            master.ask(f"kill {number}", KillJobs("u", False, (number // 2 + 1,)))
    master.until(lambda: len(master.answers) == 160 and master.store.checkpoints)
    events = [event for batch in master.store.batches for event in batch]
    for seq, payload in master.store.checkpoints:
        assert ClusterState.load(payload).dump() == ClusterState.load(replay(events[:seq]).dump()).dump()
    assert len(master.store.parts) > 10


def test_arrays_of_a_checkpoint_are_seen_from_the_start(master: Master) -> None:
    for indices in ("1-6", "1-3"):
        master.ask(f"array {indices}", Submit("u", "", (JobSpec(command="x", user="", queue="", indices=indices),)))
    master.ask("stop", StopJobs("u", False, (element_id(1, 2),)))
    master.until(lambda: len(master.answers) == 3)
    before = [job.job_id for job in master.board.jobs(JobFilter(user="all"))]
    assert len(before) == 9
    master.loop.stop()
    again = Master(ClusterState.load(master.engine.state.dump()))
    try:
        assert [job.job_id for job in again.board.jobs(JobFilter(user="all"))] == before
        assert again.board.array(1) is not None
        assert again.board.array(2) is not None
    finally:
        again.loop.stop()


def test_what_is_done_of_a_command_is_told_when_it_is_stored_and_no_sooner(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.master.engine_thread.TURN_STEPS", 400)
    master.ask("many", Submit("u", "", tuple(JobSpec(command=f"{n}", user="", queue="") for n in range(100))))
    master.until(lambda: "many" in master.answers)
    told: list[list[tuple[int, Any]]] = []
    ended: list[int] = []

    def progress(parts: list[tuple[int, Any]]) -> None:
        ended[:] = [each.job_id for batch in master.store.batches for each in batch if isinstance(each, JobFinished)]
        assert {answer.job_id for _, answer in parts} <= set(ended)
        told.append(parts)

    def reply(answer: Any, error: GschedError | None) -> None:
        master._note(lambda: master.answers.update({"kill": error or answer}))

    master.loop.put(InboxItem(KillJobs("u", False, wanted=JobFilter()), reply, progress=progress))
    master.until(lambda: "kill" in master.answers)
    parts = sorted((part for each in told for part in each), key=lambda part: part[0])
    assert [answer for _, answer in parts] == master.answers["kill"]
    assert [place for place, _ in parts] == list(range(100))
    assert sum(bool(each) for each in told) > 3, "bit by bit"
    assert [] in told, "it is said in between that the command is under way"
    assert not master.fatal


def test_turns_that_do_little_share_a_commit_as_long_as_nobody_else_wants_anything(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    master.ask("many", Submit("u", "", tuple(JobSpec(command=f"{n}", user="", queue="") for n in range(300))))
    master.until(lambda: "many" in master.answers)
    monkeypatch.setattr("gsched.master.engine_thread.TURN_STEPS", 1_200)  # of a modification less than a dozen
    stored = len(master.store.batches)
    spec = JobSpec(command="", user="", queue="", run_limit_s=60)
    master.ask("modify", ModifyJobs("u", False, (), spec, ("run_limit_s",), JobFilter()))
    master.until(lambda: "modify" in master.answers)
    sizes = [len(batch) for batch in master.store.batches[stored:]]
    assert sum(sizes) == 300
    assert sizes[0] > 1_200 // 100, "more than one turn's"
    assert max(sizes) <= 1_200 // 20
