"""The board: readers see what was committed, each pending job with its reason, in the order that LSF lists."""

from __future__ import annotations

import msgspec

from gsched.core.cluster import replay
from gsched.core.command import AttemptEnded, ControlJobs, HostHello, HostReported, Reconfigure, Submit
from gsched.core.engine import Engine
from gsched.master.board import Board
from gsched.model.config import ClusterConfig, Locations
from gsched.model.host import GpuReport, HostConfig, LoadReport
from gsched.model.job import AttemptResult, JobSpec
from gsched.model.queue import Queue
from gsched.model.view import JobFilter

NOW = 1000.0
PLACES = Locations(conf_dir="/c", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")
CONFIG = ClusterConfig(
    cluster="test",
    master_host="a",
    hosts={name: HostConfig(name=name, max_slots=4) for name in ("a", "b")},
    queues={"normal": Queue(name="normal", priority=3), "night": Queue(name="night", priority=9)},
    locations=PLACES,
)


class Desk:
    """An engine with two hosts and its board."""

    def __init__(self) -> None:
        self.engine = Engine(replay([]), CONFIG, NOW)
        self.board = Board(CONFIG)
        for number, host in enumerate(CONFIG.hosts, 1):
            self.engine.handle(HostHello(host, number, "boot", "1"), NOW)
            load = LoadReport(indices={"mem": 1000.0}, ncpus=4)
            self.engine.handle(HostReported(host, number, load, GpuReport()), NOW)
        self.board.publish(self.engine)

    def submit(self, *specs: JobSpec, now: float = NOW) -> list[int]:
        done = self.engine.handle(Submit("ann", "", specs), now).reply
        return [each.job_id for each in done]

    def go_on(self, now: float = NOW) -> None:
        self.engine.tick(now)
        self.engine.cycle(now)
        self.board.publish(self.engine)

    def reasons(self) -> dict[int, tuple[str, ...]]:
        return {job.job_id: job.pending_reasons for job in self.board.jobs(JobFilter())}

    def fail_to_start(self, job_id: int, host: str, attempt: int = 1, now: float = NOW) -> None:
        result = AttemptResult(started=False, problem="fork failed")
        self.engine.handle(AttemptEnded(job_id, attempt, host, result), now)


def spec(**changes: object) -> JobSpec:
    return JobSpec(**({"command": "run", "user": "", "queue": "normal"} | changes))  # type: ignore[arg-type]


def test_each_pending_job_is_shown_with_its_own_reason() -> None:
    desk = Desk()
    desk.submit(spec(slots=4), spec(slots=4), spec(slots=3), spec(slots=4, hosts=("b",)), spec(hold=True))
    desk.board.publish(desk.engine)
    new = ("New job is waiting for scheduling",)
    assert desk.reasons() == {1: new, 2: new, 3: new, 4: new, 5: ("The job was suspended by the user while pending",)}
    desk.go_on()
    full = "Not enough job slot(s): {} hosts ({} wanted, 0 of 4 free on a)"
    assert desk.reasons() == {
        1: (),
        2: (),
        3: (full.format(2, 3),),
        4: ("Not enough job slot(s): 1 host (4 wanted, 0 of 4 free on b)", "Not specified in job submission: 1 host"),
        5: ("The job was suspended by the user while pending",),
    }
    assert all(desk.engine.pending_reasons(each) == desk.reasons()[each] for each in (3, 4, 5))


def test_a_job_whose_start_failed_says_so_and_then_has_the_reason_of_its_kind() -> None:
    desk = Desk()
    desk.submit(spec())
    desk.go_on()
    desk.fail_to_start(1, "a")
    desk.submit(spec(slots=4), spec(slots=4))
    desk.go_on(NOW + 0.5)
    assert desk.reasons()[1][0].endswith("waiting before the next attempt to start it; the last one failed on a")
    desk.go_on(NOW + 1)
    assert desk.reasons()[1] == ("Job slot limit reached: 2 hosts (1 wanted, 0 of 4 free on a)",)
    assert desk.engine.pending_reasons(1) == desk.reasons()[1]


def test_started_jobs_first_then_pending_ones_as_they_are_served_then_finished_ones() -> None:
    desk = Desk()
    desk.submit(spec(slots=4), spec(slots=4))
    desk.go_on()
    desk.submit(spec(slots=4), spec(slots=4, queue="night"), spec(slots=4))
    desk.engine.handle(AttemptEnded(1, 1, "a", AttemptResult(exit_code=0, ended_at=NOW)), NOW)
    desk.engine.handle(ControlJobs("ann", False, "kill", (3,)), NOW)
    desk.board.publish(desk.engine)
    assert [job.job_id for job in desk.board.jobs(JobFilter(finished=True))] == [2, 4, 5, 1, 3]
    assert [job.job_id for job in desk.board.jobs(JobFilter(ids=(3, 2, 99)))] == [2, 3]
    assert [job.queue_priority for job in desk.board.jobs(JobFilter())] == [3, 9, 3]


def test_nothing_is_seen_before_it_is_published() -> None:
    desk = Desk()
    desk.submit(spec())
    assert desk.board.jobs(JobFilter()) == [] and desk.board.job(1) is None
    desk.go_on()
    desk.engine.handle(AttemptEnded(1, 1, "a", AttemptResult(exit_code=0, ended_at=NOW)), NOW)
    seen = desk.board.job(1)
    assert seen is not None and seen.state == "RUN"
    desk.go_on(NOW + 5000)
    assert desk.board.job(1) is None


def test_a_new_configuration_shows_its_hosts() -> None:
    desk = Desk()
    hosts = {name: HostConfig(name=name, max_slots=2) for name in ("c", "b")}
    desk.engine.handle(Reconfigure("root", msgspec.structs.replace(CONFIG, hosts=hosts)), NOW)
    desk.board.publish(desk.engine)
    assert [(host.name, host.status, host.max_slots) for host in desk.board.hosts()] == [
        ("c", "unavail", 2),
        ("b", "ok", 2),
    ]
