"""srun and salloc on a real cluster of two hosts: steps of a job, jobs of their own, terminals."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

pytestmark = pytest.mark.system

Slurm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    made = module_cluster("--sim-gpus", "2:exclusive_process", "--hosts", "a,b")
    made.run("gsched", "names", "slurm", str(made.folder / "bin"))
    return made


@pytest.fixture
def environment(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    return {"PATH": f"{cluster.folder}/bin:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb"}


@pytest.fixture
def slurm(cluster: Cluster, environment: dict[str, str], tmp_path: Path) -> Slurm:
    def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            executable=str(cluster.folder / "bin" / words[0]),
            env=environment,
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    return run


def batch(slurm: Slurm, folder: Path, text: str, *words: str) -> str:
    """What a batch script prints."""
    (folder / "job.sh").write_text(f"#!/bin/bash\n{text}\n")
    told = slurm("sbatch", "--wait", "--parsable", "-o", "out", *words, "job.sh")
    assert told.stderr == "", told.stderr
    return (folder / "out").read_text()


def test_steps_of_a_batch_script(slurm: Slurm, tmp_path: Path) -> None:
    names = "$SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS $SLURM_TASKS_PER_NODE $SLURM_STEP_NODELIST"
    text = f"""
srun -l bash -c 'echo $SLURMD_NODENAME {names} $SLURM_STEP_ID $LSB_JOBID' | sort
echo $SLURM_JOB_NODELIST $SLURM_JOB_ID
srun -m cyclic -n3 bash -c 'echo $SLURM_PROCID $SLURM_NODEID' | sort
srun -n5 true; echo "exit $?"
srun bash -c 'exit $SLURM_PROCID' 2>&1 | sort
echo typed | srun -n2 cat
srun -n2 -o 'task.%t.%s' bash -c 'echo $SLURM_PROCID'; cat task.*
printf '0 echo zero\\n* echo other %%t\\n' > programs; srun -n2 --multi-prog programs | sort
"""
    lines = batch(slurm, tmp_path, text, "-N2", "-n4", "--gres=gpu:2").splitlines()
    nodes, number = lines[4].split()
    first, second = nodes.split(",")
    assert lines[:4] == [
        f"{task}: {host} {task} {task % 2} {task // 2} 4 2(x2) {nodes} 0 {number}"
        for task, host in enumerate((first, first, second, second))
    ]
    assert lines[5:8] == ["0 0", "1 1", "2 0"]
    assert lines[8].startswith(f"srun: error: Unable to create step for job {number}: More processors requested than")
    assert lines[9] == "exit 1"
    assert lines[10:13] == [
        f"srun: error: {host}: task {task}: Exited with exit code {task}"
        for task, host in sorted(((1, first), (2, second), (3, second)), key=lambda each: (each[1], each[0]))
    ]
    assert lines[13:] == ["typed", "typed", "0", "1", "other 1", "zero"]


def test_gpus_of_tasks(slurm: Slurm, tmp_path: Path) -> None:
    text = """
srun --gpus-per-task=1 bash -c 'echo $SLURMD_NODENAME $SLURM_LOCALID $CUDA_VISIBLE_DEVICES $GSCHED_GPU_UUIDS' | sort
srun -N1 -n1 bash -c 'echo $CUDA_VISIBLE_DEVICES'
srun -N1 -n1 --gres=none bash -c 'echo "[$CUDA_VISIBLE_DEVICES]"'
srun --gres=gpu:3 true
"""
    lines = batch(slurm, tmp_path, text, "-N2", "-n4", "--gres=gpu:2").splitlines()
    assert [line.split()[:3] for line in lines[:4]] == [
        ["a", "0", "0"],
        ["a", "1", "1"],
        ["b", "0", "0"],
        ["b", "1", "1"],
    ]
    assert len({line.split()[3] for line in lines[:4]}) == 4
    assert lines[4:6] == ["0,1", "[]"]
    assert "More GPUs requested than permitted" in lines[6]


def test_steps_at_once_wait_for_each_other(slurm: Slurm, tmp_path: Path) -> None:
    """Two CPUs, three steps that each take one: the third begins when another has ended, and none shares a GPU."""
    text = """
for i in 1 2; do
  srun -n1 --gpus-per-task=1 bash -c "echo \\$CUDA_VISIBLE_DEVICES > gpu.$i; while [ ! -e go ]; do sleep 0.1; done" &
