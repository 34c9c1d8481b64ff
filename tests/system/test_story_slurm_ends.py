"""How jobs of Slurm's commands are warned, ended and judged, on a real cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

pytestmark = pytest.mark.system

Slurm = Callable[..., subprocess.CompletedProcess[str]]
TRAPS = "trap 'echo NAME:int; exit 0' INT; trap 'echo NAME:usr1' USR1; trap 'echo NAME:usr2' USR2; "
TRAPS += "trap 'echo NAME:term; exit 0' TERM; "
WAITS = "while :; do sleep 0.1; done"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    made = module_cluster("--hosts", "a,b")
    made.run("gsched", "names", "slurm", str(made.folder / "bin"))
    return made


@pytest.fixture
def slurm(cluster: Cluster, tmp_path: Path) -> Slurm:
    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            executable=str(cluster.folder / "bin" / words[0]),
            env={"PATH": f"{cluster.folder}/bin:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), **env},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    return run


def state(slurm: Slurm, number: str) -> str:
    return slurm("squeue", "-h", "-t", "all", "-j", number, "-o", "%T").stdout.strip()


def submit(slurm: Slurm, folder: Path, text: str, *words: str) -> str:
    (folder / "job.sh").write_text(f"#!/bin/bash\n{text}\n")
    told = slurm("sbatch", "--parsable", "-o", "out", "-e", "err", *words, "job.sh")
    assert told.returncode == 0, told.stderr
    return told.stdout.strip()


def test_a_job_that_exits_0_when_it_is_cancelled_is_cancelled(slurm: Slurm, cluster: Cluster, tmp_path: Path) -> None:
    number = submit(slurm, tmp_path, f"{TRAPS.replace('NAME', 'batch')} touch ready; {WAITS}")
    after = slurm("sbatch", "--parsable", "-d", f"afterok:{number}", "--wrap", "true").stdout.strip()
    cluster.until((tmp_path / "ready").exists, "the job does not run")
    assert slurm("scancel", number).returncode == 0
    cluster.becomes(int(number), "EXIT")
    assert (tmp_path / "out").read_text() == "batch:term\n"
    assert state(slurm, number) == "CANCELLED"
    assert state(slurm, after) in ("PENDING", "CANCELLED"), "afterok does not hold"
    slurm("scancel", after)


def test_the_run_limit_begins_with_sigterm(slurm: Slurm, cluster: Cluster, tmp_path: Path) -> None:
    number = submit(slurm, tmp_path, f"{TRAPS.replace('NAME', 'batch')} {WAITS}", "-t", "0:02")
    cluster.becomes(int(number), "EXIT")
    assert (tmp_path / "out").read_text() == "batch:term\n"
    assert state(slurm, number) == "TIMEOUT"


@pytest.mark.parametrize(
    ("option", "hears"), [("USR1@3580", ["step:usr1", "step:usr1"]), ("B:USR1@3580", ["batch:usr1"])]
)
def test_who_is_warned(slurm: Slurm, cluster: Cluster, tmp_path: Path, option: str, hears: list[str]) -> None:
    """20 seconds after it began: the tasks of its steps, on both hosts, or its shell."""
    step = f"{TRAPS.replace('NAME', 'step')} touch ready.$SLURM_PROCID; {WAITS}"
    (tmp_path / "step.sh").write_text(step)
    text = f"{TRAPS.replace('NAME', 'batch')}\nsrun -N2 -n2 bash step.sh &\n while :; do wait; sleep 0.1; done"
    number = submit(slurm, tmp_path, text, "-N2", "-t", "60", f"--signal={option}")
    cluster.until((tmp_path / "ready.1").exists, "the step does not run")
    heard = tmp_path / "out"
    cluster.until(lambda: len(heard.read_text().splitlines()) >= len(hears), "nobody is warned")
    assert heard.read_text().splitlines() == hears
    slurm("scancel", number)
    cluster.becomes(int(number), "EXIT")


@pytest.mark.parametrize(
    ("words", "hears"),
    [((), ["step:usr1", "step:usr1"]), (("--batch",), ["batch:usr1"]), (("-f",), ["batch:usr1", *["step:usr1"] * 2])],
)
def test_whom_a_signal_of_scancel_reaches(
    slurm: Slurm, cluster: Cluster, tmp_path: Path, words: tuple[str, ...], hears: list[str]
) -> None:
    step = f"{TRAPS.replace('NAME', 'step')} touch ready.$SLURM_PROCID; {WAITS}"
    (tmp_path / "step.sh").write_text(step)
    text = f"{TRAPS.replace('NAME', 'batch')}\nsrun -N2 -n2 bash step.sh &\n while :; do wait; sleep 0.1; done"
    number = submit(slurm, tmp_path, text, "-N2")
    cluster.until(lambda: all((tmp_path / f"ready.{task}").exists() for task in "01"), "the step does not run")
    assert slurm("scancel", *words, "--signal=USR1", number).returncode == 0
    heard = tmp_path / "out"
    cluster.until(lambda: len(heard.read_text().splitlines()) >= len(hears), "nobody hears it")
    assert slurm("scancel", "--signal=USR2", "--batch", number).returncode == 0
    cluster.until(lambda: "batch:usr2" in heard.read_text(), "the script does not hear it")
    assert sorted(set(heard.read_text().splitlines())) == sorted({*hears, "batch:usr2"})
    slurm("scancel", number)
    cluster.becomes(int(number), "EXIT")


def test_output_into_a_folder_that_is_not_there(slurm: Slurm, cluster: Cluster, tmp_path: Path) -> None:
    told = slurm("sbatch", "--parsable", "-o", "missing/%j.out", "--wrap", "touch ran")
    number = told.stdout.strip()
    cluster.becomes(int(number), "EXIT")
    assert state(slurm, number) == "FAILED" and not (tmp_path / "ran").exists()
    facts = slurm("sacct", "-nPXj", number, "-o", "State,ExitCode,SystemComment").stdout
    assert facts == f"FAILED|1:0|output file missing/{number}.out: No such file or directory\n"


def test_names_of_output_files(slurm: Slurm, cluster: Cluster, tmp_path: Path) -> None:
    told = slurm("sbatch", "--parsable", "-w", "b", "-J", "run", "-o", "%x.%N.%6j.%2t.%s", "--wrap", "true")
    cluster.wait(int(told.stdout))
    name = f"run.b.{int(told.stdout):06}.00.batch"
    assert (tmp_path / name).exists()
    assert (
        slurm("squeue", "-h", "-t", "all", "-j", told.stdout.strip(), "-O", "STDOUT:200").stdout.strip().endswith(name)
    )


def test_more_nodes_than_there_are(slurm: Slurm) -> None:
    for command, failure in (("sbatch", "Batch job submission failed"), ("salloc", "Unable to allocate resources")):
        words = ("--wrap", "true") if command == "sbatch" else ("true",)
        told = slurm(command, "-N9", *words)
        assert (told.returncode, told.stdout) == (1, "")
        assert told.stderr == f"{command}: error: {failure}: Node count specification invalid\n"


def test_wait_for_an_array_tells_the_highest_exit_code(slurm: Slurm) -> None:
    line = "exit $((SLURM_ARRAY_TASK_ID % 3 * 2))"
    told = slurm("sbatch", "--wait", "--array=1-3", "-o", "/dev/null", "--wrap", line)
    assert told.returncode == 4, told.stderr


def test_gsub_in_such_a_job_passes_nothing_on(slurm: Slurm, cluster: Cluster, tmp_path: Path) -> None:
    gsub = cluster.run("bash", "-c", "command -v gsub").stdout.strip()
    number = submit(slurm, tmp_path, f"'{gsub}' -K -o inner 'env | grep -c ^SLURM; echo $MINE'")
    cluster.wait(int(number))
    assert "0\n" in (tmp_path / "inner").read_text()
    assert "SLURM_" not in (tmp_path / "inner").read_text()
