"""Programs that the agent has run by the fork server: real ones, as others and in groups of their own."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import socket
import stat
import tempfile
from pathlib import Path

import pytest
from run_host import Host, appears
from test_run_account import USER

from gsched.run.account import look_up
from gsched.run.fence import cgroup_files
from gsched.run.fence.group import make_fenced
from gsched.run.order import Fence
from gsched.run.processes import process_tree
from gsched.run.program import MOST_PRINTED, Program

ENVIRONMENT = {"PATH": os.defpath}


def shell(text: str, *words: str, **fields: object) -> Program:
    fields.setdefault("environment", ENVIRONMENT)
    return Program(words=("sh", "-c", text, "sh", *words), **fields)  # type: ignore[arg-type]


def test_it_reads_prints_and_ends(on_host):
    async def scenario(host: Host) -> None:
        run = host.executor.run_program
        told = await run(
            shell('cat; echo "$1 $NAME"; umask; pwd; echo err >&2; exit 7', "w", stdin=b"in\n", umask=0o27)
        )
        assert told.printed.decode().split() == ["in", "w", "0027", "/", "err"]
        assert (told.exit_code, told.last_line) == (7, "err")
        odd = os.fsdecode(b"\xff")
        told = await run(shell("printenv NAME", environment={**ENVIRONMENT, "NAME": odd + "x" * 100_000}))
        assert told.printed == b"\xff" + b"x" * 100_000 + b"\n"
        assert (await run(shell("kill -9 $$"))).exit_code == 137

    on_host(scenario)


def test_what_cannot_be_executed_is_an_error_that_says_why(on_host):
    async def scenario(host: Host) -> None:
        run = host.executor.run_program
        for words, cwd in ((("/nosuch/program",), "/"), (("nosuch",), "/"), (("true",), "/nosuch")):
            with pytest.raises(OSError, match="No such file or directory"):
                await run(Program(words=words, environment=ENVIRONMENT, cwd=cwd))
        gone = Fence(kind="v2", folders=("/sys/fs/cgroup/no such group",))
        mark = host.root / "mark"
        with pytest.raises(OSError, match="No such file or directory"):
            await run(shell(f"touch '{mark}'", fence=gone))
        assert not mark.exists(), "nothing is executed outside"

    on_host(scenario)


def test_it_may_print_so_much_and_no_more_and_nobody_waits_for_its_daemons(on_host):
    async def scenario(host: Host) -> None:
        run = host.executor.run_program
        told = await run(shell("head -c 10000000 /dev/zero | tr '\\0' x; exec sleep 0"))
        assert 0 < len(told.printed) <= MOST_PRINTED
        silent = await run(shell("head -c 10000000 /dev/zero && echo fine", keeps_output=False))
        assert (silent.exit_code, silent.printed) == (0, b"")
        told = await run(shell("setsid sleep 600 & echo $!"))
        os.kill(int(told.printed), signal.SIGKILL)

    on_host(scenario)


def test_what_it_prints_can_be_added_to_a_file_whose_lock_it_has(on_host):
    async def scenario(host: Host) -> None:
        path = host.root / "journal"
        path.write_text("first\n")
        path.chmod(0o640)
        forks = host.executor.run_program
        running = asyncio.ensure_future(forks(shell(f"echo one; read line < '{host.root}/go'", output=str(path))))
        os.mkfifo(host.root / "go")
        await appears(lambda: path.read_text() == "first\none\n")
        with path.open() as file:
            with pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with pytest.raises(BlockingIOError):
                await forks(shell("echo two", output=str(path)))
            await asyncio.to_thread((host.root / "go").write_text, "on\n")
            assert (await running).exit_code == 0
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert path.read_text() == "first\none\n" and path.stat().st_mode & 0o777 == 0o640

    on_host(scenario)


def test_it_is_killed_after_its_limit_with_what_it_has_started(on_host):
    async def scenario(host: Host) -> None:
        note = host.root / "pids"
        with pytest.raises(TimeoutError):
            await host.executor.run_program(shell(f"sleep 600 & echo $! $$ > '{note}'; wait"), 2.0)
        await appears(lambda: not any(process_tree.read_process(int(pid)) for pid in note.read_text().split()))
        assert (await host.executor.run_program(shell("echo on"))).printed == b"on\n"

    on_host(scenario)


def test_a_fork_server_that_dies_meanwhile_is_told_of_and_started_anew(on_host):
    async def scenario(host: Host) -> None:
        forks = host.executor._forks
        fifo = host.root / "fifo"
        os.mkfifo(fifo)
        running = asyncio.create_task(host.executor.run_program(shell(f"read x < '{fifo}'")))
        await appears(lambda: forks.pid is not None and process_tree.family(forks.pid))
        os.kill(forks.pid, signal.SIGKILL)
        with pytest.raises(OSError, match="the fork server has ended, and nobody knows how the program did"):
            await running
        fifo.write_text("go\n")
        assert (await host.executor.run_program(shell("echo on"))).printed == b"on\n"
        assert (await host.run("true")).exit_code == 0

    on_host(scenario)


def test_no_descriptor_is_left_by_those_that_ended(on_host):
    async def scenario(host: Host) -> None:
        run = host.executor.run_program
        await run(shell("true"))
        before = len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{host.executor._forks.pid}/fd"))
        for _ in range(5):
            assert (await run(shell("ls /proc/self/fd"))).printed.split() == [b"0", b"1", b"2", b"3"]
            with pytest.raises(OSError):
                await run(Program(words=("nosuch",), environment=ENVIRONMENT))
            with pytest.raises(TimeoutError):
                await run(shell("sleep 600"), 0.0)
        assert (len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{host.executor._forks.pid}/fd"))) == before

    on_host(scenario)


def test_too_many_descriptors_under_way_are_waited_for(on_host, monkeypatch):
    real, refused = socket.send_fds, []

    def send(sock, buffers, fds):
        if len(refused) < 3:
            refused.append(1)
            raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))
        return real(sock, buffers, fds)

    monkeypatch.setattr(socket, "send_fds", send)

    async def scenario(host: Host) -> None:
        run = host.executor.run_program
        told = await asyncio.gather(*(run(shell(f"echo {number}")) for number in range(20)))
        assert [each.last_line for each in told] == [str(number) for number in range(20)]

    on_host(scenario)


@pytest.mark.needs_root
def test_it_is_its_users_in_everything(on_host):
    account = look_up(USER)

    async def scenario(host: Host) -> None:
        run = host.executor.run_program
        told = await run(
            shell(
                "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm):' /proc/self/status; ulimit -n; ulimit -Hn",
                account=account,
                granted=((7, 100, 200),),  # RLIMIT_NOFILE
            )
        )
        lines = [line.split() for line in told.printed.decode().splitlines()]
        assert lines[0] == ["Uid:", *[str(account.uid)] * 4] and lines[1] == ["Gid:", *[str(account.gid)] * 4]
        assert lines[2][1:] == sorted(map(str, account.groups), key=int)
        assert {each[1] for each in lines[3:5]} == {"0" * 16} and lines[5:] == [["100"], ["200"]]
        vault = host.root / "vault"
        vault.mkdir(mode=0o700)
        with pytest.raises(OSError, match="Permission denied"):
            await run(shell("true", account=account, cwd=str(vault)))

    on_host(scenario)


@pytest.mark.needs_root
def test_another_users_program_begins_in_its_group_and_cannot_leave_the_fence(on_host, cgroup_root, nodes):
    """The user has no right to put anything into the group: the fork server does, as root."""
    account = look_up(USER)
    group, fence = (
        cgroup_root.group("trial"),
        Fence(kind=cgroup_root.kind, folders=cgroup_root.folders("trial"), minors=(3,)),
    )
    make_fenced(group, fence.minors, fence.denied)
    nodes.chmod(0o755)
    text = 'cat /proc/self/cgroup; id -u; for n in 3 7; do (exec 3<>"$1$n") 2>&1; done'

    async def scenario(host: Host) -> None:
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            Path(folder).chmod(0o755)
            for minor in (3, 7):
                os.mknod(f"{folder}/gpu{minor}", stat.S_IFCHR | 0o600, os.makedev(cgroup_files.CHARACTER_MAJOR, minor))
                os.chmod(f"{folder}/gpu{minor}", 0o666)
            program = shell(text, f"{folder}/gpu", account=account, fence=fence)
            told = (await host.executor.run_program(program)).printed.decode()
        assert group.places[0] in told and str(account.uid) in told.split()
        denied = [line for line in told.splitlines() if "Operation not permitted" in line]
        assert len(denied) == 1 and "gpu7" in denied[0], told

    on_host(scenario)
