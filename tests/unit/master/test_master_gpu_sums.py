"""What jobs made of their GPUs in sums: by rows, by events where rows do not tell, week by week."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.core.records.job import JobRecord
from gsched.master.past.gpu_sums import read_gpu_sums
from gsched.master.past.history_rows import job_row
from gsched.model.efficiency.gpu_seconds import gpu_seconds
from gsched.model.event import AnyEvent, JobDispatched, JobFinished, JobPartEnded, JobRequeued, JobSubmitted
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.jobs.job import AttemptResult, JobSpec, JobState, Usage
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.views.catalogue import AccountFilter
from gsched.model.views.gpu_sums import GpuSums, GpuSumsQuery
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.tables.schema import IRREGULAR, JobRow

WEEKS = (1000.0, 2000.0, 3000.0, 4000.0)


def held(*shares: float) -> Allocation:
    gpus = tuple(HeldGpu(uuid=f"G{n}", index=n, claim="", share=share) for n, share in enumerate(shares))
    return Allocation(hosts=(HostAllocation(host="h", slots=1, gpus=gpus),))


def use(index: int, percent: float | None, seconds: float, energy_j: float | None = 10.0) -> GpuUsage:
    return GpuUsage(
        host="h", index=index, uuid=f"G{index}", samples=1, covered_s=seconds, sm_mean=percent, energy_j=energy_j
    )


class Told:
    """Jobs as the engine's thread stores them: events, and the row with them."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.next_id = 1

    def job(self, *attempts: tuple[float, float, Allocation, Usage], is_old: bool = False, **spec: str) -> JobRow:
        """Attempts: from when to when it held what, and what it used. The last one is done."""
        job_id, self.next_id = self.next_id, self.next_id + 1
        asked = JobSpec(**{"command": "x", "user": "ann", "queue": "normal", **spec})  # type: ignore[arg-type]
        events: list[AnyEvent] = [JobSubmitted(at=1.0, job_id=job_id, spec=asked)]
        for number, (begin, end, allocation, usage) in enumerate(attempts, 1):
            events.append(
                JobDispatched(at=begin, job_id=job_id, attempt=number, allocation=allocation, effective_req="")
            )
            result = AttemptResult(exit_code=0, usage=usage)
            if number < len(attempts):
                events.append(JobRequeued(at=end, job_id=job_id, attempt=number, reason="again", result=result))
            else:
                events.append(JobFinished(at=end, job_id=job_id, attempt=number, result=result))
        record = JobRecord(job_id=job_id, spec=asked, submitted_at=1.0, state=JobState.DONE)
        record.dispatched_at, record.finished_at = attempts[-1][0], attempts[-1][1]
        record.allocation, record.result = attempts[-1][2], result
        row = job_row(record, IRREGULAR if len(attempts) > 1 else 0)
        self._log.append(events, [row])
        return row


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    opened = EventLog(tmp_path / "store.db")
    yield opened
    opened.close()


@pytest.fixture
def told(log: EventLog) -> Told:
    return Told(log)


def sums(log: EventLog, by: str = "user", **jobs: tuple[str, ...]) -> list[GpuSums]:
    history = History(log.place)
    query = GpuSumsQuery(jobs=AccountFilter(**jobs), by=by, bounds=WEEKS)  # type: ignore[arg-type]
    found = [each for page in read_gpu_sums(history, query) for each in page]
    history.close()
    return found


def forget_the_columns(log: EventLog) -> None:
    """As rows of before step 5 are."""
    with sqlite3.connect(log.place) as connection:
        connection.execute("UPDATE job SET gpu_seen_s = NULL, gpu_busy_s = NULL, gpu_energy_j = NULL")
    connection.close()


