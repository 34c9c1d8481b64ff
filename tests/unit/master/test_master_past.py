"""The process that reads for the master: what it answers, and that it comes back and goes with the master."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from gsched.base.errors import BadRequest, Unavailable
from gsched.master.past import reading
from gsched.master.past.answering import history_reply
from gsched.master.past.reader import SOCKET, PastReader
from gsched.model.event import JobSubmitted
from gsched.model.jobs.job import JobSpec
from gsched.model.views.past_query import HistoryQuery, JobTimes
from gsched.model.views.view import EventRecord, JobFilter, JobHistory
from gsched.store.eventlog import EventLog
from gsched.store.tables.schema import IRREGULAR, JobRow
from gsched.wire.calls.past_calls import PastAnswer
from gsched.wire.messages.convert import to_proto
from gsched.wire.v1 import catalogue_pb2, past_pb2
from tests.support.folders import new_folder

SPEC = JobSpec(command="run", user="ann", queue="normal")
ActWith = Callable[[Callable[[PastReader], Coroutine[Any, Any, None]]], None]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It is only read."""
    log = EventLog(tmp_path_factory.mktemp("store") / "store.db")
    rows = [
        JobRow(
            job_id=number,
            user="ann",
            queue="normal",
            name="run",
            state="DONE",
            submitted_at=1.0,
            dispatched_at=2.0,
            finished_at=5.0,
            cpu_s=2.5,
            gpus=2.0,
            traits=IRREGULAR if number == 2 else 0,
        )
        for number in (1, 2, 3)
    ]
    log.append([JobSubmitted(at=1.0, job_id=number, spec=SPEC) for number in (1, 2, 3)], rows)
    log.close()
    return log.place


def with_reader(store: Path, folder: Path, act: Callable[[PastReader], Awaitable[None]]) -> None:
    async def main() -> None:
        reader = PastReader(store, str(folder))
        try:
            await act(reader)
        finally:
            await reader.close()

    asyncio.run(main())


@pytest.fixture(scope="module")
def reading_with(store: Path) -> Iterator[ActWith]:
    """Acts with one reader that lives on: for who does nothing to it."""
    folder = new_folder()
    with asyncio.Runner() as runner:
        reader = PastReader(store, str(folder))
        yield lambda act: runner.run(act(reader))
        runner.run(reader.close())
    shutil.rmtree(folder)


def question(*, brief: bool) -> Any:
    return to_proto(HistoryQuery(jobs=JobFilter(finished=True), brief=brief, limit=2), past_pb2.HistoryQuery)


async def told(reader: PastReader, *, brief: bool) -> tuple[list[tuple[int, str]], float | None]:
    answer = PastAnswer(iter([reply async for reply in reader.histories(question(brief=brief))]))
    return [(each.job_id, type(each).__name__) for each in answer], answer.cut_at


def test_histories_and_accounts(reading_with: ActWith) -> None:
    async def act(reader: PastReader) -> None:
        assert await told(reader, brief=False) == ([(2, "JobHistory"), (3, "JobHistory")], 1.0)
        assert await told(reader, brief=True) == ([(2, "JobHistory"), (3, "JobTimes")], 1.0)
        asked = catalogue_pb2.AccountsRequest(brief=True)
        (reply,) = [each async for each in reader.accounts(asked)]
        found = zip(reply.columns.job_ids, reply.columns.gpu_s, reply.columns.cpu_s, strict=True)
        assert sorted(found) == [(1, 6.0, 2.5), (2, 0.0, 0.0), (3, 6.0, 2.5)], "of job 2 only its events count"
        (reply,) = [each async for each in reader.accounts(catalogue_pb2.AccountsRequest())]
        assert [each.job_id for each in reply.accounts] == [1, 2, 3]

    reading_with(act)


def test_fewer_jobs_than_none_are_refused(reading_with: ActWith) -> None:
    """It failed with a traceback in the master's log."""

    async def act(reader: PastReader) -> None:
        asked = to_proto(HistoryQuery(jobs=JobFilter(finished=True), limit=-1), past_pb2.HistoryQuery)
        with pytest.raises(BadRequest, match=r"^Bad argument: limit -1 is less than 0$"):
            [each async for each in reader.histories(asked)]

    reading_with(act)


def test_it_comes_back_when_it_was_killed(store: Path, folder: Path) -> None:
    async def act(reader: PastReader) -> None:
        await told(reader, brief=True)
        first = reader._process
        assert first is not None
        first.kill()
        first.wait()
        assert (await told(reader, brief=True))[0] == [(2, "JobHistory"), (3, "JobTimes")]
        second = reader._process
        assert second is not None and second.pid != first.pid
        await reader.close()
        assert second.poll() is not None

    with_reader(store, folder, act)


