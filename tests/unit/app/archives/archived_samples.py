"""A store with a past of three months, and the questions that its archive must answer as the store does."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gsched.app.archives.archiving import Wanted, archive_history
from gsched.app.archives.months import Month
from gsched.base.ids import element_id
from gsched.core.state.cluster_state import ClusterState
from gsched.master.archive.archive_loading import Archives
from gsched.master.archive.archive_manifest import KeptCluster
from gsched.master.past.finished_accounts import read_accounts, read_costs
from gsched.master.past.job_histories import Histories
from gsched.master.upkeep.archived_removal import remove_at_once
from gsched.model.event import (
    AnyEvent,
    ArrayElementsFinished,
    HostClosed,
    JobDispatched,
    JobFinished,
    JobForgotten,
    JobGpuCurves,
    JobNoted,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.views.archive_question import ArchivedJobs, ArchiveQuestion, RemovedArchived
from gsched.model.views.catalogue import AccountFilter, TimeSpan
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import JobFilter
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.history_queries import History
from gsched.store.tables.schema import ARRAY, IRREGULAR, JobRow

SCRIPT, ENVIRONMENT = b"#!/bin/sh\npython train.py\n", b"HOME=/home/ann\0LANG=\xff\0"
FAILED = AttemptResult(exit_code=3, usage=Usage(cpu_s=1.0), term_reason="TERM_OWNER")
DONE = AttemptResult(exit_code=0, usage=Usage(cpu_s=12.5, max_mem_mib=512.25))
UNSTARTED = AttemptResult(started=False, term_reason="TERM_OWNER")
KEPT = KeptCluster()
AUGUST, SEPTEMBER, OCTOBER, NOVEMBER = (Month(2026, month) for month in (8, 9, 10, 11))


def at(month: int, day: int, hour: float = 0.0) -> float:
    """UTC seconds of a time in 2026."""
    return datetime(2026, month, day, tzinfo=UTC).timestamp() + hour * 3600.0


def spec(**more: Any) -> JobSpec:
    words: dict[str, Any] = {"command": "python train.py", "user": "ann", "queue": "normal", "project": "vision"}
    texts = {"script": blob_id(SCRIPT), "environment": blob_id(ENVIRONMENT)}
    return JobSpec(**{**words, **texts, **more})


def held(*shares: float) -> Allocation:
    gpus = tuple(
        HeldGpu(uuid=f"G{n}", index=n, claim="ngpus_shared", pci_bus_id="", share=share)
        for n, share in enumerate(shares)
    )
    return Allocation(hosts=(HostAllocation(host="h1", slots=1, gpus=gpus),))


def row(job_id: int, of: JobSpec, state: str, submitted: float, **more: Any) -> JobRow:
    words = {"user": of.user, "queue": of.queue, "project": of.project, "name": of.shown_name(job_id)}
    return JobRow(job_id=job_id, state=state, submitted_at=submitted, **{**words, **more})


def plain(job_id: int, ended: float, *, user: str = "ann", exited: bool = False) -> tuple[list[AnyEvent], list[JobRow]]:
    """A job that waited an hour and ran for two."""
    of, result = spec(user=user), FAILED if exited else DONE
    submitted, dispatched = ended - 10800.0, ended - 7200.0
    return [
        JobSubmitted(at=submitted, job_id=job_id, spec=of),
        JobDispatched(at=dispatched, job_id=job_id, attempt=1, allocation=held(1.0), effective_req="select[x]"),
        JobStarted(at=dispatched, job_id=job_id, attempt=1, pid=7, boot_id="b"),
        JobGpuCurves(at=ended, job_id=job_id, attempt=1, host="h1", data=b"\0\xff"),
        JobFinished(at=ended, job_id=job_id, attempt=1, result=result),
        JobForgotten(at=ended + 3600.0, job_id=job_id),
    ], [
        row(
            job_id,
            of,
            "EXIT" if exited else "DONE",
            submitted,
            dispatched_at=dispatched,
            finished_at=ended,
            exit_code=result.exit_code,
            cpu_s=result.usage.cpu_s,
            gpus=1.0,
            host="h1",
        )
    ]


def irregular(job_id: int, ended: float) -> tuple[list[AnyEvent], list[JobRow]]:
    """A job that was requeued, suspended, and has a note with quotes, line ends and what is no ASCII."""
    of = spec(name='rückkehr "2"', description="second try", group="/nights")
    times = [ended - 3600.0 * each for each in (6, 5, 4, 3, 2)]
    return [
        JobSubmitted(at=times[0], job_id=job_id, spec=of),
        JobDispatched(at=times[1], job_id=job_id, attempt=1, allocation=held(1.0, 0.5), effective_req=""),
        JobRequeued(at=times[2], job_id=job_id, attempt=1, reason="lost"),
        JobDispatched(at=times[3], job_id=job_id, attempt=2, allocation=held(0.5), effective_req=""),
        JobSuspended(at=times[4], job_id=job_id, by="ann"),
        JobNoted(at=times[4], job_id=job_id, text='a "note"\nof two lines ☃'),
        JobFinished(at=ended, job_id=job_id, attempt=2, result=FAILED),
        JobForgotten(at=ended + 3600.0, job_id=job_id),
    ], [
        row(
            job_id,
            of,
            "EXIT",
            times[0],
            dispatched_at=times[3],
            finished_at=ended,
            exit_code=3,
            cpu_s=1.0,
            gpus=0.5,
            host="h1 h2",
            traits=IRREGULAR,
            description="second try",
            job_group="/nights",
        )
    ]


def array(job_id: int, first_end: float, ended: float) -> tuple[list[AnyEvent], list[JobRow]]:
    """Two elements that ran, the first of which ended months before, and two that were killed before they started."""
    of = spec(name="sweep", indices="1-4", user="bob")
    first, second = element_id(job_id, 1), element_id(job_id, 2)
    begun = first_end - 7200.0
    ran = {"cpu_s": 1.0, "gpus": 0.0, "host": "h1"}
    return [
        JobSubmitted(at=begun, job_id=job_id, spec=of),
        JobDispatched(at=begun + 60.0, job_id=first, attempt=1, allocation=held(), effective_req=""),
        JobFinished(at=first_end, job_id=first, attempt=1, result=DONE),
        ArrayElementsFinished(at=ended - 60.0, job_id=job_id, indices="3-4", result=UNSTARTED),
        JobDispatched(at=ended - 60.0, job_id=second, attempt=1, allocation=held(), effective_req=""),
        JobFinished(at=ended, job_id=second, attempt=1, result=FAILED),
        JobForgotten(at=ended + 3600.0, job_id=job_id),
    ], [
        row(job_id, of, "EXIT", begun, finished_at=ended, traits=ARRAY | IRREGULAR),
        row(first, of, "DONE", begun, dispatched_at=begun + 60.0, finished_at=first_end, exit_code=0, **ran),
        row(second, of, "EXIT", begun, dispatched_at=ended - 60.0, finished_at=ended, exit_code=3, **ran),
    ]


def fill(log: EventLog) -> None:
    """August: 1, 2. September: 3, 4 and the array 5. October: 6. Of 7 (September) the engine still knows."""
    known, known_rows = plain(7, at(9, 30, 23.9))
    parts = [
        plain(1, at(8, 3)),
        plain(2, at(8, 31, 23.99), user="bob", exited=True),
        irregular(3, at(9, 1)),
        plain(4, at(9, 15), exited=True),
        array(5, at(8, 20), at(9, 20)),
        plain(6, at(10, 2)),
        (known[:-1], known_rows),
    ]
    for number, (events, rows) in enumerate(parts):
        log.append(events, rows, blobs={blob_id(text): text for text in (SCRIPT, ENVIRONMENT)} if not number else {})


def archived(place: str, folder: Path, before: Month, remove: Any = None) -> list[str]:
    """What it says. `remove`: what takes jobs out of the store."""
    said: list[str] = []
    remover = contextlib.nullcontext(remove) if remove is not None else None
    archive_history(place, Wanted("test", before, folder, KEPT), remover, said.append)
    return said


def with_floor(log: EventLog) -> None:
    """Something happens behind each of two checkpoints, so that all before may go."""
    for _ in range(2):
        log.append([HostClosed(at=at(10, 3), host="h1", by="root")])
        log.save_checkpoint(log.last_seq, ClusterState().dump())


class Removing:
    """The store lets go of jobs, as a master has it do; it is killed behind so many requests, of some jobs each."""

    def __init__(self, log: EventLog, killed_behind: int = 1000, at_once: int = 1000) -> None:
        self.log, self.left, self.at_once = log, killed_behind, at_once
        self.asked: list[int] = []

    def __call__(self, wanted: ArchivedJobs) -> RemovedArchived:
        gone, jobs = 0, list(wanted.events.items())
        for start in range(0, len(jobs), self.at_once):
            if not self.left:
                raise Killed
            self.left -= 1
            some = dict(jobs[start : start + self.at_once])
            self.asked += some
            gone += remove_at_once(self.log, ArchivedJobs(wanted.part, some)).gone
        return RemovedArchived(gone, self.log.removal.floor().seq > wanted.part.last_seq)


class Killed(BaseException):
    """By kill -9."""


_SINCE, _UNTIL = at(8, 15), at(9, 10)
HISTORIES = [
    HistoryQuery(jobs=JobFilter(user="all", finished=True)),
    HistoryQuery(jobs=JobFilter(user="all", finished=True), brief=True),
    HistoryQuery(jobs=JobFilter(user="all", finished=True), with_curves=True),
    HistoryQuery(jobs=JobFilter(user="ann", finished=True), brief=True),
    HistoryQuery(jobs=JobFilter(user="all", states=("EXIT",))),
    HistoryQuery(jobs=JobFilter(user="all", name="sweep[2]", finished=True)),
    HistoryQuery(jobs=JobFilter(user="all", name="sweep[3]", finished=True)),
    HistoryQuery(jobs=JobFilter(user="all", name="s*", finished=True)),
    HistoryQuery(jobs=JobFilter(ids=(5, 3), user="all", finished=True)),
    HistoryQuery(jobs=JobFilter(ids=(5,), user="all", finished=True), brief=True),
    HistoryQuery(jobs=JobFilter(ids=(element_id(5, 1), element_id(5, 4)), user="all", finished=True)),
    HistoryQuery(jobs=JobFilter(user="all", group="/nights", finished=True)),
    HistoryQuery(jobs=JobFilter(user="all", host="h2", finished=True)),
    HistoryQuery(jobs=JobFilter(user="all", finished=True), description="second*"),
    HistoryQuery(jobs=JobFilter(user="all", finished=True), limit=2, brief=True),
    *(
        HistoryQuery(jobs=JobFilter(user="all", finished=True), **{name: TimeSpan(since=_SINCE, until=_UNTIL)})
        for name in ("submitted", "dispatched", "completed", "active")
    ),
    HistoryQuery(jobs=JobFilter(user="all")),
]
ACCOUNTS = [
    AccountFilter(),
    AccountFilter(users=("ann",)),
    AccountFilter(states=("EXIT",)),
    AccountFilter(ids=(5,)),
    AccountFilter(ids=(element_id(5, 3), 4)),
    AccountFilter(projects=("vision",), queues=("normal",), hosts=("h1",)),
    *(
        AccountFilter(**{name: TimeSpan(since=_SINCE, until=_UNTIL)})
        for name in ("submitted", "dispatched", "completed")
    ),
]


def answers_of(history: History, question: ArchiveQuestion) -> Any:
    """What the process says that reads the store."""
    if question.histories is not None:
        told = Histories(history, question.histories.limit or 1000)
        return [each for page in told.read(question.histories) for each in page], told.cut_at
    assert question.accounts is not None
    if question.with_jobs:
        return list(read_accounts(history, question.accounts, jobs=True))
    return [each for page in read_costs(history, question.accounts) for each in page]


def questions() -> list[ArchiveQuestion]:
    """Of both commands."""
    return [
        *(ArchiveQuestion(histories=each) for each in HISTORIES),
        *(ArchiveQuestion(accounts=each, with_jobs=jobs) for each in ACCOUNTS for jobs in (False, True)),
    ]


def answers_of_archive(folders: list[Path], question: ArchiveQuestion, path: Path) -> Any:
    """What the process says that reads these archives."""
    path.unlink(missing_ok=True)
    Archives(folders).load(question, path)
    history = History(path)
    try:
        return answers_of(history, question)
    finally:
        history.close()