def test_a_job_counts_in_the_week_in_which_it_ended(log: EventLog, told: Told) -> None:
    told.job((900.0, 1100.0, held(1.0, 0.5), Usage(gpus=(use(0, 50.0, 200.0), use(1, 10.0, 200.0)))))
    told.job((1950.0, 2000.0, held(1.0), Usage(gpus=(use(0, 100.0, 40.0, None),))), user="bob")
    told.job((3990.0, 4000.0, held(1.0), Usage()))  # after the last week
    told.job((1000.0, 1500.0, held(), Usage()))  # without GPUs
    assert sums(log) == [
        GpuSums(0, "ann", 1, 300.0, 300.0, 120.0, 20.0, 1, 1),
        GpuSums(1, "bob", 1, 50.0, 40.0, 40.0, 0.0, 1, 0),
    ]


def test_of_what_is_unknown_nothing_is_added(log: EventLog, told: Told) -> None:
    told.job((1000.0, 1100.0, held(1.0), Usage()))
    told.job((1000.0, 1100.0, held(1.0), Usage(gpus=(use(0, None, 100.0),))))
    assert sums(log) == [GpuSums(0, "ann", 2, 200.0, 0.0, 0.0, 10.0, 0, 1)]


def test_all_attempts_count(log: EventLog, told: Told) -> None:
    first = (1000.0, 1100.0, held(1.0), Usage(gpus=(use(0, 20.0, 100.0),)))
    told.job(first, (1200.0, 1300.0, held(1.0, 1.0), Usage(gpus=(use(0, 50.0, 90.0), use(1, 0.0, 90.0)))))
    told.job(first, (1200.0, 1300.0, held(), Usage()))  # the last one had none
    assert sums(log) == [GpuSums(0, "ann", 2, 400.0, 380.0, 85.0, 40.0, 2, 2)]


def test_the_last_word_of_other_hosts_counts(log: EventLog, told: Told) -> None:
    both = Allocation(hosts=(held(1.0).hosts[0], HostAllocation(host="i", slots=1, gpus=held(1.0).hosts[0].gpus)))
    first = (1000.0, 1100.0, held(1.0), Usage(gpus=(use(0, 20.0, 100.0),)))
    told.job(first, (1200.0, 1300.0, both, Usage(gpus=(use(0, 50.0, 100.0),))))
    late = GpuUsage(host="i", index=0, uuid="G0", samples=1, covered_s=100.0, sm_mean=100.0, energy_j=1.0)
    log.append([JobPartEnded(at=1310.0, job_id=1, attempt=2, host="i", usage=Usage(gpus=(late,)))], [])
    assert sums(log) == [GpuSums(0, "ann", 1, 300.0, 300.0, 170.0, 21.0, 1, 1)]


@pytest.mark.parametrize("by", ["user", "project", "queue"])
def test_rows_and_events_tell_the_same(log: EventLog, told: Told, by: str) -> None:
    """Random jobs: the sums of rows are those of a loop over the jobs, and those of their events alone."""
    chance, expected = random.Random(by), dict[tuple[int, str], list[float]]()
    for _ in range(60):
        shares = [chance.choice((1.0, 0.5)) for _ in range(chance.randint(0, 3))]
        begin = chance.uniform(900.0, 4100.0)
        end = begin + chance.uniform(1.0, 500.0)
        uses = tuple(
            use(n, chance.choice((None, 0.0, 33.0, 90.0)), (end - begin) * chance.random(), chance.choice((None, 5.0)))
            for n in range(len(shares))
        )
        names = {"user": chance.choice("ab"), "project": chance.choice("pq"), "queue": chance.choice("xy")}
        told.job((begin, end, held(*shares), Usage(gpus=uses)), **names)
        for week, (since, until) in enumerate(pairwise(WEEKS)):
            if since <= end < until and shares:
                row = expected.setdefault((week, names[by]), [0.0] * 7)
                used = gpu_seconds(held(*shares), uses)
                seen = (used.seen_s, used.busy_s, used.energy_j or 0.0, used.seen_s > 0, used.energy_j is not None)
                for place, value in enumerate((1, sum(shares) * (end - begin), *seen)):
                    row[place] += value
    found = {(each.week, each.name): each for each in sums(log, by)}
    assert found.keys() == expected.keys()
    for key, each in found.items():
        values = (each.jobs, each.held_s, each.seen_s, each.busy_s, each.energy_j, each.seen_jobs, each.energy_jobs)
        assert values == pytest.approx(expected[key])
    forget_the_columns(log)
    for each in sums(log, by):
        before = found[each.week, each.name]
        assert (each.jobs, each.seen_jobs, each.energy_jobs) == (before.jobs, before.seen_jobs, before.energy_jobs)
        assert each.held_s == pytest.approx(before.held_s) and each.busy_s == pytest.approx(before.busy_s)


