"""Nothing is lost and nothing runs twice, whoever is killed with SIGKILL: fork server, supervisor, executor, host."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from run_host import CLUSTER, Host, appears, marked_processes

from gsched.base.coded_text import coded, sentence
from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.model.jobs.job import AttemptResult
from gsched.run import attempt_files, forkserver
from gsched.run.attempts import attempt_following
from gsched.run.attempts.shutdown import Shutdown, leave_note
from gsched.run.executor import ProcessExecutor
from gsched.run.order import AttemptLimits, JobStep
from gsched.run.processes import process_tree
from gsched.run.supervisor import attempt_folder
from gsched.run.supervisor.attempt_folder import AttemptFolder

pytestmark = [pytest.mark.fault, pytest.mark.slow]


class Doomed:
    """An executor in a process of its own, to be killed."""

    def __init__(self, host: Host, orders: list, *more: str) -> None:
        program = str(Path(__file__).with_name("executor_process.py"))
        text = msgspec.json.encode(orders).decode()
        self.process = subprocess.Popen(
            [sys.executable, program, str(host.spool), str(host.locks), text, *more],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "RUN_TEST_CLUSTER": CLUSTER, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def says(self, first: str) -> list[str]:
        """Words of the next line that begins with `first`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(first):
                return line.split()
        raise AssertionError(f"ended without saying '{first}'")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def test_a_killed_fork_server_takes_nothing_with_it(on_host):
    async def scenario(host):
        await host.executor.start(host.order("sleep 0.3; exit 4", 1))
        await host.start_of(1)
        os.kill(host.executor._forks.pid, signal.SIGKILL)
        assert (await host.run("exit 5", 2)).exit_code == 5
        assert (await host.end_of(1)).exit_code == 4

    on_host(scenario)


def test_orders_given_to_a_dying_fork_server_run_once(on_host):
    async def scenario(host):
        await host.run("true", 1)
        os.kill(host.executor._forks.pid, signal.SIGSTOP)
        for job in range(2, 12):
            await host.executor.start(host.order("echo ran >> ran", job))
        os.kill(host.executor._forks.pid, signal.SIGKILL)
        await host.until(lambda: len(host.ended) == 11)
        assert all(result.exit_code == 0 for result in host.ended.values())
        assert (host.root / "ran").read_text() == "ran\n" * 10

    on_host(scenario)


def test_a_job_whose_supervisor_is_killed_is_followed_to_its_end(on_host):
    async def scenario(host):
        await host.executor.start(host.order("sleep 60 & echo $! > child; while [ ! -e go ]; do sleep 0.01; done"))
        await host.start_of(1)
        await appears(lambda: (host.root / "child").exists())
        os.kill(host.supervisor_pid(), signal.SIGKILL)
        supervisor_gone = process_tree.read_process
        await appears(lambda: supervisor_gone(host.supervisor_pid()) is None)
        assert host.ended == {}
        assert len(host.executor.usage(1, 1).pids) >= 2
        (host.root / "go").touch()
        result = await host.end_of(1)
        assert (result.exit_code, result.signal, result.started) == (None, None, True)
        assert "supervisor was killed" in sentence(result.problem)
        assert marked_processes("1.1") == []

    on_host(scenario)


def test_an_unsupervised_job_can_still_be_terminated_and_has_its_run_limit(on_host):
    async def scenario(host):
        await host.executor.start(host.order("sleep 60; true", 1))
        await host.executor.start(host.order("sleep 60; true", 2, run_limit_s=1, terminate_interval_s=0.1))
        for job in (1, 2):
            await host.start_of(job)
            os.kill(host.supervisor_pid(job), signal.SIGKILL)
        await host.executor.terminate(1, 1, 1)
        assert (await host.end_of(1)).term_reason == ""
        assert (await host.end_of(2)).term_reason == "TERM_RUNLIMIT"
        assert marked_processes("1.1") + marked_processes("2.1") == []

    on_host(scenario)


def test_an_unsupervised_job_is_warned_of_its_end_once(on_host):
    async def scenario(host):
        job = "trap 'echo warned >> warnings' USR2; touch up; while [ ! -e go ]; do sleep 0.02; done"
        warning = {"run_limit_s": 61, "warning_signal": int(signal.SIGUSR2), "warning_s": 59}
        await host.executor.start(host.order(job, **warning))
        await appears(lambda: (host.root / "up").exists())
        os.kill(host.supervisor_pid(), signal.SIGKILL)
        await appears(lambda: (host.root / "warnings").exists())
        assert host.executor._spool.is_warned("1.1")
        (host.root / "go").touch()
        await host.end_of(1)
        assert (host.root / "warnings").read_text() == "warned\n"

    on_host(scenario)