done
while [ ! -s gpu.1 ] || [ ! -s gpu.2 ]; do sleep 0.1; done
srun -n1 -I true; echo "at once $?"
srun -n1 --overlap echo over
srun -n1 bash -c 'test -e go && echo third' 2>said &
while [ ! -s said ]; do sleep 0.1; done
touch go; wait
sort gpu.1 gpu.2; cat said
"""
    lines = batch(slurm, tmp_path, text, "-N1", "-n2", "--gres=gpu:2").splitlines()
    assert "Requested nodes are busy" in lines[0] and lines[1] == "at once 1"
    assert lines[2:5] == ["over", "third", "0"] and lines[5] == "1"
    assert "step creation temporarily disabled, retrying (Requested nodes are busy)" in lines[6]
    assert "Step created for job" in lines[7]


def test_a_step_goes_on_while_daemons_are_killed(slurm: Slurm, cluster: Cluster, tmp_path: Path) -> None:
    count = "for i in $(seq 1 40); do echo $i; echo $i >> ran.$SLURM_PROCID; sleep 0.05; done; exit 3"
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\nsrun -n2 bash -c '{count}' 2>said; echo $?\n")
    told = slurm("sbatch", "--parsable", "-N2", "-n2", "-o", "out", "job.sh")
    cluster.until((tmp_path / "ran.0").exists, "the step does not run")
    for name in ("master", "agent-a", "agent-b"):
        cluster.kill(name)
    cluster.run("gsched", "up", "--dir", str(cluster.folder))
    cluster.wait(int(told.stdout))
    lines = (tmp_path / "out").read_text().split()
    assert sorted(map(int, lines[:-1])) == sorted([*range(1, 41)] * 2) and lines[-1] == "3"
    assert (tmp_path / "ran.0").read_text().split() == [*map(str, range(1, 41))]


def test_a_failed_task_ends_its_step(slurm: Slurm, tmp_path: Path) -> None:
    text = "srun -K bash -c '[ $SLURM_PROCID = 1 ] && exit 4; exec sleep 1000'; echo $?"
    assert batch(slurm, tmp_path, text, "-N2", "-n2").splitlines()[-1] == "143"


def test_srun_by_itself(slurm: Slurm, cluster: Cluster) -> None:
    told = slurm(
        "srun", "-N2", "-l", "-J", "hello", "bash", "-c", "cat; echo $SLURM_JOB_NAME >&2; exit 5", stdin="in\n"
    )
    assert told.returncode == 5
    assert sorted(told.stdout.splitlines()) == ["0: in", "1: in"]
    said = [line for line in told.stderr.splitlines() if not line.startswith("srun: job ")]
    assert sorted(said)[:2] == ["0: hello", "1: hello"]
    assert sum("Exited with exit code 5" in line for line in said) == 2
    assert slurm("srun", "-n", "3", "bash", "-c", "exit $SLURM_PROCID").returncode == 2
    for words, wrong in ((("-p", "nope", "x"), "-p: nope: No such queue"), (("-n", "999", "x"), "-n: Too many")):
        refused = slurm("srun", *words)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith(f"srun: error: Unable to allocate resources: {wrong}")
        assert refused.stderr.count("\n") == 1


def test_ctrl_c_reaches_the_tasks(cluster: Cluster, environment: dict[str, str], tmp_path: Path) -> None:
    words = [
        "--quit-on-interrupt",
        "bash",
        "-c",
        'trap "echo caught; exit 9" INT; touch ready; while :; do sleep 0.1; done',
    ]
    running = subprocess.Popen(
        [f"{cluster.folder}/bin/srun", *words],
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    cluster.until((tmp_path / "ready").exists, "the task does not run")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, out) == (9, "caught\n"), err
    assert "sending Ctrl-C to StepId=" in err


def test_salloc_runs_a_command_beside_the_job(slurm: Slurm, cluster: Cluster) -> None:
    line = "echo $SLURM_JOB_ID $SLURM_NNODES $SLURM_NTASKS; "
    line += "srun -l bash -c 'echo $LSB_JOBID $CUDA_VISIBLE_DEVICES'; exit 7"
    told = slurm("salloc", "-N2", "--gres=gpu:1", "bash", "-c", line)
    assert told.returncode == 7, told.stderr
    number, nodes, tasks = told.stdout.splitlines()[0].split()
    assert (nodes, tasks) == ("2", "2")
    assert sorted(told.stdout.splitlines()[1:]) == [f"0: {number} 0", f"1: {number} 0"]
    said = [line for line in told.stderr.splitlines() if "queued" not in line and "has been" not in line]
    assert said == [f"salloc: Granted job allocation {number}", f"salloc: Relinquishing job allocation {number}"]
    assert cluster.job(int(number)).state == "EXIT"


def test_salloc_without_a_shell(slurm: Slurm, cluster: Cluster) -> None:
    told = slurm("salloc", "--no-shell", "-J", "kept")
    found = re.search(r"salloc: Granted job allocation (\d+)\n", told.stderr)
    assert told.returncode == 0 and found is not None, told.stderr
    number = found[1]
    assert slurm("srun", f"--jobid={number}", "bash", "-c", "echo $SLURM_JOB_ID").stdout == f"{number}\n"
    assert slurm("scancel", number).returncode == 0
    cluster.becomes(int(number), "EXIT")
    gone = slurm("srun", f"--jobid={number}", "true")
    assert gone.returncode == 1 and "has ended" in gone.stderr


def test_a_command_of_salloc_learns_that_its_job_has_ended(slurm: Slurm) -> None:
    line = "trap 'echo hung up; exit 4' HUP; scancel $SLURM_JOB_ID; while :; do sleep 0.1; done"
    told = slurm("salloc", "bash", "-c", line)
    assert (told.returncode, told.stdout) == (4, "hung up\n")
    assert re.search(r"salloc: Job allocation \d+ has been revoked\.\n", told.stderr)
    assert "Relinquishing" not in told.stderr


def test_a_terminal(cluster: Cluster, environment: dict[str, str], tmp_path: Path) -> None:
    """The line of those who want a GPU to work on."""
    line = ["-p", "normal", "-N", "1", "-n", "2", "-t", "02:00:00", "--gres=gpu:2", "--pty", "/bin/bash", "--norc"]
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [f"{cluster.folder}/bin/srun", *line], env=environment, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.write(ours, b"echo $CUDA_VISIBLE_DEVICES $SLURM_NTASKS; tty > tty; srun -l echo step; exit 6\n")
    text = b""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # nobody has the other end any more
            break
        text += piece
        if not piece:
            break
    assert running.wait(PATIENCE_S) == 6
    assert b"0,1 2" in text and b"0: step" in text and b"1: step" in text
    assert (tmp_path / "tty").read_text().startswith("/dev/pts/")
    os.close(ours)


def sacct(slurm: Slurm, number: str, fields: str) -> list[str]:
    told = slurm("sacct", "-nPj", number, "-o", fields)
    assert told.returncode == 0, told.stderr
    return told.stdout.splitlines()


@pytest.mark.nightly
def test_steps_are_in_the_facts_of_their_job(slurm: Slurm, cluster: Cluster, tmp_path: Path) -> None:
    """While it runs and when it has ended, and after all daemons were killed in between."""
    waits = "touch up.$SLURM_PROCID; while [ ! -e go ]; do sleep 0.1; done"
    text = f"srun -n1 sh -c 'exit 3'; srun -n2 -J pair -l sh -c '{waits}'"
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n{text}\nexit 5\n")
    number = slurm("sbatch", "--parsable", "-N2", "-n2", "-o", "out", "job.sh").stdout.strip()
    cluster.until(lambda: (tmp_path / "up.0").exists() and (tmp_path / "up.1").exists(), "the step does not run")
    running = f"{number}.1"
    cluster.until(lambda: running in slurm("squeue", "-h", "-s", "-o", "%i").stdout.split(), "squeue knows no step")
    assert slurm("squeue", "-h", "-s", running, "-o", "%i %j %A").stdout == f"{running} pair 2\n"
    shown = slurm("scontrol", "-o", "show", "step", running)
    assert f"StepId={running} " in shown.stdout and "Tasks=2 Name=pair" in shown.stdout
    assert slurm("sstat", "-nPj", running, "-o", "JobID,NTasks").stdout == f"{running}|2\n"
    cluster.until(
        lambda: all(slurm("sstat", "-nPj", running, "-o", "MaxRSS,AveCPU").stdout.strip().split("|")),
        "nobody knows what a step that runs has used",
    )
    assert sacct(slurm, f"{number}.0", "JobID,JobName,State,ExitCode") == [f"{number}.0|sh|FAILED|3:0"]
    for name in ("agent-a", "agent-b", "master"):
        cluster.kill(name)
    cluster.run("gsched", "up", "--dir", str(cluster.folder))
    (tmp_path / "go").touch()
    cluster.wait(int(number))
    rows = [f"{number}.0|FAILED|3:0", f"{running}|COMPLETED|0:0"]
    assert sacct(slurm, number, "JobID,State,ExitCode") == [f"{number}|FAILED|5:0", f"{number}.batch|FAILED|5:0", *rows]
    cluster.kill("master")  # and what is stored is read again
    cluster.run("gsched", "up", "--dir", str(cluster.folder))
    assert sacct(slurm, f"{number}.0,{running}", "JobID,State,ExitCode") == rows
    start, end, elapsed = sacct(slurm, running, "Start,End,ElapsedRaw")[0].split("|")
    assert start <= end != "Unknown" and int(elapsed) < PATIENCE_S


def test_the_memory_of_a_step(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "big.py").write_text("held = bytearray(200_000_000)\n")
    text = f"srun -n1 '{sys.executable}' big.py; echo $SLURM_JOB_ID"
    number = batch(slurm, tmp_path, text, "-n1").strip()
    told = sacct(slurm, f"{number}.0", "MaxRSS,TotalCPU")[0].split("|")
    assert 190_000 < int(told[0].removesuffix("K")) < 400_000 and told[1] != ""


def test_scancel_of_a_step_leaves_its_job_alone(slurm: Slurm, cluster: Cluster, tmp_path: Path) -> None:
    text = """
