"""gacct: what the stored events of finished jobs add up to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.base.ids import element_id, show_job
from gsched.master.past.finished_accounts import read_accounts, read_costs, read_told
from gsched.model.event import (
    ArrayElementsFinished,
    HostClosed,
    JobDispatched,
    JobFinished,
    JobForgotten,
    JobRequeued,
    JobSubmitted,
    JobSwitched,
    QueueControlled,
)
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.views.catalogue import Account, AccountFilter, TimeSpan
from gsched.model.views.start_estimate import StartEstimate
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.tables.schema import ARRAY, IRREGULAR, JobRow

TRAIN = JobSpec(
    command="train",
    user="ann",
    queue="normal",
    project="vision",
    reservation="ann#1",
    application="training",
    service_class="gold",
)
SWEEP = JobSpec(command="run", user="bob", queue="normal", name="sweep", indices="1-4")
FIRST = element_id(2, 1)
ENDED = AttemptResult(exit_code=0, ended_at=100.0, usage=Usage(cpu_s=12.5, max_mem_mib=5))
FAILED = AttemptResult(exit_code=3, usage=Usage(cpu_s=1.0), term_reason="TERM_OWNER")
UNSTARTED = AttemptResult(started=False, term_reason="TERM_OWNER")


def held(*shares: float) -> Allocation:
    gpus = tuple(
        HeldGpu(uuid=f"G{n}", index=n, claim="ngpus_shared", pci_bus_id="", share=share)
        for n, share in enumerate(shares)
    )
    return Allocation(hosts=(HostAllocation(host="h1", slots=1, gpus=gpus),))


def row(job_id: int, state: str, finished: float | None, **more: object) -> JobRow:
    values: dict[str, object] = {"user": "bob", "queue": "normal", "submitted_at": 10.0}
    return JobRow(job_id=job_id, state=state, finished_at=finished, **{**values, **more})  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[History]:
    log = EventLog(tmp_path / "store.db")
    log.append(
        [
            JobSubmitted(at=10.0, job_id=1, spec=TRAIN),
            JobSubmitted(at=10.0, job_id=2, spec=SWEEP),
            JobSubmitted(at=11.0, job_id=3, spec=SWEEP),
            JobDispatched(at=20.0, job_id=1, attempt=1, allocation=held(1.0, 1.0), effective_req=""),
            JobRequeued(at=30.0, job_id=1, attempt=1, reason="lost"),
            JobDispatched(at=40.0, job_id=1, attempt=2, allocation=held(1.0, 0.5), effective_req="select[x]"),
            JobFinished(at=100.0, job_id=1, attempt=2, result=ENDED),
            JobForgotten(at=4000.0, job_id=1),
            JobSwitched(at=41.0, job_id=2, by="bob", spec=SWEEP),
            JobDispatched(at=50.0, job_id=FIRST, attempt=1, allocation=held(), effective_req=""),
            ArrayElementsFinished(at=60.0, job_id=2, indices="3-4", result=UNSTARTED),
            JobFinished(at=70.0, job_id=FIRST, attempt=1, result=FAILED),
            HostClosed(at=71.0, host="h1", by="root"),
            QueueControlled(at=72.0, queue="normal", by="root", is_open=False),
        ],
        [
            row(
                1,
                "DONE",
                100.0,
                user="ann",
                project="vision",
                host="h1 h2",
                dispatched_at=40.0,
                name="train",
                application="training",
            ),
            row(2, "EXIT", None, name="sweep"),
            row(FIRST, "EXIT", 70.0, host="h1", dispatched_at=50.0, name="sweep[1]"),
            row(3, "PEND", None, submitted_at=11.0),
        ],
    )
    opened = History(log.place)
    yield opened
    opened.close()
    log.close()


def read(store: History, jobs: bool = False, **wanted: object) -> dict[str, Account]:
    found = read_accounts(store, AccountFilter(**wanted), jobs=jobs)  # type: ignore[arg-type]
    return {show_job(account.job_id): account for account in found}


def test_all_finished_jobs_and_elements_that_were_never_started(store: History) -> None:
    found = read(store)
    assert {job: account.state for job, account in found.items()} == {
        "1": "DONE",
        "2[1]": "EXIT",
        "2[3]": "EXIT",
        "2[4]": "EXIT",
    }
    assert found["2[3]"].name == "sweep[3]"
    assert found["2[3]"].dispatched_at is None and found["2[3]"].finished_at == 60.0
    assert all(account.job is None for account in found.values())


def test_time_of_gpus_counts_for_every_attempt_and_by_the_part_held(store: History) -> None:
    train = read(store, ids=(1,))["1"]
    assert train.gpu_s == 2 * 10 + 1.5 * 60
    assert (train.cpu_s, train.run_s, train.dispatched_at) == (12.5, 60.0, 40.0)


def test_the_job_itself_when_it_was_asked_for(store: History) -> None:
    train, element = read(store, jobs=True, ids=(1,))["1"].job, read(store, jobs=True, ids=(2,))["2[1]"].job
    assert train is not None and element is not None
    assert (train.spec, train.result, train.effective_req) == (TRAIN, ENDED, "select[x]")
    assert (element.spec, element.result) == (SWEEP, FAILED)


@pytest.mark.parametrize(
    ("wanted", "jobs"),
    [
        ({"users": ("ann",)}, ["1"]),
        ({"users": ("ann", "bob"), "states": ("EXIT",)}, ["2[3]", "2[4]", "2[1]"]),
        ({"hosts": ("h2",)}, ["1"]),
        ({"projects": ("vision",)}, ["1"]),
        ({"queues": ("night",)}, []),
        ({"ids": (element_id(2, 3),)}, ["2[3]"]),
        ({"ids": (3,)}, []),
        ({"reservation": "ann#1"}, ["1"]),
        ({"application": "training"}, ["1"]),
        ({"service_class": "gold"}, ["1"]),
        ({"service_class": "silver"}, []),
        ({"completed": TimeSpan(since=61.0)}, ["1", "2[1]"]),
        ({"completed": TimeSpan(until=60.0)}, ["2[3]", "2[4]"]),
        ({"dispatched": TimeSpan(since=45.0, until=50.0)}, ["2[1]"]),
        ({"submitted": TimeSpan(since=11.0)}, []),
    ],
)
def test_what_narrows_down(store: History, wanted: dict[str, object], jobs: list[str]) -> None:
    assert list(read(store, **wanted)) == jobs


def test_a_summary_of_a_service_class_counts_its_jobs_alone(store: History) -> None:
    for name, jobs in (("gold", ["1"]), ("silver", [])):
        wanted = AccountFilter(service_class=name)
        assert [show_job(each.job_id) for page in read_costs(store, wanted) for each in page] == jobs


def test_pages_are_read_one_after_the_other(store: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.master.past.finished_accounts.ROWS_PER_PAGE", 1)
    assert list(read(store)) == ["1", "2[3]", "2[4]", "2[1]"]


def test_what_was_done_to_hosts_and_queues(store: History) -> None:
    assert [event.kind for event in store.events_of_no_job(TimeSpan())] == ["host_closed", "queue_controlled"]
    assert [event.kind for event in store.events_of_no_job(TimeSpan(since=71.5))] == ["queue_controlled"]
    assert [event.kind for event in store.events_of_no_job(TimeSpan(until=71.0))] == ["host_closed"]


def test_with_what_was_said_of_their_starts(tmp_path: Path) -> None:
    """Elements of an array with what was said of the array."""
    log = EventLog(tmp_path / "store.db")
    rows = [
        row(1, "DONE", 90.0, dispatched_at=50.0, cpu_s=1.0, gpus=1.0),
        row(FIRST, "DONE", 95.0, dispatched_at=60.0, cpu_s=1.0, gpus=1.0),
        row(3, "DONE", 80.0, dispatched_at=20.0, cpu_s=1.0, gpus=1.0),
    ]
    said = [StartEstimate(job_id=1, at=11.0, p50_at=45.0), StartEstimate(job_id=2, at=12.0, plan_at=61.0)]
    log.append([HostClosed(at=1.0, host="h1", by="root")], rows, estimates=said)
    history = History(log.place)
    (page,) = read_told(history, AccountFilter())
    assert {each.job_id: (each.dispatched_at, each.told) for each in page} == {
        1: (50.0, said[0]),
        FIRST: (60.0, said[1]),
        3: (20.0, None),
    }
    history.close()
    log.close()


def test_a_job_whose_events_are_no_longer_kept_is_told_by_its_row(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "old.db")
    kept = {"dispatched_at": 20.0, "project": "vision", "cpu_s": 4.5, "gpus": 2.0, "traits": IRREGULAR}
    log.append([], [row(9, "DONE", 50.0, **kept), row(10, "EXIT", 50.0, traits=ARRAY), row(11, "RUN", None)])
    history = History(log.place)
    try:
        (told,) = read_accounts(history, AccountFilter(), jobs=True)
        assert (told.job_id, told.user, told.state, told.project, told.job) == (9, "bob", "DONE", "vision", None)
        assert (told.run_s, told.cpu_s, told.gpu_s) == (30.0, 4.5, 60.0)
        ((cost,),) = read_costs(history, AccountFilter())
        assert (cost.job_id, cost.cpu_s, cost.gpu_s) == (9, 4.5, 60.0)
    finally:
        history.close()
        log.close()
