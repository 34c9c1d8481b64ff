"""Sessions that change jobs, and numbers of processes that become others' while somebody asks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gsched.agent.logins import login_askers, login_server, login_sessions, session_moves
from gsched.agent.logins.login_askers import Asker, Opener, asker_of, opener_of
from gsched.agent.logins.login_rules import LoginAnswer, LoginJob, LoginVerdict
from gsched.agent.logins.login_server import LoginServer
from gsched.agent.logins.login_sessions import HostLogins
from gsched.agent.logins.session_moves import MoveTurns, SessionTooLargeError, move_session, put, session_chain
from gsched.run.fence import cgroup_files
from gsched.run.processes import process_tree
from gsched.run.processes.process_tree import Process, read_process
from gsched.run.supervisor.run_limits import inherit_limits
from gsched.wire.identity.socket_peer import peer_of
from tests.support.folders import new_folder

HANG_S = 120


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for sockets."""
    folder = new_folder()
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def child(code: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that has done this, and ends when its input is closed. It leads a session."""
    words = [sys.executable, "-c", f"import os, sys\n{code}\nprint('ready', flush=True)\nsys.stdin.read()"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as done:
        assert done.stdout is not None
        assert done.stdout.readline() == "ready\n"
        yield done


def living(pid: int) -> Process:
    found = read_process(pid)
    assert found is not None
    return found


def earlier(process: Process) -> Process:
    """One that had the number before."""
    before = living(process.pid)
    before.start -= 1
    return before


class Group:
    """Notes who is put into it."""

    def __init__(self) -> None:
        self.members: list[int] = []

    def add(self, pid: int) -> None:
        self.members.append(pid)

    def pids(self) -> list[int]:
        return self.members


def order(**limits: float) -> Any:
    """What is used of an order."""
    return SimpleNamespace(cpus=(), limits=limits)


# -- a number that becomes another's ----------------------------------------------------------------------------------


def test_a_number_that_is_anothers_is_not_put_into_a_group() -> None:
    group: Any = Group()
    with child() as other:
        with pytest.raises(ProcessLookupError):
            put(earlier(living(other.pid)), group, order(CORELIMIT=7))
        assert group.members == [] and resource.prlimit(other.pid, resource.RLIMIT_CORE)[0] != 7 * 1024
        put(living(other.pid), group, order(CORELIMIT=0))
        assert group.members == [other.pid] and resource.prlimit(other.pid, resource.RLIMIT_CORE) == (0, 0)


def test_who_gets_the_number_meanwhile_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has been put into the group when it is noticed."""
    back: list[tuple[str, int, int]] = []
    monkeypatch.setattr(cgroup_files, "join", lambda pid, other: back.append(("groups", pid, other)))
    monkeypatch.setattr(session_moves, "inherit_limits", lambda pid, other: back.append(("limits", pid, other)))
    group: Any = Group()
    with child() as other:
        with pytest.raises(ProcessLookupError):
            put(earlier(living(other.pid)), group, order(CORELIMIT=0), is_there=lambda: True)
        assert group.members == [other.pid]
        assert back == [("groups", other.pid, os.getpid()), ("limits", other.pid, os.getpid())]


def test_limits_go_back_to_those_of_the_parent() -> None:
    own = resource.getrlimit(resource.RLIMIT_STACK)
    with child() as other:
        resource.prlimit(other.pid, resource.RLIMIT_STACK, (1 << 20, own[1]))
        inherit_limits(other.pid, os.getpid())
        assert resource.prlimit(other.pid, resource.RLIMIT_STACK) == own


@pytest.mark.needs_root
def test_a_process_goes_back_to_the_groups_of_its_parent() -> None:
    mounts = cgroup_files.hierarchies()
    if os.geteuid() != 0 or not mounts:
        pytest.skip("needs root and control groups")
    name = "freezer" if "freezer" in mounts else ""
    folder = Path(mounts[name][0], f"gsched-join-{os.getpid()}")
    folder.mkdir()
    try:
        with child() as moved:
            was = Path(f"/proc/{moved.pid}/cgroup").read_text()
            cgroup_files.write(f"{folder}/cgroup.procs", str(moved.pid))
            assert Path(f"/proc/{moved.pid}/cgroup").read_text() != was
            cgroup_files.join(moved.pid, os.getpid())
            assert Path(f"/proc/{moved.pid}/cgroup").read_text() == was
    finally:
        folder.rmdir()


# -- who asks ---------------------------------------------------------------------------------------------------------

CONNECTING = "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({path!r})"


@contextlib.contextmanager
def asking(place: Path) -> Iterator[tuple[Asker, subprocess.Popen[str]]]:
    """A process that has connected and waits."""
    path = str(place / "asked")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        with (
            child(CONNECTING.format(path=path)) as process,
            listening.accept()[0] as connection,
            asker_of(connection, peer_of(connection)) as asker,
        ):
            yield asker, process
    (place / "asked").unlink()


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_who_has_given_up_is_nobody_whoever_has_the_number(
    place: Path, monkeypatch: pytest.MonkeyPatch, has_pidfd: bool
) -> None:
    if not has_pidfd:
        monkeypatch.setattr(login_askers, "SO_PEERPIDFD", 1 << 20)
    with asking(place) as (asker, process):
        found = asker.process()
        assert found is not None and found.pid == process.pid
        now = living(process.pid)
        process.communicate("")
        monkeypatch.setattr(process_tree, "read_process", lambda pid: now)  # another has it, even begun at that moment
        assert asker.process() is None
    monkeypatch.undo()
    with asking(place) as (asker, process):
        monkeypatch.setattr(process_tree, "read_process", lambda pid: earlier(process_now))
        process_now = living(process.pid)
        assert asker.process() is None


def test_an_opener_is_there_while_it_waits_for_gsched_pam(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with asking(place) as (asker, process):
        opener = Opener(living(os.getpid()), asker)
        assert opener.is_there() and not Opener(earlier(living(os.getpid())), asker).is_there()
        assert not Opener(living(os.getppid()), asker).is_there()
        process.communicate("")
        assert not opener.is_there()
        told = opener_of(asker)
        assert told == "gsched-pam waits no longer"


def test_a_daemon_of_roots_is_no_session(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the sshd that listens: its children ask as gsched-pam when they are what root has made of them."""
    with asking(place) as (asker, _):
        parent = living(os.getpid())
        monkeypatch.setattr(process_tree, "owner_of", lambda pid: 0)
        monkeypatch.setattr(process_tree, "ancestors", lambda pid: iter(()))
        real = process_tree.read_process
        monkeypatch.setattr(process_tree, "read_process", lambda pid: parent if pid == parent.pid else real(pid))
        parent.ppid, parent.session = 1, parent.pid
        assert isinstance(opener_of(asker), str)
        parent.session = 1
        assert isinstance(opener_of(asker), Opener)


# -- how much is moved, and how often ---------------------------------------------------------------------------------


def test_a_user_moves_one_session_every_few_seconds() -> None:
    turns = MoveTurns(3.0, 6.0)
    assert [turns.take(7, now) for now in (10.0, 10.0, 11.0, 11.0)] == [0.0, 3.0, 5.0, None]
    assert turns.take(8, 11.0) == 0.0 and turns.take(7, 20.0) == 0.0


def test_the_shell_that_asked_is_moved_with_what_is_above_and_below() -> None:
    forking = "[os.fork() or os.execvp('sleep', ['sleep', '1000']) for _ in range(3)]"
    with child(forking) as shell, child() as elsewhere:
        below = [each.pid for each in process_tree.family(shell.pid)]
        assert len(below) == 3
        try:
            chain = session_chain(below[0], {*below, shell.pid, os.getpid()}, ())
            assert [each.pid for each in chain] == [below[0], shell.pid, os.getpid()]
            assert session_chain(below[0], {*below, shell.pid}, {shell.pid}) == []
            group: Any = Group()
            move_session(chain, group, order())
            assert sorted(group.members) == sorted([*below, shell.pid, os.getpid()])
            assert elsewhere.pid not in group.members and group.members[:2] == [os.getpid(), shell.pid]
        finally:
            for pid in below:
                os.kill(pid, 9)


def test_a_large_session_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_moves, "MOST_PROCESSES", 2)
    with child("[os.fork() or os.execvp('sleep', ['sleep', '1000']) for _ in range(3)]") as shell:
        below = [each.pid for each in process_tree.family(shell.pid)]
        assert len(below) == 3 and len(process_tree.family(shell.pid, 1)) == 2
        try:
            group: Any = Group()
            with pytest.raises(SessionTooLargeError):
                move_session([living(shell.pid)], group, order())
            assert group.members == []
            with pytest.raises(SessionTooLargeError):
                session_chain(below[0], {*below}, ())
        finally:
            for pid in below:
                os.kill(pid, 9)


class Sessions(HostLogins):
    """Of a user with the job 7, whose session is asked about or taken to the job 9 by `work`, in a thread."""

    def __init__(self, work: Callable[[], None]) -> None:
        executor: Any = SimpleNamespace(order=lambda *_: None)
        super().__init__("h1", executor, lambda: {(7, 1): None, (9, 1): None})  # type: ignore[dict-item]
        self._cgroup_root: Any = object()
        self.work = work
        self.at_once, self.most_at_once = 0, 0

    def _jobs(self, uid: int) -> list[LoginJob]:
        return [LoginJob((7, 1), 1.0), LoginJob((9, 1), 2.0)]

    def _place_of(self, asker: Asker) -> tuple[tuple[int, int], bool]:
        self._working()
        return (7, 1), True

    def _move(self, asker: Asker, wanted: tuple[int, int]) -> tuple[int, int]:
        self._working()
        return wanted

    def _working(self) -> None:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        self.work()
        self.at_once -= 1


def test_the_agent_goes_on_while_a_user_keeps_it_at_work() -> None:
    """With many questions of one user that take as long as they like."""
    let_go = threading.Event()
    logins = Sessions(lambda: None if let_go.wait(HANG_S) else pytest.fail("the loop stood still"))
    asker: Any = SimpleNamespace(pid=1, uid=1000)

    async def run() -> list[tuple[dict[str, str], str]]:
        let_go.clear()
        asked = [asyncio.create_task(logins.describe(asker, "9")) for _ in range(20)]
        for _ in range(10):  # others are served meanwhile
            await asyncio.to_thread(lambda: None)
        assert not any(task.done() for task in asked)
        let_go.set()
        return await asyncio.gather(*asked)

    logins._turns = MoveTurns(0.0, 6.0)
    told = asyncio.run(run())
    assert {line for _, line in told} == {""} and logins.most_at_once == 1
    logins._turns = MoveTurns(1e6, 0.0)
    lines = [line for _, line in asyncio.run(run())]
    assert lines.count("") == 1 and all(not line or "change jobs too often" in line for line in lines)


def test_a_session_that_is_too_large_is_told_so() -> None:
    def work() -> None:
        raise SessionTooLargeError

    logins = Sessions(lambda: None)
    logins._move = lambda asker, wanted: work()  # type: ignore[method-assign, assignment, func-returns-value]
    asker: Any = SimpleNamespace(pid=1, uid=1000)
    _, line = asyncio.run(logins.describe(asker, "9"))
    assert "GSCHED_JOB=9: this session has more than 500 processes" in line and "\n" not in line


def test_one_user_does_not_take_all_connections(place: Path) -> None:
    class Slow(HostLogins):
        def __init__(self) -> None:
            self.let_go = asyncio.Event()

        async def describe(self, asker: Asker, wanted: str) -> tuple[dict[str, str], str]:
            await self.let_go.wait()
            return {}, "answered"

    async def run() -> list[bytes]:
        logins = Slow()
        server = LoginServer(str(place), logins)
        await server.open()
        made = []
        for _ in range(login_server.MOST_OF_USER + 1):
            made.append(await asyncio.open_unix_connection(str(place / login_server.SESSION_SOCKET)))
            made[-1][1].write(b"{}\n")
        refused = await made[-1][0].readline()
        logins.let_go.set()
        answers = [await reader.readline() for reader, _ in made[:-1]]
        for _, writer in made:
            writer.close()
        server.close()
        return [refused, *answers]

    refused, *answers = asyncio.run(run())
    assert b"more than 8 sessions" in refused and all(b"answered" in each for each in answers)


def test_a_service_manager_of_the_user_is_warned_of(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Joining(Sessions):
        async def _admitted(self, user: str, uid: int, wanted: str, opener: Opener | None) -> LoginVerdict:
            return LoginVerdict(self.answer, None)

        def _is_inside(self, opener: Opener) -> bool:
            return False

        answer = LoginAnswer.JOIN

    monkeypatch.setattr(login_sessions, "USER_MANAGER", f"{place}/{{uid}}")
    logins, opener = Joining(lambda: None), Opener(living(os.getpid()), None)  # type: ignore[arg-type]

    def warned(answer: LoginAnswer) -> bool:
        caplog.clear()
        logins.answer = answer
        asyncio.run(logins.admit("alice", 1000, "", opener))
        return "pam_systemd" in caplog.text

    assert not warned(LoginAnswer.JOIN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{place}/1000")
        listening.listen()
        assert warned(LoginAnswer.JOIN) and warned(LoginAnswer.NO_GPU) and not warned(LoginAnswer.FREE)


def test_who_is_in_a_group_without_a_session_of_ours_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a daemon of root's would be that got there by mistake: all who log in by it would be let in."""
    logins = Sessions(lambda: None)
    logins._executor.started = lambda *_: None  # type: ignore[method-assign]
    monkeypatch.setattr(cgroup_files, "places_of", lambda pid: ["/gsched/ab/7.1"])
    monkeypatch.setattr(logins, "_is_own", lambda place: True)
    opener = Opener(living(os.getpid()), None)  # type: ignore[arg-type]
    assert not logins._is_inside(opener)
    logins._note_root(opener)
    assert logins._is_inside(opener)