def test_what_follows_an_unsupervised_job_is_run_in_its_supervisors_place(on_host):
    async def scenario(host):
        last = (
            JobStep(command="pwd > after; exit 3", what="the job's post-exec command"),
            JobStep(command=f'echo "$PATH" > {host.root}/site', what="the queue's post-exec command", is_site=True),
        )
        await host.executor.start(host.order("touch up; while [ ! -e go ]; do sleep 0.02; done", last=last))
        await appears(lambda: (host.root / "up").exists())
        os.kill(host.supervisor_pid(), signal.SIGKILL)
        await appears(lambda: process_tree.read_process(host.supervisor_pid()) is None)
        (host.root / "go").touch()
        result = await host.end_of(1)
        assert (result.post_code, (host.root / "after").read_text()) == (3, f"{host.root}\n")
        assert (host.root / "site").read_text() == "/bin:/usr/bin:/sbin:/usr/sbin\n"
        assert "the job's post-exec command exited with non-zero status (3)" in sentence(result.problem)

    on_host(scenario)


def test_what_a_killed_supervisor_had_begun_with_is_not_run_again(on_host):
    async def scenario(host):
        last = (JobStep(command="echo ran >> after; sleep 60", what="the job's post-exec command"),)
        await host.executor.start(host.order("true", last=last))
        await appears(lambda: (host.root / "after").exists())
        os.kill(host.supervisor_pid(), signal.SIGKILL)
        result = await host.end_of(1)
        assert "some may not have been run" in sentence(result.problem) and result.post_code is None
        assert (host.root / "after").read_text() == "ran\n"

    on_host(scenario)


def test_the_limits_of_an_unsupervised_job_are_the_executors_to_enforce(on_host):
    async def scenario(host):
        code = 'import time; held = bytearray(200 << 20); open("held", "w"); time.sleep(60)'
        hold = shlex.join(["exec", sys.executable, "-c", code])
        many = "sleep 60 & sleep 60 & sleep 60 & touch many; wait"
        orders = (
            (1, hold, {"MEMLIMIT": 3000.0}, "held"),
            (2, many, {"PROCESSLIMIT": 9.0}, "many"),
        )
        for job, command, allowed, mark in orders:
            await host.executor.start(host.order(command, job, limits=allowed, terminate_interval_s=0.1))
            await appears(lambda mark=mark: (host.root / mark).exists())
            os.kill(host.supervisor_pid(job), signal.SIGKILL)
            await appears(lambda job=job: process_tree.read_process(host.supervisor_pid(job)) is None)
        await host.executor.limit(1, 1, AttemptLimits(limits={"MEMLIMIT": 100.0}))
        await host.executor.suspend(2, 1)
        await host.executor.limit(2, 1, AttemptLimits(limits={"PROCESSLIMIT": 2.0}))
        assert (await host.end_of(1)).term_reason == "TERM_MEMLIMIT"
        assert (2, 1) not in host.ended, "what is suspended is not looked at"
        await host.executor.resume(2, 1)
        assert (await host.end_of(2)).term_reason == "TERM_PROCESSLIMIT"
        assert marked_processes("1.1") + marked_processes("2.1") == []

    on_host(scenario)


def test_a_new_executor_adopts_what_a_killed_one_left(on_host):
    async def scenario(host):
        orders = [
            host.order("while [ ! -e go ]; do sleep 0.01; done; exit 3", 1),
            host.order("while [ ! -e first ]; do sleep 0.01; done; exit 4", 2),
            host.order("sleep 60; true", 3),
        ]
        doomed = Doomed(host, orders)
        pids = {int(job): int(pid) for _, job, pid in [doomed.says("started") for _ in orders]}
        os.kill(host.supervisor_pid(3), signal.SIGKILL)
        doomed.kill()
        os.kill(pids[3], signal.SIGKILL)
        (host.root / "first").touch()  # job 2 ends while nobody watches
        await appears((host.folder(2) / attempt_files.STATUS).exists)

        assert await host.executor.adopt() == [(1, 1), (2, 1), (3, 1)]
        assert (await host.end_of(2)).exit_code == 4
        assert "supervisor was killed" in sentence((await host.end_of(3)).problem)
        assert (await host.start_of(1)).pid == pids[1]
        assert {job: info.pid for (job, _), info in host.started.items()} == pids
        assert host.executor.running() == [(1, 1)]
        (host.root / "go").touch()
        assert (await host.end_of(1)).exit_code == 3
        assert host.reports.count(("ended", (1, 1))) == 1

    on_host(scenario)


