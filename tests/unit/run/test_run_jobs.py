"""Real jobs: how their ends are told, where their output goes, what they are given."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import cast

import pytest
from run_host import CLUSTER

from gsched.base.coded_text import sentence
from gsched.base.errors import Conflict
from gsched.base.machine import gpu_lock
from gsched.run.supervisor import opening
from gsched.run.supervisor.job_rights import JobRights


def test_exit_codes_and_signals_are_told_apart(on_host):
    async def scenario(host):
        assert (await host.run("true", 1)).exit_code == 0
        assert (await host.run("exit 3", 2)).exit_code == 3
        killed = await host.run("kill -9 $$", 3)
        assert (killed.exit_code, killed.signal) == (None, 9)
        itself = await host.run("exec sleep 30 & kill -9 $!; wait $!", 4)
        assert (itself.exit_code, itself.signal) == (137, None)
        aborted = await host.run(script="python3 -c 'import os; os.abort()'\n", job_id=5)
        assert (aborted.exit_code, aborted.signal) == (134, None)
        assert all(result.started and not result.term_reason for result in host.ended.values())
        assert [kind for kind, key in host.reports if key == (3, 1)] == ["started", "ended"]

    on_host(scenario)


def test_a_simple_command_is_the_job_itself(on_host):
    async def scenario(host):
        await host.executor.start(host.order("sleep 30"))
        started = await host.start_of(1)
        await host.executor.signal(1, 1, 10, everything=False)
        result = await host.end_of(1)
        assert result.signal == 10
        assert started.pid > 0 and started.exec_cwd == str(host.root) and started.boot_id

    on_host(scenario)


def test_times_and_cpu_are_measured(on_host):
    async def scenario(host):
        before = time.time()
        burn = "python3 -c 'import time\nwhile time.process_time() < 0.3: pass' & wait"
        result = await host.run(burn)
        assert before <= result.ended_at <= time.time()
        assert 0.3 <= result.run_s < 60
        assert 0.3 <= result.usage.cpu_s < 50
        assert result.usage.pgid == host.started[1, 1].pid

    on_host(scenario)


def test_environment_umask_and_directory_are_exactly_the_orders(on_host):
    async def scenario(host):
        (host.root / "d").mkdir()
        await host.run(
            "env; umask; pwd; trap; touch made",
            cwd=str(host.root / "d"),
            umask=0o077,
            environment={"ONE": "1 한글", "RAW": os.fsdecode(b"\xb0\xa1"), "PATH": "/usr/bin:/bin"},
        )
        raw = host.executor.read_output(1, 1, "stdout", 0, 1 << 20)
        lines = raw.split(b"\n")
        assert "ONE=1 한글".encode() in lines
        assert b"RAW=\xb0\xa1" in lines
        assert f"LS_JOBPID={host.started[1, 1].pid}".encode() in lines
        assert f"GSCHED_ATTEMPT_ID={CLUSTER}/1.1".encode() in lines
        assert f"PWD={host.root}/d".encode() in lines
        assert not [line for line in lines if line.startswith((b"PYTHON", b"HOME="))]
        assert b"0077" in lines
        assert str(host.root / "d").encode() in lines
        assert stat.S_IMODE((host.root / "d" / "made").stat().st_mode) == 0o600

    on_host(scenario)


def test_the_job_inherits_no_descriptors_and_no_signal_settings(on_host):
    async def scenario(host):
        await host.run("ls -l /proc/self/fd; exec cat /proc/self/status")
        text = host.output()
        descriptors = [line.split()[8] for line in text.splitlines() if " -> " in line]
        assert sorted(descriptors) == ["0", "1", "2", "3"]  # 3 is ls reading the directory
        fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        reserved = 0b11 << 31  # signals 32 and 33 belong to the C library; nobody can reset them
        assert int(fields["SigIgn"], 16) & ~reserved == 0
        assert int(fields["SigBlk"], 16) == 0

    on_host(scenario)


def test_the_attempts_folder_is_private_and_its_path_may_be_korean(on_host):
    async def scenario(host):
        await host.run(script="echo hidden\necho err >&2\n")
        assert host.output() == "hidden\n"
        assert host.output(stream="stderr") == "err\n"
        folder = host.folder()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert modes.pop("script") == 0o700
        assert set(modes) == {"order", "claim", "started", "status", "stdout", "stderr"}
        assert set(modes.values()) == {0o600}

    on_host(scenario)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\nsys.exit(4)\n", 4, "[]\n"),
        ("#! /bin/sh -e\nfalse\necho no\n", 1, ""),
        ("#!/no/such/shell\n", 127, ""),
        ("#!/etc/passwd\n", 126, ""),
        ("#!/bin/sh\r\n", 127, ""),
        ("", 0, ""),
    ],
)
def test_scripts_run_by_their_interpreter(on_host, text, code, said):
    async def scenario(host):
        result = await host.run("shown only", script=text)
        assert (result.exit_code, result.started) == (code, True)
        assert host.output() == said
        if code in (126, 127):
            assert host.output(stream="stderr").startswith("gsched: /")

    on_host(scenario)


def test_programs_are_found_and_missed_as_by_a_shell(on_host):
    async def scenario(host):
        (host.root / "bin").mkdir()
        tool = host.root / "bin" / "tool"
        tool.write_text("echo tool $1\n")  # no `#!`: only a shell can run it
        tool.chmod(0o755)
        path = f"{host.root}/bin:/usr/bin:/bin"
        assert (await host.run("tool a=b", 1, environment={"PATH": path})).exit_code == 0
        assert host.output(1) == "tool a=b\n"
        assert (await host.run("bin/tool x", 2)).exit_code == 0
        assert (await host.run("nosuchtool x", 3)).exit_code == 127
        assert "nosuchtool" in host.output(3, "stderr")
        tool.chmod(0o644)
        assert (await host.run("bin/tool x", 4)).exit_code == 126
        assert (await host.run("bin/tool " + "x" * 200_000, 5)).exit_code == 126
        assert "Argument list too long" in host.output(5, "stderr")

    on_host(scenario)


def test_a_script_of_other_bytes_than_utf8_is_kept(on_host):
    async def scenario(host):
        await host.run(script=os.fsdecode(b"#!/bin/sh\necho '\xb0\xa1'\n"))
        assert host.executor.read_output(1, 1, "stdout", 0, 99) == b"\xb0\xa1\n"

    on_host(scenario)


def test_output_files_append_or_overwrite(on_host):
    async def scenario(host):
        out, err = host.root / "out", host.root / "err"
        out.write_text("old\n")
        err.write_text("old\n")
        files = {"output_file": "out", "error_file": str(err), "error_overwrite": True}
        await host.run("echo a; echo b >&2", **files)
        assert out.read_text() == "old\na\n"
        assert err.read_text() == "b\n"
        assert host.output() == "a\n"
        assert host.executor.read_output(1, 1, "stderr", 1, 5) == b"\n"
        assert not (host.folder() / "stdout").exists()

    on_host(scenario)


@pytest.mark.parametrize("error_file", ["", "both", "./both"])
def test_one_file_takes_both_streams_in_order(on_host, error_file):
    async def scenario(host):
        await host.run("echo a; echo b >&2; echo c", output_file="both", output_overwrite=True, error_file=error_file)
        assert (host.root / "both").read_text() == "a\nb\nc\n"
        assert host.output(stream="stderr") == ""

    on_host(scenario)


def test_output_that_cannot_be_opened_is_kept_and_said(on_host):
    async def scenario(host):
        os.mkfifo(host.root / "pipe")
        result = await host.run("echo a", output_file="missing/out", error_file="pipe")
        assert result.exit_code == 0
        assert "output file missing/out: No such file or directory" in sentence(result.problem)
        assert "pipe" in sentence(result.problem)
        assert host.output() == "a\n"

    on_host(scenario)


def test_output_that_must_be_had_fails_the_job(on_host):
    """As in Slurm, whose commands have submitted it: nothing is executed."""

    async def scenario(host):
        for number, files in enumerate(({"output_file": "missing/out"}, {"error_file": "missing/err"}), 1):
            result = await host.run("touch ran", number, output_required=True, **files)
            assert (result.exit_code, result.started, result.term_reason) == (1, True, "")
            (name,) = files.values()
            assert sentence(result.problem) == f"output file {name}: No such file or directory"
        assert not (host.root / "ran").exists() and host.started == {}

    on_host(scenario)


def test_the_folder_of_output_that_must_be_had_may_come_a_moment_later(
    on_host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """submitit makes it when sbatch has told it the job's number; in Slurm no job is that quick."""

    async def scenario(host):
        order = host.order("true", output_file=str(tmp_path / "7" / "out"), output_required=True)
        asked = opening.AttemptOpening(str(tmp_path), cast(opening.SupervisorSettings, None), lambda text: None)
        asked._order, asked.rights = order, JobRights(order)
        waited: list[float] = []

        def wait(seconds: float) -> None:
            waited.append(seconds)
            (tmp_path / "7").mkdir()

        monkeypatch.setattr(opening.time, "sleep", wait)
        found = asked._open_output(order.output_file, True, "stdout")
        assert found.path == order.output_file and waited == [opening.FOLDER_LOOK_S]
        os.close(found.fd)

    on_host(scenario)


