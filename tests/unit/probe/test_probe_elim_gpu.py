"""Tests of the program elim.gpu, as a process and by its parts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from gsched.base.errors import BadRequest
from gsched.base.machine.atomic_write import replace_file
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport
from gsched.probe.elim_gpu import ElimOptions, format_line, provider_of
from gsched.probe.elims.elim_format import ElimParser
from gsched.probe.simulated.inventory import change, parse_sim_spec, write_inventory

PROGRAM = (
    "import sys\n"
    "from gsched.cli.session import call; from gsched.cli import registry\n"
    "registry.COMMANDS['elim.gpu'] = 'gsched.probe.elim_gpu:main'\n"
    "sys.exit(call.run_local(['elim.gpu', *sys.argv[1:]]))\n"
)

SEED_LINE = "4 ngpus 4 ngpus_shared 0 ngpus_excl_t 0 ngpus_excl_p 4\n"


class Machine(Protocol):
    def say(self, *lines: str) -> None: ...


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a host with four simulated GPUs in exclusive-process mode."""
    write_inventory(tmp_path / "sim" / "h1.json", parse_sim_spec("4:exclusive_process", "h1"))
    inherited = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**inherited, "GSCHED_GPU_PROVIDER": f"sim:{tmp_path / 'sim'}", "GSCHED_HOSTNAME": "h1"}


def start(env: Mapping[str, str], *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(command, env=env, text=True, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_line_of_the_seed_until_interrupted(env: dict[str, str], number: signal.Signals, code: int) -> None:
    with start(env, "--interval", "0.05") as program:
        assert program.stdout is not None
        assert [program.stdout.readline() for _ in range(3)] == [SEED_LINE] * 3
        program.send_signal(number)
        rest, errors = program.communicate(timeout=60)
    assert (program.returncode, errors) == (code, "")
    assert rest.replace(SEED_LINE, "") == ""


def test_interrupt_while_it_waits_for_a_long_interval_is_heard_at_once(env: dict[str, str]) -> None:
    with start({**env, "GSCHED_GPU_INTERVAL": "3600"}) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == SEED_LINE
        program.send_signal(signal.SIGINT)
        assert program.communicate(timeout=60) == ("", "")


def test_it_ends_when_nobody_reads(env: dict[str, str]) -> None:
    with start(env, "--interval", "0.05") as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        assert program.wait(timeout=60) == 141
        assert program.stderr.read() == ""


def test_unknown_prints_nothing_and_says_why_once(env: dict[str, str], tmp_path: Path) -> None:
    inventory = tmp_path / "sim" / "h1.json"
    good = inventory.read_text()
    inventory.write_text("[")
    with start(env, "--interval", "0.05") as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stderr.readline() == f"elim.gpu: GPUs unknown: {inventory}:1:2: no JSON: Expecting value\n"
        replace_file(str(inventory), good.encode())  # never half of it: that would be another thing to say
        assert program.stdout.readline() == SEED_LINE
        program.terminate()
        assert program.communicate(timeout=60)[1] == ""


def test_change_of_a_mode_shows_in_the_next_line(env: dict[str, str], tmp_path: Path) -> None:
    with start({**env, "LSF_RESOURCES": "ngpus ngpuprohibited"}, "--interval=0.05") as program:
        assert program.stdout is not None
        first = program.stdout.readline()
        assert first == "5 ngpus 4 ngpus_shared 0 ngpus_excl_t 0 ngpus_excl_p 4 ngpuprohibited 0\n"
        change(tmp_path / "sim" / "h1.json", "h1", [0], {"compute_mode": "prohibited"})
        change(tmp_path / "sim" / "h1.json", "h1", [1], {"compute_mode": "shared"})
        wanted = "5 ngpus 4 ngpus_shared 1 ngpus_excl_t 0 ngpus_excl_p 2 ngpuprohibited 1\n"
        assert any(program.stdout.readline() == wanted for _ in range(100))
        program.kill()


@pytest.mark.needs_gcc
def test_nvml_is_where_gpus_come_from_by_default(machine: Machine, tmp_path: Path) -> None:
    machine.say("gpu.0.mode=3", "gpu.1.mode=2")
    env = {**os.environ, "LSF_RESOURCES": "", "HOME": str(tmp_path)}
    env.pop("GSCHED_GPU_PROVIDER", None)
    done = run(env, "--once")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "4 ngpus 4 ngpus_shared 2 ngpus_excl_t 0 ngpus_excl_p 1\n",
        "",
    )


@pytest.mark.needs_gcc
def test_hidden_failure_of_nvml_is_not_printed_as_zero(machine: Machine) -> None:
    machine.say("init_err=999")
    done = run({**os.environ, "GSCHED_GPU_PROVIDER": "nvml"}, "--once")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "elim.gpu: GPUs unknown: NVML failed: Unknown Error\n"


def test_host_without_gpus_reports_none_and_says_why(env: dict[str, str]) -> None:
    done = run({**env, "GSCHED_GPU_PROVIDER": "none"}, "--once")
    assert (done.returncode, done.stdout) == (0, "4 ngpus 0 ngpus_shared 0 ngpus_excl_t 0 ngpus_excl_p 0\n")
    assert done.stderr == "elim.gpu: no GPUs: GSCHED_GPU_PROVIDER is none: no GPUs are looked for\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--interval", "0"], "--interval: '0' is not a number of seconds"),
        (["--interval", "nan"], "--interval: 'nan' is not a number of seconds"),
        (["--interval"], "--interval needs a number"),
        (["--frobnicate"], "'--frobnicate' is not understood"),
    ],
)
def test_command_line_that_is_not_understood(env: dict[str, str], arguments: list[str], text: str) -> None:
    done = run(env, *arguments)
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr.startswith(f"elim.gpu: {text}")
    assert done.stderr.count("\n") == 1