srun -n2 sh -c 'touch up.$SLURM_PROCID; exec sleep 1000' 2>said; echo "step $?"
srun -n1 echo next
"""
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n{text}\n")
    number = slurm("sbatch", "--parsable", "-N2", "-n2", "-o", "out", "job.sh").stdout.strip()
    cluster.until(lambda: (tmp_path / "up.0").exists() and (tmp_path / "up.1").exists(), "the step does not run")
    assert slurm("scancel", f"{number}.9").stderr.endswith(f"job step id {number}.9: Invalid job id specified\n")
    ended = slurm("scancel", f"{number}.0")
    assert (ended.returncode, ended.stderr) == (0, "")
    cluster.wait(int(number))
    assert (tmp_path / "out").read_text() == "step 143\nnext\n"
    said = (tmp_path / "said").read_text()
    assert re.search(rf"srun: error: \*\*\* STEP {number}\.0 ON [ab] CANCELLED AT ", said), said
    assert "srun: Job step aborted: Waiting up to 32 seconds for job step to finish." in said
    assert sacct(slurm, number, "JobID,State,ExitCode") == [
        f"{number}|COMPLETED|0:0",
        f"{number}.batch|COMPLETED|0:0",
        f"{number}.0|CANCELLED|0:15",
        f"{number}.1|COMPLETED|0:0",
    ]


def test_a_terminal_of_srun_is_step_0(slurm: Slurm) -> None:
    told = slurm(
        "srun", "--pty", "-J", "typing", "bash", "-c", "srun -n1 sh -c 'echo step $SLURM_STEP_ID $SLURM_JOB_ID'"
    )
    step, number = told.stdout.split()[1:]
    assert step == "1", told
    assert sacct(slurm, number, "JobID,JobName,State") == [
        f"{number}|typing|COMPLETED",
        f"{number}.0|typing|COMPLETED",
        f"{number}.1|sh|COMPLETED",
    ]


@pytest.mark.parametrize(
    ("mpi", "launcher", "rank", "size"),
    [
        ("pmix", "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("pmi2", "mpiexec.hydra", "PMI_RANK", "PMI_SIZE"),
    ],
)
def test_mpi_programs(slurm: Slurm, tmp_path: Path, mpi: str, launcher: str, rank: str, size: str) -> None:
    """Their MPI starts them on both hosts: an MPI is asked for what it tells its processes.

    Open MPI names its folders by the host, the user and a number made of a process's: all hosts here are one machine.
    """
    if shutil.which(launcher, path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip(f"there is no {launcher}")
    if " " in sys.executable:
        pytest.skip("an MPI takes the path of what starts its daemons apart at its blanks")
    text = f"""
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base={tmp_path}
srun --mpi={mpi} sh -c 'echo ${rank} ${size} $SLURM_NTASKS $SLURMD_NODENAME' 2>said | sort
"""
    lines = batch(slurm, tmp_path, text, "-N2", "-n4").splitlines()
    assert lines == ["0 4 4 a", "1 4 4 a", "2 4 4 b", "3 4 4 b"], (tmp_path / "said").read_text()
