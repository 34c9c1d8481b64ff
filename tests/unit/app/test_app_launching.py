"""`glaunch --launch` on its first host: the job from its environment, ports, programs that are missing, profiles."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gsched.app.launching.launch_run import check_program, run
from gsched.app.launching.launched_job import free_port, is_taken, launched_job
from gsched.app.launching.profile_message import MOST_TEXT, profiles_text
from gsched.base.errors import BadRequest
from gsched.dialect.launching.launch_words import read_launch

JOB = {
    "LSB_BATCH_JID": "7[2]",
    "LSB_MCPU_HOSTS": "h1 2 h2 4",
    "GSCHED_AGENT_SOCKET": "/run/agent",
    "GSCHED_HOST_GPUS": "h1:gpus=2,3;h2:gpus=0;",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "LSB_OUTDIR": "/data/out",
    "PYTHONPATH": "/lib",
}


def test_the_job_is_what_its_environment_says() -> None:
    job = launched_job(JOB)
    assert [(host.name, host.slots, host.gpus) for host in job.hosts] == [("h1", 2, 2), ("h2", 4, 1)]
    assert (job.number, job.profile_folder, job.forwarded) == ("7[2]", "/data/out/prof.7.2", ("PYTHONPATH",))
    later = launched_job({**JOB, "GSCHED_ATTEMPT": "3"})
    assert later.profile_folder == "/data/out/prof.7.2.attempt3"


def test_on_one_host_its_gpus_are_those_that_are_visible() -> None:
    (host,) = launched_job({**JOB, "LSB_MCPU_HOSTS": "h1 8", "GSCHED_HOST_GPUS": ""}).hosts
    assert (host.slots, host.gpus) == (8, 2)
    (host,) = launched_job({**JOB, "LSB_MCPU_HOSTS": "h1 8", "CUDA_VISIBLE_DEVICES": ""}).hosts
    assert host.gpus == 0


@pytest.mark.parametrize("name", ["LSB_BATCH_JID", "LSB_MCPU_HOSTS", "GSCHED_AGENT_SOCKET"])
def test_outside_of_a_job_it_says_so(name: str) -> None:
    with pytest.raises(BadRequest, match="works only inside a job"):
        launched_job({**JOB, name: ""})


def test_a_port_that_somebody_has_is_taken() -> None:
    port = free_port()
    assert not is_taken(port)
    with socket.socket() as other:
        other.bind(("", port))
        other.listen()
        assert is_taken(port)
    assert not is_taken(port)


def test_a_launcher_that_is_missing_is_named(tmp_path: Path) -> None:
    asked = read_launch(["--torch", "python", "train.py"])
    with pytest.raises(BadRequest, match="there is no torchrun in PATH: activate the environment that has PyTorch"):
        check_program(asked, {"PATH": str(tmp_path)})
    (tmp_path / "torchrun").write_text("")
    (tmp_path / "torchrun").chmod(0o755)
    check_program(asked, {"PATH": str(tmp_path)})
    check_program(read_launch(["--lightning", "python", "train.py"]), {"PATH": ""})


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--torch"], "no command to run (-h lists the options)"),
        (["--torch", "--frobnicate", "x"], "unknown option --frobnicate"),
        (["--launch", "torch", "./run"], "it works only inside a job, on the hosts that the job has"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str], line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GSCHED_AGENT_SOCKET", raising=False)
    assert run(["glaunch", *words]) == 255
    said = capfd.readouterr().err
    assert said.startswith(f"glaunch: {line}") and said.count("\n") == 1


def test_profiles_are_named_with_their_hosts_where_these_share_no_folder() -> None:
    assert profiles_text("/p", ["a", "b"], [["r0", "r1"], ["r0", "r1"]]) == "profiles in /p: r0 r1"
    assert profiles_text("/p", ["a", "b"], [["r0"], ["r1"]]) == "profiles in /p: a:r0 b:r1"
    assert profiles_text("/p", ["a"], [[]]) == ""
    long = profiles_text("/p", ["a"], [[f"rank-{number}.svg" for number in range(1000)]])
    assert len(long) == MOST_TEXT and long.endswith(" ...")
