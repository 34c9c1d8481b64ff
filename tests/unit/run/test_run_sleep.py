"""Supervisors that sleep: in the place of their interpreter a program waits, and nothing of the job is different."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_host import Host, appears, marked_processes
from test_run_crashes import Doomed

from gsched.base.coded_text import sentence
from gsched.base.machine.gpu_lock import GpuLockError, GpuLockFolders, lock_gpus, release
from gsched.run import attempt_files, fork_server_client, forkserver
from gsched.run.attempts import lost_folders
from gsched.run.order import AttemptLimits, JobStep
from gsched.run.processes import process_tree

pytestmark = [pytest.mark.fault, pytest.mark.needs_gcc, pytest.mark.slow]
UNTIL_GO = "while [ ! -e go ]; do sleep 0.02; done; "


@pytest.fixture(params=["asleep", "awake"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, sleeping: None) -> str:
    """Whether supervisors sleep."""
    if request.param == "awake":
        monkeypatch.setattr(fork_server_client, "waiter", lambda: "")
    return str(request.param)


@pytest.fixture
def sleeping(monkeypatch: pytest.MonkeyPatch, waiter_program: str) -> Iterator[None]:
    """Supervisors sleep at once; so do those of an executor in another process."""
    monkeypatch.setenv("RUN_TEST_WAITER", waiter_program)
    monkeypatch.setenv("RUN_TEST_SLEEP_AFTER_S", "0.02")
    monkeypatch.setattr(fork_server_client, "waiter", lambda: waiter_program)
    monkeypatch.setattr(fork_server_client, "SLEEP_AFTER_S", 0.02)
    yield


def is_asleep(pid: int, times: int = 1) -> bool:
    """Whether the supervisor sleeps, for the time of that number."""
    try:
        if not os.readlink(f"/proc/{pid}/exe").endswith(fork_server_client.WAITER_NAME):
            return False
        for number in os.listdir(f"/proc/{pid}/fd"):
            if os.readlink(f"/proc/{pid}/fd/{number}").startswith("/memfd:gsched-supervisor"):
                return bool(json.loads(Path(f"/proc/{pid}/fd/{number}").read_bytes())["woken"] >= times)
    except OSError:
        pass
    return False


def open_files(pid: int) -> list[str]:
    found = (os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd"))
    return sorted(each for each in found if not each.startswith(("socket:", "/memfd:")))


async def runs(host: Host, kind: str, command: str, job_id: int = 1, **fields: object) -> int:
    """The supervisor of a job that runs and has not ended; asleep, where it is to be."""
    await host.executor.start(host.order(command, job_id, **fields))
    await host.start_of(job_id)
    pid = host.supervisor_pid(job_id)
    if kind == "asleep":
        await appears(lambda: is_asleep(pid))
    return pid


def go(host: Host) -> None:
    (host.root / "go").touch()


@pytest.mark.parametrize(
    ("command", "code", "signum"),
    [("exit 3", 3, None), ("true", 0, None), ("kill -9 $$", None, 9), ("exit 200", 200, None)],
)
def test_a_job_ends_as_it_does(on_host, kind, command, code, signum):
    async def scenario(host):
        pid = await runs(host, kind, f"echo out; {UNTIL_GO}{command}")
        before = process_tree.read_process(pid)
        go(host)
        result = await host.end_of(1)
        assert (result.exit_code, result.signal, sentence(result.problem)) == (code, signum, "")
        assert result.usage.cpu_s is not None and result.usage.cpu_s > 0 and result.run_s > 0
        assert (before.pid, before.start) == (pid, host.executor._spool.claim("1.1").start)
        assert host.output() == "out\n"

    on_host(scenario)


def test_one_that_sleeps_takes_little_memory_and_has_open_what_it_had(on_host, sleeping, monkeypatch):
    async def scenario(host):
        pid = await runs(host, "asleep", UNTIL_GO, gpu_lock_uuids=("GPU-0",))
        names = [Path(path).name for path in open_files(pid)]
        assert {attempt_files.ORDER, attempt_files.CLAIM, attempt_files.STARTED, "GPU-0"} <= set(names)
        figures = dict(line.split()[:2] for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
        assert int(figures["Anonymous:"]) < 300
        assert lost_folders._is_of_server(pid)
        assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")
        locks = GpuLockFolders(str(host.locks), "", False)
        with pytest.raises(GpuLockError):
            lock_gpus(["GPU-0"], "another cluster", locks, 0.0)
        go(host)
        assert (await host.end_of(1)).exit_code == 0
        await appears(lambda: not process_tree.is_alive(pid, host.executor._spool.claim("1.1").start))
        release(lock_gpus(["GPU-0"], "another cluster", locks, 0.0))

    on_host(scenario)


def test_time_suspended_is_counted_while_it_sleeps(on_host, kind):
    async def scenario(host):
        pid = await runs(host, kind, UNTIL_GO, run_limit_s=600)
        await host.executor.suspend(1, 1)
        if kind == "asleep":
            await appears(lambda: is_asleep(pid, 2))
        await asyncio.sleep(0.3)
        await host.executor.resume(1, 1)
        if kind == "asleep":
            await appears(lambda: is_asleep(pid, 3))
        go(host)
        result = await host.end_of(1)
        assert result.exit_code == 0 and 0.2 < result.suspended_s < result.run_s

    on_host(scenario)


def test_a_run_limit_wakes_it(on_host, kind):
    async def scenario(host):
        await runs(host, kind, "sleep 600", run_limit_s=2, terminate_interval_s=0.1)
        result = await host.end_of(1)
        assert result.term_reason == "TERM_RUNLIMIT" and result.run_s >= 2

    on_host(scenario)


def test_limits_that_change_while_it_sleeps_count(on_host, kind):
    async def scenario(host):
        await runs(host, kind, "sleep 600", terminate_interval_s=0.1)
        await host.executor.limit(1, 1, AttemptLimits(run_limit_s=1))
        assert (await host.end_of(1)).term_reason == "TERM_RUNLIMIT"

    on_host(scenario)


def test_a_job_is_warned_once_though_its_supervisor_sleeps_twice(on_host, kind):
    async def scenario(host):
        warning = {"run_limit_s": 600, "warning_signal": int(signal.SIGUSR2), "warning_s": 598}
        command = f"trap 'echo warned >> warnings' USR2; {UNTIL_GO}"
        pid = await runs(host, kind, command, **warning)
        await appears(lambda: (host.root / "warnings").exists())
        if kind == "asleep":
            await appears(lambda: is_asleep(pid, 2))
        os.kill(pid, signal.SIGUSR1)
        go(host)
        assert (await host.end_of(1)).exit_code == 0
        assert (host.root / "warnings").read_text() == "warned\n"

    on_host(scenario)


def test_what_a_job_leaves_running_is_ended_and_what_follows_it_is_run(on_host, kind):
    async def scenario(host):
        last = (JobStep(command=f'echo "$LSB_JOBEXIT_STAT" > {host.root}/after', what="the job's post-exec command"),)
        orphan = "(sh -c 'sleep 0.2; touch orphan; exit 7' &); until [ -e orphan ]; do sleep 0.02; done; "
        command = f"(setsid sleep 600 &) ; {orphan}{UNTIL_GO}exit 2"
        await runs(host, kind, command, last=last)
        go(host)
        result = await host.end_of(1)
        assert (result.exit_code, result.post_code) == (2, 0)
        assert [each.name for each in result.left_running] == ["sleep"]
        assert (host.root / "after").read_text() == "512\n"
        assert marked_processes("1.1") == []

    on_host(scenario)


def test_notes_of_the_beginning_are_told_at_the_end(on_host, kind):
    async def scenario(host):
        await runs(host, kind, UNTIL_GO, output_file="/nonexistent/out")
        go(host)
        assert "/nonexistent/out" in sentence((await host.end_of(1)).problem)

    on_host(scenario)


def test_what_an_interpreter_reads_to_begin_again_is_not_the_jobs(on_host, kind):
    async def scenario(host):
        if not os.access("/proc/self/io", os.R_OK):
            pytest.skip("this kernel does not count what processes read")
        await runs(host, kind, f"{UNTIL_GO}head -c 300000 /dev/zero > zeros")
        go(host)
        usage = (await host.end_of(1)).usage
        assert usage.written_mib is not None and usage.read_mib is not None
        assert 0.28 < usage.written_mib < 0.4 and usage.read_mib < 1.5

    on_host(scenario)


def test_killed_while_it_sleeps_it_costs_what_a_supervisor_costs(on_host, kind):
    async def scenario(host):
        pid = await runs(host, kind, f"{UNTIL_GO}exit 3")
        os.kill(pid, signal.SIGKILL)
        await appears(lambda: process_tree.read_process(pid) is None)
        assert host.ended == {}
        go(host)
        result = await host.end_of(1)
        assert (result.exit_code, result.started) == (None, True)
        assert "supervisor was killed" in sentence(result.problem)

    on_host(scenario)


def test_a_job_has_ended_when_it_did_not_when_that_was_noticed(on_host, sleeping, monkeypatch):
    slow = "import main; from gsched.run.sleeping import handing_over as h; h.RESUME = h.RESUME.replace('; resume',"
    slow += " '; import time; time.sleep(1); resume');"
    monkeypatch.setattr(forkserver, "PRELUDE", forkserver.PRELUDE.replace("import main;", slow))

    async def scenario(host):
        await runs(host, "asleep", f"{UNTIL_GO}date +%s.%N")
        go(host)
        result = await host.end_of(1)
        said = float(host.output())
        assert said <= result.ended_at + 0.01 and result.ended_at + 0.9 < time.time()
        assert result.run_s <= result.ended_at - host.started[1, 1].started_at + 0.1

    on_host(scenario)


@pytest.mark.parametrize(("command", "code", "signum"), [("exit 3", 3, None), ("kill -15 $$", None, 15)])
def test_where_the_interpreter_does_not_begin_again_the_end_is_known(
    on_host, sleeping, monkeypatch, command, code, signum
):
    """gsched is being installed anew, say."""
    broken = "import main; from gsched.run.sleeping import handing_over; handing_over.RESUME = 'nothing like Python';"
    monkeypatch.setattr(forkserver, "PRELUDE", forkserver.PRELUDE.replace("import main;", broken))

    async def scenario(host):
        last = (JobStep(command=f"echo ran >> {host.root}/after", what="the job's post-exec command"),)
        await runs(host, "asleep", f"(setsid sleep 600 &) ; {UNTIL_GO}{command}", last=last)
        go(host)
        result = await host.end_of(1)
        assert (result.exit_code, result.signal, result.started) == (code, signum, True)
        assert "before it could say all" in sentence(result.problem)
        assert result.run_s > 0 and (host.root / "after").read_text() == "ran\n"
        assert marked_processes("1.1") == []

    on_host(scenario)


def test_a_program_that_cannot_be_executed_leaves_the_supervisor_as_it_is(on_host, sleeping, monkeypatch, tmp_path):
    (tmp_path / "broken").write_bytes(b"\x7fELF of another machine")
    (tmp_path / "broken").chmod(0o755)
    monkeypatch.setattr(fork_server_client, "waiter", lambda: str(tmp_path / "broken"))

    async def scenario(host):
        pid = await runs(host, "awake", f"{UNTIL_GO}exit 3")
        await asyncio.sleep(0.2)
        assert not is_asleep(pid)
        assert not [path for path in os.listdir(f"/proc/{pid}/fd") if "memfd" in os.readlink(f"/proc/{pid}/fd/{path}")]
        go(host)
        assert (await host.end_of(1)).exit_code == 3

    on_host(scenario)


@pytest.mark.parametrize(
    "round_", [*range(2), *(pytest.param(each, marks=pytest.mark.nightly) for each in range(2, 20))]
)
def test_an_agent_that_comes_back_knows_how_jobs_ended_while_it_was_away(on_host, kind, round_):
    async def scenario(host):
        dice = random.Random(round_)
        away_s, ends_s = dice.uniform(0.0, 0.2), [dice.uniform(0.0, 0.6) for _ in range(4)]
        orders = [host.order(f"sleep {end_s}; exit {job}", job) for job, end_s in enumerate(ends_s, 1)]
        doomed = Doomed(host, orders)
        doomed.says("started")
        time.sleep(dice.uniform(0.0, 0.3))
        doomed.kill()
        time.sleep(away_s)
        await host.executor.adopt()
        for job in range(1, 5):
            result = await host.end_of(job)
            assert (result.exit_code, sentence(result.problem)) == (job, "")

    on_host(scenario)


PARENT = """
import os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGUSR1})
program, folder, limit, ended_first, code, *command = sys.argv[1:]
job = os.fork()
if job == 0:
    if not int(ended_first):
        os.read(0, 1)
    os._exit(int(code))