def test_input_comes_from_its_file_or_from_nowhere(on_host):
    async def scenario(host):
        (host.root / "in").write_text("text\n")
        await host.run("cat", 1, input_file="in")
        assert host.output(1) == "text\n"
        await host.run("cat; echo end", 2)
        assert host.output(2) == "end\n"
        missing = await host.run("echo ran", 3, input_file="nowhere")
        assert (missing.exit_code, missing.started) == (2, True)
        assert sentence(missing.problem) == "input file nowhere: No such file or directory"
        assert (3, 1) not in host.started

    on_host(scenario)


def test_a_missing_directory_is_the_jobs_own_failure(on_host):
    async def scenario(host):
        result = await host.run("echo ran > " + str(host.root / "ran"), cwd="/no/such/place")
        assert (result.exit_code, result.started, result.term_reason) == (2, True, "TERM_CWD_NOTEXIST")
        assert "/no/such/place" in sentence(result.problem)
        assert not (host.root / "ran").exists()

    on_host(scenario)


def test_what_is_kept_is_what_its_file_did_not_take(on_host):
    async def scenario(host):
        await host.run("echo out; echo err >&2", 1, output_file=str(host.root / "out"), error_file="/nowhere/err")
        kept = [host.executor.read_output(1, 1, stream, 0, 99, only_kept=True) for stream in ("stdout", "stderr")]
        assert kept == [b"", b"err\n"] and host.output(1) == "out\n"

    on_host(scenario)


