"""Notices on a host: each is sent once as far as anybody can know, tried again, and outlives whatever is killed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import stat
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from fork_server import fork_server

from gsched.agent.notices import notice_delivery
from gsched.agent.notices.notice_delivery import BACK_OFF_S, NoticeDelivery
from gsched.agent.notices.notice_files import KeptNotice, RunHeader
from gsched.agent.notices.notice_texts import line_of, payload
from gsched.base.clock import SystemClock
from gsched.base.coded_text import coded, sentence
from gsched.base.errors import Conflict
from gsched.model.jobs.notice import Notice, NoticeEnd, NoticeJob
from gsched.run.account import UnixAccount
from gsched.run.fork_server_client import ForkServer
from gsched.run.order import Fence
from gsched.wire.messages.convert import fill, from_proto
from gsched.wire.v1 import agent_pb2
from tests.support.hook_server import PATIENCE_S, HookServer, hook_server

JOB = NoticeJob(label="17", name='a "b"\nc <!channel>', queue="normal", state="DONE", submitted_at=1.0, run_s=7384.0)


def notice(number: int = 1, **changes: Any) -> Notice:
    values: dict[str, Any] = {"user": "ann", "event": "end", "at": 100.0 + number, "way": "webhook", "place": 0}
    values |= {"job": JOB, "targets": "t", "job_id": 17, "host": "h", "notice_id": f"{number:032x}"}
    return Notice(**(values | changes))


def order(what: Notice, to: str, **more: Any) -> agent_pb2.SendNotice:
    message = agent_pb2.SendNotice(cluster="night", to=to, **more)
    fill(message.notice, what)
    return message


class NoGroups:
    """A host without control groups."""

    def take_up(self, user: str) -> None: ...

    async def make(self, user: str) -> Fence | None:
        return None

    def end(self, user: str) -> None: ...


class Host:
    """One agent's notices, with a real fork server, and what the master was told."""

    def __init__(self, spool: Path, forks: ForkServer) -> None:
        self.forks = forks
        self.told: list[NoticeEnd] = []
        self._news = asyncio.Event()
        self.refused = ""
        self.notices = NoticeDelivery(
            "h", spool, SystemClock(), run=forks.run, account=self._account, groups=NoGroups(), send=self._hear
        )

    async def _account(self, user: str) -> UnixAccount | None:
        if user == self.refused:
            raise Conflict(coded("account.unknown", user, "h"))
        return None

    def _hear(self, message: agent_pb2.AgentMessage) -> None:
        self.told.append(from_proto(message.notice_end, NoticeEnd))
        self._news.set()

    async def hears(self, count: int) -> list[NoticeEnd]:
        """Wait until so much was told."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.told) < count:
                self._news.clear()
                await self._news.wait()
        return self.told

    def hello(self) -> agent_pb2.Hello:
        hello = agent_pb2.Hello()
        self.notices.fill_hello(hello)
        return hello

    async def keeps(self, count: int) -> None:
        """Wait until so many are on disk."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.hello().notices) + len(self.hello().notice_ends) < count:
                await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def host(spool: Path) -> AsyncIterator[Host]:
    with fork_server() as server:
        found = Host(spool, server)
        found.notices.adopt()
        try:
            yield found
        finally:
            found.notices.close()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many tries as ever, without the time between them."""
    monkeypatch.setattr(notice_delivery, "BACK_OFF_S", (0.0,) * len(BACK_OFF_S))


def play(story: Callable[[HookServer], Coroutine[Any, Any, None]], *answers: str) -> HookServer:
    with hook_server(*answers) as server:
        asyncio.run(story(server))
    return server


def ids(server: HookServer) -> list[str]:
    return [each.headers["Idempotency-Key"] for each in server.received]


def test_it_is_sent_told_and_forgotten(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(), server.url()))
            (end,) = await here.hears(1)
            assert (end.notice_id, end.problem, end.tries) == (notice().notice_id, "", 1)
            assert [each.notice_id for each in here.hello().notice_ends] == [notice().notice_id]
            here.notices.order(order(notice(), server.url()))  # the master has not heard it
            assert len(await here.hears(2)) == 2
            here.notices.forget([notice().notice_id])
            assert here.hello() == agent_pb2.Hello() and not list((spool / "notices").iterdir())

    server = play(story)
    assert ids(server) == [notice().notice_id]
    told = server.received[0].told
    assert (told["id"], told["event"], told["cluster"]) == (notice().notice_id, "end", "night")
    assert told["text"] == 'Job 17 (a "b" c <!channel>) of cluster night is done on ? after 2:03:04'
    assert told["job"]["name"] == JOB.name


def test_slack_s_form_calls_nobody(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(), server.url(), form="slack"))
            await here.hears(1)

    told = play(story).received[0].told
    assert list(told) == ["text"] and '(a "b" c &lt;!channel&gt;)' in told["text"]


def test_it_is_tried_again_under_the_same_id(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(), server.url()))
            (end,) = await here.hears(1)
            assert (end.problem, end.tries) == ("", 3)

    server = play(story, "500", "429 Retry-After: 0")
    assert ids(server) == [notice().notice_id] * 3
    assert [each.headers["X-Gsched-Try"] for each in server.received] == ["1", "2", "3"]


def test_who_wants_to_be_left_alone_is_left_alone(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(), server.url()))
            await asyncio.to_thread(server.wait)
            path = spool / "notices" / f"{notice().notice_id}.json"
            async with asyncio.timeout(PATIENCE_S):
                while not (kept := msgspec.json.decode(path.read_bytes())).get("tries"):
                    await asyncio.sleep(0)
            assert kept["due"] - SystemClock().now() > 500

    assert len(play(story, "429 Retry-After: 600").received) == 1


def test_tries_have_an_end_and_what_is_wrong_for_good_is_tried_once(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(1), server.url()))
            (end,) = await here.hears(1)
            assert (sentence(end.problem), end.tries) == ("HTTP status 500", len(BACK_OFF_S) + 1)
            server.answers = ["404"]
            here.notices.order(order(notice(2), server.url()))
            _, end = await here.hears(2)
            assert (sentence(end.problem), end.tries) == ("HTTP status 404", 1)

    play(story, *["500"] * 100)


def test_a_user_whose_server_does_not_answer_holds_up_nobody_else(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(1, user="bob"), server.url()))
            await asyncio.to_thread(server.wait)
            here.notices.order(order(notice(2), server.url()))
            (end,) = await here.hears(1)
            assert end.notice_id == notice(2).notice_id
            server.go_on.set()
            await here.hears(2)

    play(story, "wait")


def test_what_came_first_is_sent_first_and_many_go_together(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            for number in (5, 1, 3, 2, 4):
                here.notices.order(order(notice(number), server.url()))
            await here.hears(5)

    assert ids(play(story)) == [notice(number).notice_id for number in (1, 2, 3, 4, 5)]


def senders(pid: int | None) -> list[psutil.Process]:
    """What the fork server `pid` has started to send notices. Another agent of the machine has senders as well."""
    return [
        each for each in psutil.Process(pid).children(recursive=True) if "notices.sender" in " ".join(each.cmdline())
    ]


async def killed_while_it_waits(spool: Path, server: HookServer) -> list[psutil.Process]:
    """An agent that is killed while the server has the request and has not answered; its senders, which go on."""
    async with host(spool) as before:
        before.notices.order(order(notice(), server.url()))
        await asyncio.to_thread(server.wait)
        return senders(before.forks.pid)


def test_an_agent_that_is_killed_meanwhile_neither_loses_nor_repeats_it(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        await killed_while_it_waits(spool, server)
        async with host(spool) as after:
            assert list(after.hello().notices) == [notice().notice_id]
            after.notices.order(order(notice(), server.url()))
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(server.received) == 1  # its sender still waits, and nobody else sends
            server.go_on.set()
            (end,) = await after.hears(1)
            assert (end.problem, end.tries) == ("", 1)

    assert len(play(story, "wait").received) == 1


def test_after_a_sender_was_killed_it_is_sent_again_under_its_id(spool: Path) -> None:
    """Whether it had arrived nobody can know."""

    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(), server.url()))
            await asyncio.to_thread(server.wait)
            (sender,) = senders(here.forks.pid)
            sender.kill()
            (end,) = await here.hears(1)
            assert (end.problem, end.tries) == ("", 2)

    server = play(story, "wait")
    assert ids(server) == [notice().notice_id] * 2


def test_a_fork_server_that_dies_meanwhile_takes_no_sender_along(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(), server.url()))
            await asyncio.to_thread(server.wait)
            assert here.forks.pid is not None
            os.kill(here.forks.pid, signal.SIGKILL)
            server.go_on.set()
            (end,) = await here.hears(1)
            assert (end.problem, end.tries) == ("", 1)

    assert len(play(story, "wait").received) == 1


def test_agent_and_sender_killed_together(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        (sender,) = await killed_while_it_waits(spool, server)
        sender.kill()
        async with host(spool) as after:
            (end,) = await after.hears(1)
            assert (end.problem, end.tries) == ("", 2)

    assert ids(play(story, "wait")) == [notice().notice_id] * 2


def test_what_a_journal_says_counts_however_often_it_is_read(spool: Path) -> None:
    """The agent was killed when the sender had ended, or between taking its journal into account and removing it."""

    async def story(server: HookServer) -> None:
        async with host(spool) as before:
            before.refused = "ann"
            before.notices.order(order(notice(), server.url()))
            await before.keeps(1)
        files = before.notices._files
        for number in (1, 2):
            journal = files.new_journal(RunHeader(user="ann", notice_ids=(notice().notice_id,)))
            with journal.open("a") as file:
                file.write(f"try {notice().notice_id} 7\nnonsense\nend {notice().notice_id} 7 {{}}\n")
            async with host(spool) as after:
                (end,) = await after.hears(1) if number == 1 else [from_proto(after.hello().notice_ends[0], NoticeEnd)]
                assert (end.problem, end.tries) == ("", 7)
                async with asyncio.timeout(PATIENCE_S):
                    while files.journals():
                        await asyncio.sleep(0)

    assert not play(story).received


def test_a_journal_says_nothing_of_other_notices(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as before:
            before.refused = "ann"
            before.notices.order(order(notice(), server.url()))
            await before.keeps(1)
        journal = before.notices._files.new_journal(RunHeader(user="bob", notice_ids=()))
        with journal.open("a") as file:
            file.write(f"try {notice().notice_id} 7\nend {notice().notice_id} 7 {{}}\n")
        async with host(spool) as after:
            (end,) = await after.hears(1)
            assert (end.problem, end.tries) == ("", 1)

    assert len(play(story).received) == 1


def test_a_full_disk_holds_it_up_and_nobody_is_told_that_it_has_arrived(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            monkeypatch.setattr(notice_delivery, "REWRITE_S", 0.0)
            with monkeypatch.context() as full:
                tried = asyncio.Event()
                loop = asyncio.get_running_loop()

                def write_each(kept: object) -> None:
                    loop.call_soon_threadsafe(tried.set)
                    raise OSError(errno.ENOSPC, "No space left on device")

                full.setattr(here.notices._files, "write_each", write_each)
                here.notices.order(order(notice(), server.url()))
                async with asyncio.timeout(PATIENCE_S):
                    await tried.wait()
                assert here.hello() == agent_pb2.Hello()
            (end,) = await here.hears(1)
            assert end.problem == ""

    assert len(play(story).received) == 1


def test_a_fault_of_this_program_makes_no_loop(
    spool: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[str] = []

    def delivery(kept: KeptNotice, host: str) -> None:
        begun.append(kept.user)
        raise ZeroDivisionError

    monkeypatch.setattr(notice_delivery, "FAULT_S", 3600.0)

    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            with monkeypatch.context() as broken:
                broken.setattr(notice_delivery, "delivery", delivery)
                here.notices.order(order(notice(1), server.url()))
                async with asyncio.timeout(PATIENCE_S):
                    while "notices of user ann are not sent for now" not in caplog.text:
                        await asyncio.sleep(0)
            here.notices.order(order(notice(2, user="bob"), server.url()))
            (end,) = await here.hears(1)
            assert (end.notice_id, end.problem) == (notice(2).notice_id, "")

    play(story)
    assert begun == ["ann"]


def test_one_that_cannot_be_read_holds_up_no_other(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(server: HookServer) -> None:
        (spool / "notices").mkdir()
        (spool / "notices" / f"{'a' * 32}.json").write_text('{"torn')
        (spool / "notices" / f"{'b' * 32}.json.new").write_text("{")
        async with host(spool) as here:
            here.notices.order(order(notice(), server.url()))
            await here.hears(1)

    play(story)
    assert "cannot be read, and nobody is told what it says" in caplog.text


def test_a_user_whom_the_host_does_not_know(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.refused = "ann"
            here.notices.order(order(notice(), server.url()))
            (end,) = await here.hears(1)
            assert "ann" in sentence(end.problem) and end.tries == len(BACK_OFF_S) + 1

    assert not play(story).received


def test_a_sender_that_cannot_even_begin_is_not_started_for_ever(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice_delivery, "PRELUDE", "import sys; sys.exit(3)")

    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(), server.url()))
            (end,) = await here.hears(1)
            assert "ended with exit code 3 before it had begun" in sentence(end.problem)
            assert end.tries == len(BACK_OFF_S) + 1

    play(story)


def test_what_is_kept_of_it_is_for_the_agent_alone(spool: Path) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(), server.url()))
            await asyncio.to_thread(server.wait)
            paths = list((spool / "notices").iterdir())
            assert {path.suffix for path in paths} == {".json", ".run"}
            assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
            assert stat.S_IMODE((spool / "notices").stat().st_mode) == 0o700
            server.go_on.set()
            await here.hears(1)

    old = os.umask(0)
    try:
        play(story, "wait")
    finally:
        os.umask(old)


@pytest.mark.parametrize("bad", ["../../etc/x", "", "X" * 32, "a" * 65, "a/b"])
def test_an_id_is_never_a_path(spool: Path, bad: str) -> None:
    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(notice_id=bad), server.url()))
            here.notices.order(order(notice(), server.url()))
            await here.hears(1)
            here.notices.forget([notice().notice_id])
            assert here.hello() == agent_pb2.Hello()

    assert ids(play(story)) == [notice().notice_id] and list(spool.rglob("*.json")) == []


def test_a_program_and_mail_are_told_the_same(spool: Path) -> None:
    program = spool / "program"
    program.write_text(f'#!/bin/sh\necho "$GSCHED_NOTICE_EVENT $LSB_JOBID $*" >> {spool}/out; cat >> {spool}/out\n')
    program.chmod(0o700)

    async def story(server: HookServer) -> None:
        async with host(spool) as here:
            here.notices.order(order(notice(1, way="command"), f"{program} x"))
            await here.hears(1)
            here.notices.order(order(notice(2, way="mail"), "ann@site", mail_program=f"{program} -oi"))
            await here.hears(2)

    play(story)
    text = (spool / "out").read_text()
    assert text.startswith('end 17 x\n{"id": ') and "  -oi ann@site\n" in text
    assert 'Subject: Job 17 (a "b" c <!channel>) of cluster night is done' in text.replace("\n ", " ")
    assert f"Message-ID: <{notice(2).notice_id}@h>" in text and "state:         DONE\n" in text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"event": "start", "job": {"hosts": ("g1", "g2"), "state": "RUN"}}, "has started on g1, g2"),
        ({"event": "fail", "job": {"hosts": ("g1",), "why": "it broke"}}, "has failed on g1 after 2:03:04: it broke"),
        ({"event": "fail", "job": {"run_s": None, "why": "x"}}, "has ended without having run: x"),
        ({"event": "start", "job": {"elements": {"PEND": 2, "RUN": 1}}}, "has started"),
        ({"event": "fail", "job": {"elements": {"DONE": 2, "EXIT": 1}}}, "is over: 2 DONE, 1 EXIT"),
        ({"event": "warning", "what": coded("notice.host_lost", "g1")}, ": its host g1 does not answer"),
    ],
)
def test_what_it_says(changes: dict[str, Any], text: str) -> None:
    job = msgspec.structs.replace(JOB, name="train", **changes.pop("job", {}))
    what = notice(job=job, **changes)
    assert line_of(what, "night").removeprefix("Job 17 (train) of cluster night").strip() == text
    told = payload(what, "night")
    assert told["job"]["state"] == job.state and ("warning" in told) is (what.event == "warning")