if int(ended_first):
    os.waitid(os.P_PID, job, os.WEXITED | os.WNOWAIT)
os.execv(program, ["gsched-waiter", folder, str(job), limit, *command])
"""
REAPS = "import os; print(os.waitstatus_to_exitcode(os.waitpid(-1, os.WNOHANG)[1] or 0), flush=True)"


@pytest.mark.parametrize(("limit", "ended_first", "told"), [("0", "1", "7"), ("1", "0", "0"), ("0", "0", "7")])
def test_the_program_takes_no_end_from_the_kernel(tmp_path, waiter_program, limit, ended_first, told):
    """An end that came before it waits, a time that is over, and an end."""
    words = [
        sys.executable,
        "-c",
        PARENT,
        waiter_program,
        str(tmp_path),
        limit,
        ended_first,
        "7",
        sys.executable,
        "-c",
        REAPS,
    ]
    parent = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdin is not None and parent.stdout is not None
    if limit == "0":
        parent.stdin.write("x")
        parent.stdin.flush()
    assert parent.stdout.readline() == f"{told}\n"
    parent.communicate()
    assert parent.returncode == 0
    written = tmp_path / attempt_files.WAITED
    assert written.exists() is (told == "7")
    if told == "7":
        assert written.read_text().startswith('{"status":1792,"ended_at":1')
        assert written.stat().st_mode & 0o777 == 0o600


def test_the_program_does_not_leave_a_job_whose_interpreter_is_gone(tmp_path, waiter_program):
    words = [sys.executable, "-c", PARENT, waiter_program, str(tmp_path), "1", "0", "7", "/nonexistent/python"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as parent:
        with pytest.raises(subprocess.TimeoutExpired):
            parent.wait(0.5)
        assert not (tmp_path / attempt_files.WAITED).exists()
        parent.kill()


def test_the_program_asks_for_its_arguments(waiter_program):
    done = subprocess.run([waiter_program], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("usage: gsched-waiter FOLDER")