def test_a_gpu_of_another_cluster_is_left_alone(on_host):
    async def scenario(host):
        places = gpu_lock.GpuLockFolders(str(host.locks), "", False)
        theirs = gpu_lock.lock_gpus(["GPU-1"], "another", places)
        result = await host.run("true", 1, gpu_lock_uuids=("GPU-0", "GPU-1"))
        assert (result.started, result.exit_code) == (False, None)
        assert sentence(result.problem) == "GPU GPU-1 is in use by another cluster"
        gpu_lock.release(theirs)
        await host.executor.start(host.order("sleep 30", 2, gpu_lock_uuids=("GPU-0", "GPU-1")))
        await host.start_of(2)
        assert (await host.run("true", 3, gpu_lock_uuids=("GPU-1",))).exit_code == 0  # shared within the cluster
        with pytest.raises(gpu_lock.GpuLockError):
            gpu_lock.lock_gpus(["GPU-0"], "another", places)
        await host.executor.signal(2, 1, 9)
        await host.end_of(2)
        gpu_lock.release(gpu_lock.lock_gpus(["GPU-0"], "another", places))

    on_host(scenario)


def test_forget_removes_ended_attempts_only(on_host):
    async def scenario(host):
        await host.executor.start(host.order("sleep 30"))
        await host.executor.start(host.order("something else"))  # known: nothing happens
        await host.start_of(1)
        assert host.executor.running() == [(1, 1)]
        with pytest.raises(Conflict, match=r"1\.1"):
            host.executor.forget(1, 1)
        await host.executor.signal(1, 1, 9)
        assert (await host.end_of(1)).signal == 9
        assert host.executor.running() == []
        host.executor.forget(1, 1)
        assert not host.folder().exists()
        host.executor.forget(1, 1)
        await host.executor.signal(1, 1, 9)

    on_host(scenario)


def test_many_jobs_at_once_all_end(on_host):
    async def scenario(host):
        for job in range(1, 101):
            await host.executor.start(host.order(f"exit {job % 7}", job))
        await host.until(lambda: len(host.ended) == 100)
        assert {key[0]: result.exit_code for key, result in host.ended.items()} == {n: n % 7 for n in range(1, 101)}

    on_host(scenario)


def test_the_result_names_what_the_job_had_left_running(on_host):
    async def scenario(host):
        quiet = await host.run("sleep 0.01; true", 1)
        assert (quiet.left_running, quiet.left_running_count) == ((), 0)
        deaf = "python3 -c \"import signal; signal.signal(15, 1); open('deaf', 'w'); signal.pause()\""
        left = await host.run(f"sleep 600 & {deaf} & until [ -e deaf ]; do sleep 0.01; done; exit 3", 2)
        told = {process.name: process.killed for process in left.left_running}
        assert left.exit_code == 3 and told == {"sleep": False, "python3": True}
        assert left.left_running_count == 2 and all(process.pid > 1 for process in left.left_running)
        many = await host.run(script="for number in $(seq 13); do sleep 600 & done\n", job_id=3)
        assert many.left_running_count == 13 and len(many.left_running) == 10

    on_host(scenario)