def test_a_job_that_begins_late_under_a_new_executor_is_known_to_have_begun(on_host, monkeypatch):
    """Its notice goes to the executor that was killed, and who has not heard of its beginning could not end it."""
    monkeypatch.setattr(attempt_following, "_MAX_LOOKS", 1)
    monkeypatch.setattr(attempt_following, "_LOOK_AGAIN_S", 0.01)

    async def scenario(host):
        pipe = host.root / "pipe"
        os.mkfifo(pipe)
        doomed = Doomed(host, [host.order("exec sleep 60", input_file=str(pipe))])
        doomed.says("asked")
        await appears((host.folder() / attempt_files.CLAIM).exists)
        doomed.kill()
        assert await host.executor.adopt() == [(1, 1)]
        await appears(lambda: host.executor._held["1.1"].looks >= 1)
        await asyncio.sleep(0.2)  # more looks than those
        with open(pipe, "w"):  # until now the supervisor has waited for somebody to open it
            pass
        await host.start_of(1)
        await host.executor.signal(1, 1, signal.SIGKILL)
        assert (await host.end_of(1)).signal == signal.SIGKILL

    on_host(scenario)


def test_the_fork_server_ends_with_its_executor(on_host):
    async def scenario(host):
        doomed = Doomed(host, [host.order("sleep 60")])
        doomed.says("started")
        children = process_tree.descendants(doomed.process.pid, process_tree.scan())
        assert len(children) == 1 or process_tree.descendants(children[0].pid, process_tree.scan())
        doomed.kill()
        await appears(lambda: not process_tree.is_alive(children[0].pid, children[0].start))
        assert len(marked_processes("1.1")) == 1

    on_host(scenario)


def test_an_order_that_was_written_and_not_asked_for_starts_on_adoption(on_host):
    async def scenario(host):
        doomed = Doomed(host, [host.order("exit 6")], "pause")
        doomed.says("asked")
        doomed.kill()
        assert await host.executor.adopt() == [(1, 1)]
        assert (await host.end_of(1)).exit_code == 6

    on_host(scenario)


def test_after_a_restart_of_the_host_nothing_is_taken_for_alive(on_host):
    async def scenario(host):
        await host.executor.start(host.order("sleep 60"))
        await host.start_of(1)
        host.executor.close()
        await asyncio.sleep(0)
        claim = json.loads((host.folder() / attempt_files.CLAIM).read_text())
        (host.folder() / attempt_files.CLAIM).write_text(json.dumps({**claim, "boot_id": "an earlier one"}))
        (host.spool / "attempts" / "7.1").mkdir()
        (host.spool / "attempts" / "7.1" / attempt_files.ORDER).touch()  # what a power cut leaves of a new file

        later = Host(host.root)
        assert await later.executor.adopt() == [(1, 1)]
        result = await later.end_of(1)
        assert sentence(result.problem) == "the host restarted while the job ran"
        assert (result.exit_code, result.signal, result.started, result.host_down) == (None, None, True, True)
        assert not (host.spool / "attempts" / "7.1").exists()
        later.executor.close()

    on_host(scenario)


def test_a_pid_that_was_given_to_another_process_is_not_adopted(on_host):
    async def scenario(host):
        await host.executor.start(host.order("sleep 60"))
        info = await host.start_of(1)
        os.kill(host.supervisor_pid(), signal.SIGKILL)
        os.kill(info.pid, signal.SIGKILL)
        await host.end_of(1)
        host.executor.close()
        mine = {
            "pid": os.getpid(),
            "start": 1,
            "boot_id": process_tree.boot_id(),
        }  # this process lives, but began later
        (host.folder() / attempt_files.CLAIM).write_text(json.dumps(mine))
        later = Host(host.root)
        await later.executor.adopt()
        assert "supervisor was killed" in sentence((await later.end_of(1)).problem)
        later.executor.close()

    on_host(scenario)