@pytest.mark.parametrize("times", [2, pytest.param(100, marks=pytest.mark.nightly)])
def test_who_asks_while_it_is_dying_has_the_answer_of_the_next(store: Path, folder: Path, times: int) -> None:
    """Its connection looks alive for a moment, and it is not dead yet for who asks the kernel."""

    async def act(reader: PastReader) -> None:
        for _ in range(times):
            await told(reader, brief=True)
            process = reader._process
            assert process is not None
            process.kill()
            answers = await asyncio.gather(*(told(reader, brief=True) for _ in range(8)))
            assert all(found == [(2, "JobHistory"), (3, "JobTimes")] for found, _ in answers)

    with_reader(store, folder, act)


def test_one_that_cannot_start_is_said(folder: Path, tmp_path: Path) -> None:
    async def act(reader: PastReader) -> None:
        with pytest.raises(Unavailable, match="the process that reads histories does not start"):
            await told(reader, brief=True)

    with_reader(tmp_path / "nothing.db", folder, act)


def test_modules_of_the_folder_where_the_master_was_started_are_not_run(
    store: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logging.py").write_text("raise SystemExit('somebody else runs')\n")
    monkeypatch.chdir(tmp_path)

    async def act(reader: PastReader) -> None:
        assert len((await told(reader, brief=True))[0]) == 2

    with_reader(store, folder, act)


def test_it_reads_where_it_may_not_change_its_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the master's unit of systemd, whose filter of system calls answers EPERM."""
    asked: list[str] = []

    class Server:
        def start(self) -> None:
            asked.append("started")

        def wait_for_termination(self) -> None:
            asked.append("ended")

    def refuse(by: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "nice", refuse)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setattr("gsched.master.past.reading._give_up_rights", lambda _: None)
    monkeypatch.setattr("threading.Thread.start", lambda _: None)
    monkeypatch.setattr("gsched.master.past.past_server.open_server", lambda *_: Server())
    assert reading.main("store", "socket") == 0
    assert asked == ["started", "ended"]


def test_more_accounts_than_were_asked_for_are_said_and_not_told(reading_with: ActWith) -> None:
    async def act(reader: PastReader) -> None:
        for most, brief, count in ((0, True, 3), (3, True, 3), (2, True, 0), (2, False, 0)):
            request = catalogue_pb2.AccountsRequest(brief=brief, jobs=not brief, most=most)
            replies = [reply async for reply in reader.accounts(request)]
            assert [reply.are_more for reply in replies] == [not count]
            assert sum(len(reply.columns.job_ids) + len(reply.accounts) for reply in replies) == count

    reading_with(act)


def test_it_steps_back_behind_other_sessions_too(reading_with: ActWith) -> None:
    """Linux weighs sessions against each other: nice in the master's own it would be nice to the master alone."""

    async def act(reader: PastReader) -> None:
        await told(reader, brief=True)
        assert reader._process is not None
        pid = reader._process.pid
        assert os.getsid(pid) == pid
        group = Path(f"/proc/{pid}/autogroup")
        if not group.exists():
            pytest.skip("this kernel does not weigh sessions")
        assert group.read_text().split()[-1] == str(reading.SESSION_NICENESS)

    reading_with(act)


def test_it_ends_with_the_master_and_is_kinder_than_it(store: Path, folder: Path) -> None:
    words = [sys.executable, "-m", "gsched.master.past.reading", str(store), str(folder / SOCKET)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None

        def is_kinder() -> bool:
            own = os.getpriority(os.PRIO_PROCESS, 0)
            return own == 19 or os.getpriority(os.PRIO_PROCESS, process.pid) > own

        async def until_it_serves() -> None:
            while not ((folder / SOCKET).exists() and is_kinder()):
                assert process.poll() is None
                await asyncio.sleep(0.01)

        asyncio.run(asyncio.wait_for(until_it_serves(), 120))
        told = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        rights = ("NoNewPrivs", "Umask", "CapEff", "CapPrm")
        assert [told[each].strip() for each in rights] == ["1", "0077", "0" * 16, "0" * 16]
        assert resource.prlimit(process.pid, resource.RLIMIT_CORE) == (0, 0)
        process.stdin.close()  # as the kernel does when the master is killed
        assert process.wait(60) == 0


def test_both_kinds_of_histories_travel_in_order() -> None:
    record = EventRecord(seq=1, at=2.0, kind="job_submitted", job_id=5, payload="{}")
    page = [
        JobTimes(1, "ann", "a", 1.0),
        JobHistory(job_id=5, events=(record,)),
        JobTimes(7, "bob", "b", 1.0, 2.0, 3.0),
    ]
    assert list(PastAnswer(iter([history_reply(page, None)]))) == page