def test_what_narrows_down(log: EventLog, told: Told) -> None:
    for user, project in (("ann", "p"), ("bob", "p"), ("bob", "q")):
        told.job((1000.0, 1100.0, held(1.0), Usage()), user=user, project=project)
    assert [(each.name, each.jobs) for each in sums(log, users=("bob",))] == [("bob", 2)]
    assert [(each.name, each.jobs) for each in sums(log, projects=("p",))] == [("ann", 1), ("bob", 1)]
    assert sums(log, hosts=("elsewhere",)) == [] == sums(log, queues=("night",))
    assert [each.jobs for each in sums(log, hosts=("h",))] == [1, 2]


def test_the_rows_of_arrays_stand_for_no_job_with_gpus(log: EventLog, told: Told) -> None:
    told.job((1000.0, 1100.0, held(1.0), Usage()))
    array = JobRow(
        job_id=9, user="ann", queue="normal", state="EXIT", submitted_at=1.0, finished_at=1500.0, gpus=None, traits=3
    )
    log.append([], [array, JobRow(job_id=element_id(9, 1), user="ann", queue="normal", state="PEND", submitted_at=1.0)])
    assert [each.jobs for each in sums(log)] == [1]


@pytest.mark.parametrize(
    ("by", "bounds", "text"),
    [
        ("host", WEEKS, "sums are by user, project, queue, not by host"),
        ("user", (), "520 weeks are the most, one after the other"),
        ("user", (2.0, 1.0), "520 weeks are the most, one after the other"),
        ("user", tuple(map(float, range(522))), "520 weeks are the most, one after the other"),
    ],
)
def test_what_cannot_be_asked(log: EventLog, by: str, bounds: tuple[float, ...], text: str) -> None:
    history = History(log.place)
    with pytest.raises(BadRequest, match=text):
        list(read_gpu_sums(history, GpuSumsQuery(by=by, bounds=bounds)))
    history.close()


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (AccountFilter(), "job_finished (finished_at>? AND finished_at<?"),
        (AccountFilter(users=("ann",)), "job_user_finished (user=? AND finished_at>?"),
        (AccountFilter(projects=("p",)), "job_project (project=? AND finished_at>?"),
        (AccountFilter(queues=("q",)), "job_finished (finished_at>? AND finished_at<?"),
    ],
)
def test_each_week_is_found_by_an_index(
    log: EventLog, wanted: AccountFilter, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both questions, about rows that tell and about those that do not."""
    history, plans = History(log.place), list[str]()

    def explained(query: object) -> list[object]:
        with history._engine.connect() as connection:
            text = str(query.compile(history._engine, compile_kwargs={"literal_binds": True}))  # type: ignore[attr-defined]
            options = dict(query.get_execution_options())  # type: ignore[attr-defined]
            steps = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", execution_options=options).fetchall()
        plans.append("; ".join(str(step[-1]) for step in steps))
        return []

    monkeypatch.setattr(history, "_tuples", explained)
    list(read_gpu_sums(history, GpuSumsQuery(jobs=wanted, by="user", bounds=WEEKS[:2])))
    history.close()
    assert len(plans) == 2 and all(index in plan for plan in plans), plans
