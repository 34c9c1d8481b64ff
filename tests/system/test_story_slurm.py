"""A day with Slurm's commands on a real cluster: `gsched names slurm`, sbatch, squeue, scancel, sinfo."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

pytestmark = pytest.mark.system

SEED = """\
#!/bin/bash
#SBATCH -J LSTM
#SBATCH -o LSTM.%j.out
#SBATCH -p normal
#SBATCH -t 264:00:00
#SBATCH --gres=gpu:2
#SBATCH --ntasks=2
#SBATCH --tasks-per-node=2
#SBATCH --cpus-per-task=1

cd $SLURM_SUBMIT_DIR

echo "SLURM_SUBMIT_DIR=$SLURM_SUBMIT_DIR"
echo "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS"
echo "$SLURM_NNODES $SLURM_TASKS_PER_NODE $SLURM_JOB_NAME $SLURM_JOB_PARTITION $#"
squeue --noheader --format '%i %t %j' --job $SLURM_JOBID
"""
"""What people of a site with Slurm submit, with its own queue in its place: partition, GPUs, tasks, squeue within."""


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    made = module_cluster("--sim-gpus", "4:exclusive_process")
    made.run("gsched", "names", "slurm", str(made.folder / "bin"))
    return made


@pytest.fixture
def slurm(cluster: Cluster, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """One of the commands, in a directory of its own, with nothing of gsched in its environment."""

    def run(*words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        path = f"{cluster.folder}/bin:/usr/local/bin:/usr/bin:/bin"
        return subprocess.run(
            words,
            executable=str(cluster.folder / "bin" / words[0]),
            env={"PATH": path, "HOME": str(tmp_path), **env},
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    return run


Slurm = Callable[..., subprocess.CompletedProcess[str]]


def test_a_script_written_for_slurm_runs_as_it_is(slurm: Slurm, tmp_path: Path, cluster: Cluster) -> None:
    (tmp_path / "bash_batch.sh").write_text(SEED)
    told = slurm("sbatch", "--wait", "bash_batch.sh", "an", "argument")
    assert told.returncode == 0, told.stderr
    number = told.stdout.removeprefix("Submitted batch job ").strip()
    said = (tmp_path / f"LSTM.{number}.out").read_text().splitlines()
    assert said == [
        f"SLURM_SUBMIT_DIR={tmp_path}",
        f"CUDA_VISIBLE_DEVICES={said[1].split('=')[1].split()[0]} {said[1].split()[1]}",
        "1 2 LSTM normal 2",
        f"{number} R LSTM",
    ]
    assert len(said[1].split()[1].split(",")) == 2
    # The same job by LSF's commands, and no report of theirs in its output.
    seen = cluster.run("gjobs", "-a", "-noheader", "-o", "stat slots job_name", number)
    assert seen.stdout.split() == ["DONE", "2", "LSTM"]


def test_gsub_submits_a_script_written_for_slurm(slurm: Slurm, tmp_path: Path, cluster: Cluster) -> None:
    script = tmp_path / "a script.sh"
    script.write_text(SEED)
    words = ("gsub", "-K", "-J", "mine", "-cwd", str(tmp_path), str(script), "an", "argument")
    told = cluster.run(*words, PATH=f"{cluster.folder}/bin:{cluster.env['PATH']}")
    number = told.stdout.partition("<")[2].partition(">")[0]
    said = (tmp_path / f"LSTM.{number}.out").read_text().splitlines()
    assert len(said[1].removeprefix("CUDA_VISIBLE_DEVICES=").split()[0].split(",")) == 2
    assert said[2] == "1 2 mine normal 2"
    assert slurm("squeue", "-t", "all", "-h", "-j", number, "-o", "%i %j %T").stdout == f"{number} mine COMPLETED\n"
    script.write_text("#!/bin/sh\n#BSUB -n 1\n#SBATCH -n 1\n")
    refused = cluster.run("gsub", str(script), check=False)
    assert refused.returncode == 255
    assert refused.stderr.startswith("line 2 of the script is a #BSUB line and line 3 a #SBATCH line: ")


def test_an_array_from_zero(slurm: Slurm, tmp_path: Path) -> None:
    line = (
        "echo $SLURM_ARRAY_JOB_ID/$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_MIN-$SLURM_ARRAY_TASK_MAX; "
        "squeue -h -j $SLURM_JOB_ID -o %i"
    )
    told = slurm("sbatch", "--wait", "--parsable", "--array=0-2", "--wrap", line)
    assert told.returncode == 0, told.stderr
    number = told.stdout.strip()
    for index in range(3):
        assert (tmp_path / f"slurm-{number}_{index}.out").read_text() == f"{number}/{index} of 0-2\n{number}_{index}\n"
    listed = slurm("squeue", "-t", "all", "-h", "-j", f"{number}_[0,2]", "-o", "%i %T")
    assert listed.stdout == f"{number}_0 COMPLETED\n{number}_2 COMPLETED\n"
    after = slurm("sbatch", "--wait", "--parsable", "-d", f"afterok:{number}_0", "--wrap", "exit 3")
    assert after.returncode == 3


def test_what_waits_is_held_seen_and_cancelled(slurm: Slurm) -> None:
    told = slurm("sbatch", "--hold", "--parsable", "--comment=night", "-J", "held", "--wrap", "true")
    number = told.stdout.strip()
    seen = slurm("squeue", "--me", "-h", "-n", "held", "-o", "%i %t %r %k", "-S", "-i")
    assert seen.stdout == f"{number} PD JobHeldUser night\n"
    assert slurm("scancel", "-n", "held").returncode == 0
    assert slurm("squeue", "-h", "-t", "CA", "-j", number, "-o", "%T").stdout == "CANCELLED\n"
    assert slurm("scancel", number).returncode == 0, "who cancels what has ended has what he wants"
    gone = slurm("scancel", "-s", "USR1", "999999")
    assert gone.returncode == 1
    assert gone.stderr == "scancel: error: Kill job error on job id 999999: Invalid job id specified\n"


def test_partitions_and_nodes(slurm: Slurm) -> None:
    told = slurm("sinfo", "-h", "-p", "normal", "-o", "%P %a %D %G")
    assert told.stdout.startswith("normal* up 1 gpu:") and told.stdout.endswith(":4\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-p", "nope", "--wrap", "true"), "sbatch: error: Batch job submission failed: -p: nope: No such queue\n"),
        (("--gres=gpu:9", "--wrap", "true"), "sbatch: error: Batch job submission failed: --gres: No host can ever"),
        (("nothing.sh",), "sbatch: error: Unable to open file nothing.sh: No such file or directory\n"),
        (("--qos=high", "--wrap", "true"), "sbatch: error: --qos: there is no QOS"),
    ],
)
def test_refused_in_one_line(slurm: Slurm, words: tuple[str, ...], said: str) -> None:
    told = slurm("sbatch", *words)
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith(said) and told.stderr.count("\n") == 1


def test_what_clients_of_slurm_ask_agrees(slurm: Slurm, cluster: Cluster) -> None:
    told = slurm("sbatch", "--wait", "--parsable", "--gres=gpu:2", "-t", "10", "-J", "asked", "--wrap", "exit 3")
    number = told.stdout.strip()
    assert told.returncode == 3, told.stderr
    # submitit, Snakemake, Parsl and PSI/J, as they ask; an end is known to all of them at once.
    rows = slurm("sacct", "-o", "JobID,State,NodeList", "--parsable2", "-j", number).stdout.splitlines()
    assert rows[0] == "JobID|State|NodeList"
    assert [row.split("|")[:2] for row in rows[1:]] == [[number, "FAILED"], [f"{number}.batch", "FAILED"]]
    asked = "-X --parsable2 --clusters all --noheader --format=JobIdRaw,State --starttime now-2days --endtime now"
    assert slurm("sacct", *asked.split(), "--name", "asked").stdout == f"{number}|FAILED\n"
    assert slurm("sacct", "-X", "--noheader", "--format=jobid,state%20", "--job", number).stdout.split() == [
        number,
        "FAILED",
    ]
    listed = slurm("squeue", "-O", "JobArrayID,StateCompact,Reason", "-t", "all", "--me").stdout.splitlines()[1:]
    assert [number, "F", "NonZeroExitCode"] in [line.split() for line in listed]
    shown = slurm("scontrol", "-o", "show", "job", number).stdout
    assert "JobState=FAILED" in shown and "ExitCode=3:0" in shown and "gres/gpu=2" in shown
    tres = slurm("sacct", "-nXPj", number, "-o", "AllocTRES,ExitCode,Timelimit").stdout
    assert "gres/gpu=2" in tres and tres.strip().endswith("|3:0|00:10:00")
    assert cluster.run("gjobs", "-a", "-noheader", "-o", "stat", number).stdout.split() == ["EXIT"]
    assert slurm("sacctmgr", "-n", "-s", "list", "user", "ann", "format=account%256").stdout == ""


def test_a_job_is_changed_held_and_run_again(slurm: Slurm, tmp_path: Path) -> None:
    told = "scontrol show hostnames; echo restarts $SLURM_RESTART_COUNT"
    line = f"{told}; [ -e again ] && exit 0; touch again; scontrol requeue $SLURM_JOB_ID; sleep 600"
    number = slurm("sbatch", "--hold", "--parsable", "--wckey=x", "--wrap", line).stdout.strip()
    changed = slurm("scontrol", "update", f"JobId={number}", "TimeLimit=1:00:00", "JobName=other", "Comment=so it is")
    assert changed.returncode == 0, changed.stderr
    listed = slurm("squeue", "-h", "-j", number, "-o", "%j %l %k %r")
    assert listed.stdout == "other 1:00:00 so it is JobHeldUser\n"
    assert slurm("scontrol", "release", number).returncode == 0
    after = slurm("sbatch", "-d", f"afterok:{number}", "--wait", "--wrap", "true")
    assert after.returncode == 0, after.stderr
    # It has asked to be run again from within, and succeeded then.
    told = slurm("sacct", "-nXPj", number, "-o", "State,JobName,Comment").stdout
    assert told == "COMPLETED|other|so it is\n"
    assert "Restarts=1" in slurm("scontrol", "show", "job", number).stdout
    # As Slurm has it, its output is what it prints alone, and begins anew.
    (name,) = slurm("sinfo", "-h", "-N", "-p", "normal", "-o", "%N").stdout.split()
    assert (tmp_path / f"slurm-{number}.out").read_text() == f"{name}\nrestarts 1\n"


def test_nodes_and_partitions_are_closed_and_opened(slurm: Slurm) -> None:
    (name,) = slurm("sinfo", "-h", "-N", "-p", "normal", "-o", "%N").stdout.split()
    assert slurm("scontrol", "update", f"NodeName={name}", "State=DRAIN", "Reason=fan").returncode == 0
    assert slurm("sinfo", "-h", "-R", "-o", "%E %N").stdout == f"fan {name}\n"
    assert "State=IDLE+DRAIN" in slurm("scontrol", "show", "node", name).stdout
    assert slurm("scontrol", "update", f"NodeName={name}", "State=RESUME").returncode == 0
    assert slurm("scontrol", "update", "PartitionName=night", "State=DOWN").returncode == 0
    assert slurm("sinfo", "-h", "-p", "night", "-o", "%a").stdout == "down\n"
    assert slurm("scontrol", "update", "PartitionName=night", "State=UP").returncode == 0
    assert slurm("sinfo", "-h", "-N", "-p", "normal", "-o", "%t").stdout == "idle\n"