def test_a_supervisor_killed_before_the_gate_leaves_a_job_that_never_ran(on_host):
    async def scenario(host):
        host.executor._spool.write_order(host.order("touch ran"))
        dead = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True)
        claim = {"pid": int(dead.stdout), "start": 1, "boot_id": process_tree.boot_id()}
        (host.folder() / attempt_files.CLAIM).write_text(json.dumps(claim))
        await host.executor.adopt()
        result = await host.end_of(1)
        assert (result.started, result.exit_code) == (False, None)
        assert not (host.root / "ran").exists()

    on_host(scenario)


def test_a_claim_that_a_full_disk_cut_short_is_not_waited_for_for_ever(on_host, monkeypatch):
    async def scenario(host):
        monkeypatch.setattr("gsched.run.attempts.attempt_following._MAX_LOOKS", 3)
        host.executor._spool.write_order(host.order("touch ran"))
        (host.folder() / attempt_files.CLAIM).touch()
        await host.executor.adopt()
        assert (await host.end_of(1)).started is False
        assert not (host.root / "ran").exists()

    on_host(scenario)


@pytest.mark.parametrize("round_", range(5))
def test_of_two_fork_servers_one_runs_the_order(on_host, round_):
    async def scenario(host):
        ended: list[tuple[int, AttemptResult]] = []
        rival = ProcessExecutor(
            host.spool,
            CLUSTER,
            on_started=lambda *_: None,
            on_ended=lambda job, _, result: ended.append((job, result)),
            gpu_locks=GpuLockFolders(str(host.locks), "", False),
        )
        try:
            rival._forks.launch()
            host.executor._forks.launch()
            for job in range(1, 21):
                order = host.order("echo ran >> ran; exit 3", job, gpu_lock_uuids=("GPU-0",))
                host.executor._spool.write_order(order)
                await rival.start(order)
                await host.executor.start(order)
            await host.until(lambda: len(host.ended) == 20)
            await appears(lambda: len(ended) == 20)
        finally:
            rival.close()
        assert (host.root / "ran").read_text() == "ran\n" * 20
        assert {result.exit_code for result in host.ended.values()} == {3}
        assert {result.exit_code for _, result in ended} == {3}

    on_host(scenario)


def test_a_supervisor_that_ends_while_its_attempt_is_looked_at_keeps_the_exit_status(on_host, monkeypatch):
    """Whoever looks for a status first, and then whether the supervisor lives, takes it for killed."""

    async def scenario(host):
        await host.executor.start(host.order("until test -e go; do sleep 0.01; done; exit 3"))
        await host.start_of(1)
        supervisor = process_tree.read_process(host.supervisor_pid())
        host.executor.close()
        again = Host(host.root)
        look = again.executor._spool.status

        def look_as_it_ends(name):
            found = look(name)
            (host.root / "go").touch()
            while found is None and process_tree.is_alive(supervisor.pid, supervisor.start):
                time.sleep(0.005)
            return found

        monkeypatch.setattr(again.executor._spool, "status", look_as_it_ends)
        await again.executor.adopt()
        result = await again.end_of(1)
        again.executor.close()
        assert (result.exit_code, sentence(result.problem)) == (3, "")

    on_host(scenario)


def test_a_supervisor_that_cannot_write_its_status_stays_until_it_can(tmp_path, monkeypatch):
    (tmp_path / "1.1").mkdir()
    replace, failures = attempt_folder.replace_file, [OSError(28, "No space left on device")] * 2

    def sometimes(path: str, data: bytes) -> None:
        if failures:
            raise failures.pop()
        replace(path, data)

    monkeypatch.setattr(attempt_folder, "replace_file", sometimes)
    AttemptFolder(f"{tmp_path}/1.1").write_status({"exit_code": 0}, "")
    assert not failures
    assert msgspec.json.decode((tmp_path / "1.1" / "status").read_bytes(), type=AttemptResult).exit_code == 0


@pytest.mark.parametrize(
    "problem", ["said by a supervisor of before", coded("step.failed", coded("step.post_exec", "job"), 3)]
)
def test_what_a_supervisor_tells_is_read_with_its_code_or_as_it_is(tmp_path, problem):
    (tmp_path / "1.1").mkdir()
    AttemptFolder(f"{tmp_path}/1.1").write_status({"exit_code": 0}, problem)
    assert msgspec.json.decode((tmp_path / "1.1" / "status").read_bytes(), type=AttemptResult).problem == problem


