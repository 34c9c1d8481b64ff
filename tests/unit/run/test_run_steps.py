"""What runs around a job: steps before and after it, job starters, login shells, warnings, copied input."""

from __future__ import annotations

import asyncio
import math
import signal

import pytest
from run_host import appears

from gsched.base.coded_text import sentence
from gsched.run.attempts.last_steps import run_last
from gsched.run.order import JobStep, Order
from gsched.run.processes import process_tree
from gsched.run.program import ProgramEnd
from gsched.run.supervisor import job_process
from gsched.run.supervisor.job_rights import JobRights
from gsched.run.supervisor.steps import in_login, quoted, started_by


def step(command: str, *, is_site: bool = False, level: str = "") -> JobStep:
    return JobStep(command=command, what="-f 'a > b'", is_site=is_site, level=level)


def lines(path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def assert_dead(log) -> None:
    """Of the process that has written its number here, if it came so far in its time, which a busy host may take."""
    written = lines(log)
    assert len(written) <= 1
    assert all((found := process_tree.read_process(int(pid))) is None or found.is_dead for pid in written)


def test_steps_come_before_and_after_the_job(on_host):
    async def scenario(host):
        log = host.root / "log"
        result = await host.run(
            f"echo job >> {log}; exit 3",
            first=(step(f"pwd >> {log}"), step(f'pwd >> {log}; echo "$PATH" >> {log}', is_site=True)),
            last=(step(f'echo "$LSB_JOBEXIT_STAT $ONE" >> {log}'), step(f"pwd >> {log}", is_site=True)),
            environment={"PATH": "/usr/bin:/bin:/x", "ONE": "1"},
        )
        assert lines(log) == [str(host.root), "/tmp", "/bin:/usr/bin:/sbin:/usr/sbin", "job", "768 1", "/tmp"]
        assert (result.exit_code, result.started, result.post_code, sentence(result.problem)) == (3, True, 0, "")

    on_host(scenario)


def test_a_step_that_fails_keeps_the_job_from_running(on_host):
    async def scenario(host):
        log = host.root / "log"
        result = await host.run(
            f"echo job >> {log}",
            first=(step(f"echo one >> {log}"), step("exit 4", level="job"), step(f"echo never >> {log}")),
            last=(step(f"echo after $LSB_JOBPEND >> {log}"),),
        )
        assert lines(log) == ["one", "after Y"]
        assert (result.pre_failed, result.started, result.exit_code, result.signal) == (True, False, None, None)
        assert sentence(result.problem) == "The job's pre-exec command exited with non-zero status (4)"

    on_host(scenario)


def test_what_takes_back_the_first_step_runs_only_where_that_one_has_succeeded(on_host):
    async def scenario(host):
        made = host.root / "made"
        undo = JobStep(command=f"rmdir {made}", what="it", undoes_first=True)
        make = step(f"mkdir {made}")
        made.mkdir()
        assert (await host.run("true", 1, first=(make,), last=(undo,))).pre_failed
        assert made.exists(), "it is somebody else's"
        made.rmdir()
        assert (await host.run("true", 2, first=(make, step("exit 4")), last=(undo,))).pre_failed
        assert not made.exists()

    on_host(scenario)


def test_exit_code_99_of_a_step_ends_the_job(on_host):
    async def scenario(host):
        result = await host.run("true", first=(step("exit 99"),))
        assert (result.pre_failed, result.started, result.exit_code) == (False, True, 99)

    on_host(scenario)


def test_a_job_is_ended_in_a_step_before_it(on_host):
    async def scenario(host):
        await host.executor.start(host.order("true", first=(step("sleep 60"),)))
        await host.start_of(1)
        await host.executor.terminate(1, 1, 0.2)
        result = await host.end_of(1)
        assert result.exit_code is None or result.exit_code >= 128

    on_host(scenario)


def test_what_follows_a_killed_job_runs_to_its_end(on_host):
    async def scenario(host):
        log = host.root / "log"
        await host.executor.start(host.order("sleep 60", last=(step(f"sleep 1; echo cleaned >> {log}"),)))
        await host.start_of(1)
        await host.executor.terminate(1, 1, 30)
        result = await host.end_of(1)
        assert lines(log) == ["cleaned"]
        assert (result.signal, result.post_code) == (signal.SIGINT, 0)

    on_host(scenario)


def test_a_step_after_the_job_can_be_ended(on_host):
    async def scenario(host):
        mark = host.root / "mark"
        await host.executor.start(host.order("true", last=(step(f"touch {mark}; exec sleep 60"),)))
        async with asyncio.timeout(60):
            while not mark.exists():
                await asyncio.sleep(0.01)
        await host.executor.terminate(1, 1, 30)
        result = await host.end_of(1)
        assert (result.exit_code, result.post_code) == (0, 130)
        assert sentence(result.problem) == "-f 'a > b' exited with non-zero status (130)"

    on_host(scenario)


@pytest.mark.parametrize("starter", ["env STARTED=yes", 'env STARTED=yes sh -c "%USRCMD"'])
@pytest.mark.parametrize("script", [None, "#!/bin/sh\necho $STARTED\n"])
def test_a_job_starter_stands_before_or_around_the_command(on_host, starter, script):
    async def scenario(host):
        await host.run("printenv STARTED", script=script, job_starter=starter)
        assert host.executor.read_output(1, 1, "stdout", 0, 100) == b"yes\n"

    on_host(scenario)


def test_the_login_shells_files_are_read(on_host):
    async def scenario(host):
        (host.root / ".profile").write_text("LOGGED=in; export LOGGED\n")
        environment = {"HOME": str(host.root), "PATH": "/usr/bin:/bin"}
        await host.run("echo $LOGGED", login_shell="/bin/sh", environment=environment)
        assert host.executor.read_output(1, 1, "stdout", 0, 100) == b"in\n"
        await host.run(script="#!/bin/cat\n$LOGGED\n", login_shell="/bin/bash", environment=environment, job_id=2)
        assert host.executor.read_output(2, 1, "stdout", 0, 100) == b"#!/bin/cat\n$LOGGED\n"

    on_host(scenario)


def test_a_job_is_warned_before_its_end(on_host):
    async def scenario(host):
        trap = "trap 'echo warned; exit 5' USR1; while :; do sleep 0.05; done"
        result = await host.run(trap, run_limit_s=62, warning_signal=int(signal.SIGUSR1), warning_s=60)
        assert (result.exit_code, result.term_reason) == (5, "")
        assert host.executor.read_output(1, 1, "stdout", 0, 100) == b"warned\n"

    on_host(scenario)


def test_input_that_was_copied_takes_the_place_of_the_file(on_host):
    async def scenario(host):
        text = b"a\xff\0b".decode(errors="surrogateescape")
        await host.run("cat", input_file="gone", input=text)
        assert host.executor.read_output(1, 1, "stdout", 0, 100) == b"a\xff\0b"
        await host.run("cat", input="", job_id=2)
        assert host.ended[2, 1].exit_code == 0

    on_host(scenario)


def test_folders_are_made(on_host):
    async def scenario(host):
        folder = host.root / "a" / "b"
        await host.run("echo made", folders=(str(folder),), output_file=str(folder / "out"))
        assert (folder / "out").read_text() == "made\n"

    on_host(scenario)


def test_words_of_a_shell():
    assert quoted(["/bin/sh", "it's"]) == "'/bin/sh' 'it'\\''s'"
    assert started_by("nice -5", "a b") == "nice -5 a b"
    assert started_by('csh -c "%USRCMD" x', "a b") == 'csh -c "a b" x'
    assert in_login("/bin/zsh", ["a"]) == ["/bin/zsh", "-l", "-c", 'exec "$0" "$@"', "a"]
    assert in_login("/bin/tcsh", ["a"])[2].endswith("exec $argv:q")


def test_what_runs_before_a_job_may_take_so_long_in_all(on_host):
    async def scenario(host):
        log = host.root / "log"
        hangs = f"trap '' TERM; sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' & echo $! > {log}; wait"
        result = await host.run(
            f"echo job >> {log}",
            first=(step("true", level="queue"), step(hangs, level="queue"), step(f"echo never >> {log}")),
            last=(step(f"echo $LSB_JOBPEND >> {log}.after"),),
            first_timeout_s=1,
        )
        assert (result.pre_failed, result.started, result.pre_exec, result.pre_exec_code) == (True, False, "queue", 98)
        assert sentence(result.problem) == "The queue's pre-exec command was killed after 1 s (JOB_PREPROC_TIMEOUT)"
        assert lines(host.root / "log.after") == ["Y"]
        assert_dead(log)

    on_host(scenario)


def test_steps_that_keep_their_time_are_not_disturbed(on_host):
    async def scenario(host):
        result = await host.run(
            "true", first=(step("true"),), last=(step("true"),), first_timeout_s=60, last_timeout_s=60
        )
        assert (result.exit_code, result.post_code, result.problem) == (0, 0, "")
        result = await host.run("true", 2, first=(step("exit 4", level="job"),), first_timeout_s=60)
        assert sentence(result.problem) == "The job's pre-exec command exited with non-zero status (4)"

    on_host(scenario)


def test_a_step_may_have_more_time_than_can_be_waited_for_at_once(on_host):
    async def scenario(host):
        gate = host.root / "gate"
        order = host.order("true", first=(step(f"mkfifo {gate}; read line < {gate}"),), first_timeout_s=3_000_000)
        await host.executor.start(order)
        await appears(gate.exists)
        with open(gate, "w") as opened:
            opened.write("go on\n")
        result = await host.end_of(1)
        assert (result.exit_code, result.pre_failed, result.problem) == (0, False, "")

    on_host(scenario)


def test_a_step_that_cannot_be_run_has_failed(tmp_path, monkeypatch, capfd):
    def fails(*_):
        raise OverflowError("too much")

    monkeypatch.setattr(job_process, "run_step", fails)
    order = Order(job_id=1, attempt=1, command="true", cwd="/", environment={})
    program = job_process.JobProgram(order, [], JobRights(order), order)
    failed = tmp_path / "failed"
    assert job_process.run_first((step("true"),), program, {}, math.inf, str(failed)) == 126
    assert failed.read_text() == "126 0 0" and "too much" in capfd.readouterr().err


def test_what_runs_after_a_job_may_take_so_long_in_all(on_host):
    async def scenario(host):
        log = host.root / "log"
        hangs = f"trap '' TERM INT; echo $$ >> {log}; while :; do sleep 0.05; done"
        result = await host.run(
            "exit 3", last=(step("true"), step(hangs), step(f"echo never >> {log}")), last_timeout_s=1
        )
        assert (result.exit_code, result.post_code) == (3, 137)
        told = "-f 'a > b' was killed: what runs after a job may take 1 s (JOB_POSTPROC_TIMEOUT)"
        assert sentence(result.problem) == told
        assert_dead(log)

    on_host(scenario)


def test_an_agent_that_runs_them_gives_them_no_more_time(tmp_path):
    limits = []

    async def run(program, limit_s=None):
        limits.append(limit_s)
        if len(limits) == 2:
            raise TimeoutError
        return ProgramEnd(status=3 << 8)

    last = (step("one"), step("two"), step("three"))
    order = Order(job_id=1, attempt=1, command="true", last=last, last_timeout_s=60)
    code, told = asyncio.run(run_last(order, tmp_path, None, run))
    assert code == 3 and len(limits) == 2 and all(0 < limit <= 60 for limit in limits)
    assert [each.code for each in told] == ["step.failed", "step.last_late"]


def test_an_agent_takes_back_the_first_step_only_where_that_one_has_succeeded(tmp_path):
    ran = []

    async def run(program, limit_s=None):
        del limit_s
        ran.append(program.words[-1])
        return ProgramEnd(status=0)

    last = (step("after"), JobStep(command="undo", what="it", undoes_first=True))
    order = Order(job_id=1, attempt=1, command="true", last=last)
    for name, failure, expected in (("a", "1 0", ["after"]), ("b", "1 1", ["after", "undo"])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "failed").write_text(failure)
        asyncio.run(run_last(order, tmp_path / name, None, run))
        assert ran == expected
        ran.clear()
