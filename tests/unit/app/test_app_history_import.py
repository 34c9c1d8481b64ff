"""`gsched import-lsf --history`: old jobs become part of the history, once, and take their numbers with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gsched.app.stores import history_import
from gsched.app.stores.history_import import AT_ONCE, Imported, import_history, summary
from gsched.base.errors import BadRequest
from gsched.base.ids import LARGEST_JOB_NUMBER, element_id
from gsched.core.audit import audit
from gsched.dialect.accounting.job_finish import Record
from gsched.dialect.accounting.past_job import past_job
from gsched.master.past.finished_accounts import read_accounts, read_costs
from gsched.master.past.job_histories import Histories
from gsched.master.recovery import recover
from gsched.model.event import JobFinished, JobSubmitted, PastJobRecorded, decode_event
from gsched.model.jobs.job import AttemptResult, JobSpec
from gsched.model.views.catalogue import AccountFilter
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import JobFilter, JobHistory
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.tables.schema import JobRow

sys.path.append(str(Path(__file__).parents[1] / "dialect"))
from lsb_acct_lines import GPUS, later, line

NOW = 1.8e9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventLog]:
    log = EventLog(tmp_path / "store.db")
    yield log
    log.close()


def acct(folder: Path, *lines: str, name: str = "lsb.acct") -> str:
    path = folder / name
    path.write_text("".join(f"{each}\n" for each in lines))
    return str(path)


def taken(store: EventLog, *paths: str) -> Imported:
    return import_history(store, paths, "hpc", NOW, print)


def numbers(store: EventLog, **wanted: object) -> list[int]:
    history = History(store.place)
    try:
        return [each.job_id for each in read_accounts(history, AccountFilter(**wanted), jobs=False)]  # type: ignore[arg-type]
    finally:
        history.close()


def kinds(store: EventLog, job_id: int) -> list[list[str]]:
    """Of each history that the number asks for its kinds of events."""
    history = History(store.place)
    try:
        wanted = HistoryQuery(jobs=JobFilter(ids=(job_id,), finished=True))
        pages = list(Histories(history, 100).read(wanted))
    finally:
        history.close()
    return [[event.kind for event in each.events] for page in pages for each in page if isinstance(each, JobHistory)]


def test_old_jobs_are_known_by_their_numbers(store: EventLog, tmp_path: Path) -> None:
    done = taken(store, acct(tmp_path, line(41), line(700, user="bob", status=32, exit=3 << 8) + later() + GPUS))
    assert (done.added, done.highest, done.broken_count) == (2, 700, 0)
    assert numbers(store) == [41, 700] and numbers(store, users=("bob",)) == [700]
    history = History(store.place)
    (account,) = read_accounts(history, AccountFilter(ids=(700,)), jobs=True)
    (costs,) = next(read_costs(history, AccountFilter(ids=(700,))))
    history.close()
    assert (account.cpu_s, account.run_s, costs.cpu_s, costs.run_s) == (13.25, 600.0, 13.25, 600.0)
    assert account.job is not None and account.job.result is not None
    assert (account.job.result.exit_code, account.job.spec.description) == (3, "for the paper")
    assert kinds(store, 41) == [["job_submitted", "job_noted", "job_dispatched", "job_started", "job_finished"]]


def test_new_jobs_get_higher_numbers_also_after_a_restart(store: EventLog, tmp_path: Path) -> None:
    taken(store, acct(tmp_path, line(700), line(41)))
    state = recover(store)
    assert state.next_job_id == 701 and list(audit(state)) == [] and state.jobs == {}
    assert store.mark.next_job_id == 701


def test_a_second_import_adds_nothing(store: EventLog, tmp_path: Path) -> None:
    path = acct(tmp_path, line(41), line(12, idx=3, name="a[1-9]"))
    taken(store, path)
    before = store.last_seq
    again = taken(store, path, path)
    assert (again.added, again.known, again.taken_count) == (0, 4, 0)
    assert store.last_seq == before


def test_more_jobs_than_are_stored_at_once_and_some_of_them_were_there(store: EventLog, tmp_path: Path) -> None:
    lines = [line(number) for number in range(1, AT_ONCE + 50)]
    taken(store, acct(tmp_path, *lines[: AT_ONCE // 2]))
    done = taken(store, acct(tmp_path, *lines))
    assert (done.added, done.known) == (len(lines) - AT_ONCE // 2, AT_ONCE // 2)
    assert numbers(store) == list(range(1, AT_ONCE + 50))


def test_elements_of_an_array_come_one_after_the_other(store: EventLog, tmp_path: Path) -> None:
    taken(store, acct(tmp_path, *(line(12, idx=index, name="sweep[1-4]") for index in (1, 3))))
    taken(store, acct(tmp_path, *(line(12, idx=index, name="sweep[1-4]", status=32, exit=256) for index in (3, 2))))
    elements = [element_id(12, index) for index in (1, 2, 3)]
    assert sorted(numbers(store, ids=(12,))) == sorted(elements)
    told = kinds(store, 12)
    assert len(told) == 3 and all(each[0] == "job_submitted" and each.count("job_submitted") == 1 for each in told)
    assert recover(store).next_job_id == 13


FIRST_RUN = {"status": 32, "exit": 3 << 8}
LAST_RUN = {"start": 1_700_001_000, "end": 1_700_002_000}


@pytest.mark.parametrize("idx", [0, 2])
@pytest.mark.parametrize("is_newest_first", [False, True])
def test_runs_of_a_job_that_was_requeued(store: EventLog, tmp_path: Path, idx: int, *, is_newest_first: bool) -> None:
    runs = [line(5, idx=idx, **FIRST_RUN), line(5, idx=idx, **LAST_RUN)]  # type: ignore[arg-type]
    path = acct(tmp_path, *(reversed(runs) if is_newest_first else runs))
    done = taken(store, path)
    assert (done.added, done.runs, done.known, done.taken_count) == (1, 1, 0, 0)
    assert "1 further runs of requeued jobs are there as well" in summary(done)
    number = element_id(5, idx)
    history = History(store.place)
    (account,) = read_accounts(history, AccountFilter(ids=(number,)), jobs=True)
    (costs,) = next(read_costs(history, AccountFilter(ids=(number,))))
    ends = {row.job_id: (row.state, row.finished_at) for row in history.rows_of([5, number])}
    history.close()
    assert account.job is not None and account.job.result is not None
    assert (account.job.state, account.job.result.exit_code, account.finished_at) == ("DONE", 0, 1_700_002_000)
    assert costs.finished_at == 1_700_002_000
    assert ends == {number: ("DONE", 1_700_002_000)} | ({5: ("", 1_700_002_000)} if idx else {})
    run = ["job_dispatched", "job_started"]
    assert kinds(store, number) == [["job_submitted", "job_noted", *run, "job_requeued", *run, "job_finished"]]
    before = store.last_seq
    again = taken(store, path)
    assert (again.added, again.runs, again.known, store.last_seq) == (0, 0, 2, before)


def test_a_number_that_another_job_has_is_left_out_and_named(store: EventLog, tmp_path: Path) -> None:
    spec = JobSpec(command="x", user="ann", queue="q")
    ended = AttemptResult(exit_code=0)
    facts = [JobSubmitted(at=1.0, job_id=1, spec=spec), JobFinished(at=2.0, job_id=1, attempt=0, result=ended)]
    row = JobRow(job_id=1, user="ann", queue="q", state="DONE", submitted_at=1.0, finished_at=2.0)
    array = JobSpec(command="x", user="ann", queue="q", indices="1-2", name="a")
    rows = [row, JobRow(job_id=2, user="ann", queue="q", state="PEND", submitted_at=1.0)]
    store.append([*facts, JobSubmitted(at=1.0, job_id=2, spec=array)], rows)
    done = taken(store, acct(tmp_path, line(1), line(2, idx=1), line(3), line(3, submit=1_700_000_100)))
    assert (done.added, done.taken_count, done.taken) == (1, 3, ["1", "2[1]", "3"])
    assert "3 are left out, because other jobs have their numbers: 1 2[1] 3" in summary(done)
    history = History(store.place)
    assert [decode_event(each.payload.encode()) for each in history.events_of(1)] == facts
    history.close()


def test_broken_lines_are_counted_and_the_first_ten_named(store: EventLog, tmp_path: Path) -> None:
    lines = [line(1), *("rubbish" for _ in range(14)), '"JOB_RESIZE" "10.1" 1', "# 1", "", line(2)[:90], line(3)]
    path = acct(tmp_path, *lines)
    with open(path, "ab") as file:
        file.write(b"\xff\xfe\0" + b"x" * (3 << 20) + b"\n" + line(4).encode() + b"\n" + line(5).encode()[:300])
    done = taken(store, path)
    assert (done.added, done.broken_count, done.others, len(done.broken)) == (3, 17, 1, 10)
    assert done.broken[0] == f"{path}:2: it begins with no kind of record, such as JOB_FINISH"
    assert numbers(store) == [1, 3, 4]
    assert summary(done)[-1] == "  ..."


def test_no_line_takes_the_last_number_or_leaves_an_event_that_cannot_be_read(store: EventLog, tmp_path: Path) -> None:
    lines = [line(4294967295), line(2147483646), line(2147483645), line(7).replace("12.500000", "1e400")]
    done = taken(store, acct(tmp_path, *lines, line(8, command="a\0b")))
    assert (done.added, done.broken_count, done.highest) == (1, 4, 2147483645)
    assert recover(store).next_job_id == store.mark.next_job_id == LARGEST_JOB_NUMBER


def test_what_cannot_be_read_again_is_not_stored(
    store: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(record: Record, cluster: str, now: float) -> PastJobRecorded:
        return msgspec.structs.replace(past_job(record, cluster, now), finished_at=float("inf"))

    monkeypatch.setattr(history_import, "past_job", broken)
    done = taken(store, acct(tmp_path, line(7)))
    assert (done.added, done.broken_count) == (0, 1) and "the history cannot keep it: " in done.broken[0]
    assert store.last_seq == 0


def test_a_file_that_is_none(store: EventLog, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        with pytest.raises(BadRequest, match=str(path)):
            taken(store, str(path))