def test_help_and_unknown_provider(env: dict[str, str]) -> None:
    assert run(env, "--help").stdout.startswith("usage: elim.gpu")
    done = run({**env, "GSCHED_GPU_PROVIDER": "magic"})
    assert (done.returncode, done.stderr) == (
        255,
        "GSCHED_GPU_PROVIDER: 'magic' is not known (known: nvml, none, sim:FOLDER)\n",
    )


def test_provider_of_environment_then_lsf_conf_then_nvml(tmp_path: Path) -> None:
    (tmp_path / "lsf.conf").write_text(
        '# comment\nLSF_SERVERDIR=/x\n#GSCHED_GPU_PROVIDER=no\nGSCHED_GPU_PROVIDER="sim:/y"  # ours\n'
    )
    assert provider_of({"GSCHED_GPU_PROVIDER": "none", "GSCHED_ENVDIR": str(tmp_path)}) == "none"
    assert provider_of({"GSCHED_ENVDIR": str(tmp_path)}) == "sim:/y"
    assert provider_of({"LSF_ENVDIR": str(tmp_path)}) == "sim:/y"
    assert provider_of({"GSCHED_ENVDIR": str(tmp_path / "missing")}) == "nvml"
    assert provider_of({"HOME": str(tmp_path / "nobody")}) == "nvml"
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "lsf.conf").mkdir()
    with pytest.raises(BadRequest, match=r"lsf\.conf: cannot be read: Is a directory"):
        provider_of({"GSCHED_ENVDIR": str(tmp_path / "bad")})


def test_line_is_what_the_reader_of_elims_reads() -> None:
    report = GpuReport(gpus=(Gpu(uuid="GPU-a", index=0, mode=ComputeMode.PROHIBITED), Gpu(uuid="GPU-b", index=1)))
    (pairs,) = ElimParser().feed(format_line(report, "a ngpuprohibited b").encode())
    assert dict(pairs) == {
        "ngpus": "2",
        "ngpus_shared": "0",
        "ngpus_excl_t": "0",
        "ngpus_excl_p": "0",
        "ngpuprohibited": "1",
    }


def test_another_interval_in_the_configuration_holds_from_the_next_line_on(tmp_path: Path) -> None:
    conf = tmp_path / "lsf.conf"
    conf.write_text("GSCHED_GPU_INTERVAL=30\n")
    options = ElimOptions([], {"GSCHED_ENVDIR": str(tmp_path)})
    assert options.interval_s() == 30.0
    conf.write_text("GSCHED_GPU_INTERVAL=5\n")
    assert options.interval_s() == 5.0
    conf.write_text("GSCHED_GPU_INTERVAL=often\n")
    assert options.interval_s() == 5.0, "the master refuses such a file, and goes on as before"
    assert ElimOptions(["--interval", "7"], {"GSCHED_ENVDIR": str(tmp_path)}).interval_s() == 7.0