def test_a_spool_that_cannot_be_written_is_said(on_host):
    async def scenario(host):
        host.executor._spool.write_order(host.order("true"))
        # A folder instead of the claim file: it can neither be created nor read.
        (host.folder() / attempt_files.CLAIM).symlink_to("/no/such/folder/claim")
        await host.executor.adopt()
        result = await host.end_of(1)
        assert result.started is False
        assert sentence(result.problem)

    on_host(scenario)


def test_the_fork_server_loads_little():
    code = "import sys; sys.path += sys.argv[1:]; import gsched.run.forkserver; print(*sorted(sys.modules))"
    roots = [str(Path(forkserver.__file__).parents[2]), str(Path(msgspec.__file__).parents[1])]
    listed = subprocess.run([sys.executable, "-ISE", "-c", code, *roots], capture_output=True, text=True, check=True)
    loaded = set(listed.stdout.split())
    assert not loaded & {"asyncio", "socket", "subprocess", "psutil", "grpc", "numpy", "sqlalchemy", "dataclasses"}


@pytest.mark.parametrize(
    ("command", "note_s", "boot", "lost"),
    [
        ("kill -TERM $$", -1, "an earlier one", True),
        ("exit 3", -1, "an earlier one", True),  # it caught the signal
        ("true", -1, "an earlier one", False),
        ("kill -TERM $$", 60, "an earlier one", False),  # before the shutdown
        ("kill -TERM $$", -1, "another one", False),
        ("kill -TERM $$", None, "", False),  # a power cut leaves no note
    ],
)
def test_what_a_shutdown_of_the_host_has_ended_did_not_end_by_itself(on_host, command, note_s, boot, lost):
    async def scenario(host):
        host.executor.close()
        first = Host(host.root)
        await first.executor.start(first.order(command))
        result = await first.end_of(1)
        first.executor.close()
        claim = json.loads((first.folder() / attempt_files.CLAIM).read_text())
        (first.folder() / attempt_files.CLAIM).write_text(json.dumps({**claim, "boot_id": "an earlier one"}))
        if note_s is not None:
            leave_note(first.spool, boot, result.ended_at + note_s)
        later = Host(host.root)
        await later.executor.adopt()
        again = await later.end_of(1)
        if lost:
            assert (sentence(again.problem), again.exit_code, again.signal) == (
                "the host was shut down while the job ran",
                None,
                None,
            )
            assert (again.ended_at, again.started) == (result.ended_at, True)
        else:
            assert again == result
        later.executor.close()

    on_host(scenario)


def test_a_job_that_was_killed_before_a_shutdown_stays_killed():
    note = Shutdown(boot_id="b", at=10.0)
    assert note.ended(AttemptResult(signal=15, ended_at=11.0), "b")
    assert not note.ended(AttemptResult(signal=15, ended_at=11.0, term_reason="TERM_OWNER"), "b")
    assert not note.ended(AttemptResult(started=False, problem="no folder", ended_at=11.0), "b")


@pytest.mark.parametrize("is_unsupervised", [False, True])
def test_attempts_whose_folders_were_removed_are_followed_to_their_ends(on_host, is_unsupervised):
    async def scenario(host):
        await host.executor.start(host.order("touch begun; while [ ! -e go ]; do sleep 0.01; done; exit 3", 1))
        await appears((host.root / "begun").exists)  # its start is told before it is executed, and so marked
        await host.start_of(1)
        if is_unsupervised:
            os.kill(host.executor._held["1.1"].supervisor[0], signal.SIGKILL)
        host.executor.close()
        shutil.rmtree(host.spool)
        host.started.clear()
        host.executor = ProcessExecutor(
            host.spool,
            CLUSTER,
            on_started=host._on_started,
            on_ended=host._on_ended,
            gpu_locks=GpuLockFolders(str(host.locks), "", False),
        )
        assert await host.executor.adopt() == [(1, 1)]
        assert host.executor.running() == [(1, 1)]
        (host.root / "go").touch()
        ended = await host.end_of(1)
        assert (ended.exit_code, ended.started) == (None if is_unsupervised else 3, True)

    on_host(scenario)
