"""A job that is spawned is the same as one that is forked: what it sees, what it may, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest
from run_host import SEARCHED

from gsched.run.order import JobStep, Order
from gsched.run.supervisor import job_spawn
from gsched.run.supervisor.job_process import GO

pytestmark = pytest.mark.skipif(not job_spawn._IS_DASH, reason="/bin/sh is not dash")

LOOK = """
import json, os, sys
status = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status"))
facts = {name: status[name].strip() for name in ("Umask", "SigBlk", "SigIgn", "SigCgt")}
facts["cwd"], facts["argv"] = os.getcwd(), sys.argv[1:]
facts["leads"] = os.getsid(0) == os.getpid() == os.getpgid(0)
facts["files"] = sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1]
facts["numbers"] = int(os.environ["LS_JOBPID"]) == os.getpid() and int(os.environ["LSB_JOBRES_PID"]) == os.getppid()
own = ("LS_JOBPID", "LSB_JOBRES_PID", "SLURM_TASK_PID", "GSCHED_ATTEMPT_ID", "A.B")
facts["environment"] = {name: value for name, value in os.environ.items() if name not in own}
facts["task"] = os.environ.get("SLURM_TASK_PID") == str(os.getpid())
print(json.dumps(facts))
"""
WORDS = {"EMPTY": "", "LINES": "a\nb", "QUOTES": "'\"\\$(exit 1)`x`", "BYTES": "\udcff", "OLDPWD": "/usr", "_": "x"}


def environment(**more: str) -> dict[str, str]:
    return {"PATH": SEARCHED, "PWD": "/", **WORDS, **more}


@pytest.mark.parametrize("more", [{}, {"SLURM_PROCID": "0"}])
def test_a_spawned_job_sees_what_a_forked_one_sees(on_host, more):
    async def scenario(host):
        (host.root / "look.py").write_text(LOOK)
        (host.root / "in").write_text("typed")
        interpreter = host.root / "python"  # a first line of a script ends the name at a blank
        interpreter.symlink_to(os.path.realpath(sys.executable))
        fields = {"umask": 0o27, "script": f"#!{interpreter} -S\n{LOOK}", "script_words": ("a b", "'", "")}
        found = []
        for job, own in ((1, more), (2, {**more, "A.B": "no name of a shell's variable"})):
            order = host.order("", job, environment=environment(**own), **fields)
            marked = msgspec.structs.replace(order, environment={**order.environment, "PWD": order.cwd})
            assert job_spawn.may_spawn(marked) == (job == 1)
            await host.executor.start(order)
            assert (await host.end_of(job)).exit_code == 0, host.output(job, "stderr")
            found.append(json.loads(host.output(job)))
        spawned, forked = found
        for facts in found:  # the C library has its own two, 32 and 33, ignored by what it spawns, as in system(3)
            facts["SigIgn"] = int(facts["SigIgn"], 16) & ~(3 << 31)
        assert spawned == forked
        assert (spawned["leads"], spawned["numbers"], spawned["files"]) == (True, True, [0, 1, 2])
        assert spawned["task"] == bool(more)
        assert spawned["argv"] == ["a b", "'", ""]
        assert WORDS.items() <= spawned["environment"].items()

    on_host(scenario)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [("nothing-of-this-name", 127, "not found"), ("/etc/passwd", 126, "denied"), ("exit 3", 3, "")],
)
def test_what_cannot_be_executed_is_told_as_ever(on_host, command, code, said):
    async def scenario(host):
        for job, more in ((1, {}), (2, {"A.B": ""})):
            result = await host.run(command, job, environment=environment(**more))
            assert result.exit_code == code
            assert said in host.output(job, "stderr")
        assert host.output(1, "stderr") == host.output(2, "stderr")

    on_host(scenario)


def test_a_signal_is_told_as_one(on_host):
    async def scenario(host):
        assert (await host.run("kill -TERM $$", environment=environment())).signal == signal.SIGTERM

    on_host(scenario)


@pytest.mark.parametrize("goes", [True, False])
def test_nothing_is_executed_before_the_gate_opens(tmp_path: Path, goes: bool) -> None:
    """Where the supervisor is killed in between, its end of the gate closes and the shell leaves."""
    order = Order(job_id=1, attempt=1, command="", environment=environment(), cwd=str(tmp_path))
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    gate_in, gate_out = os.pipe()
    pid = job_spawn.spawn_job(order, ["touch", str(tmp_path / "ran")], (nothing, nothing, nothing), gate_in)
    os.close(gate_in)
    if goes:
        os.write(gate_out, GO)
    os.close(gate_out)
    os.close(nothing)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == (0 if goes else 126)
    assert (tmp_path / "ran").exists() == goes


@pytest.mark.parametrize(
    "fields",
    [
        {"first": (JobStep(command="true"),)},
        {"nice": 5},
        {"limits": {"CORELIMIT": 0.0}},
        {"granted": ((4, 0, 0),)},
        {"interactive": "pty"},
        {"is_part": True},
        {"environment": {}},
        {"environment": {"PWD": "elsewhere"}},
        {"environment": {"PWD": "/", "IFS": ":"}},
        {"environment": {"PWD": "/", "BASH_FUNC_module%%": "() { true; }"}},
        {"environment": {"PWD": "/", "1A": ""}},
        {"environment": {"PWD": "/", "A\nB": ""}},
    ],
)
def test_what_the_shell_would_change_is_forked(fields: dict[str, object]) -> None:
    order = Order(job_id=1, attempt=1, command="true", environment=environment())
    assert job_spawn.may_spawn(order)
    assert not job_spawn.may_spawn(msgspec.structs.replace(order, **fields))
