"""`glaunch --launch` and `gsub --launch` in jobs of a private cluster, by real daemons."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator

import pytest
from live_cluster import BIN, Cluster, printed

pytestmark = pytest.mark.system

RANKS = (
    "import os; e = os.environ; "
    'os.write(1, "rank {} {}\\n".format(e["GSCHED_RANK"], e.get("GSCHED_IS_RANK0", "-")).encode())'
)


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--hosts", "a,b", "--sim-gpus", "2")


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """The shared cluster, idle; the files that jobs write go with the test."""
    yield shared
    shared.end_jobs()
    for path in shared.folder.iterdir():
        if path.is_file() and not path.name.startswith("."):
            path.unlink()


def run_job(cluster: Cluster, *words: str) -> tuple[list[str], int, int]:
    """Lines that a job prints on four slots of two hosts, its exit code, and its number."""
    job_id = cluster.submit("-n", "4", "-R", "span[ptile=2]", "-o", str(cluster.folder / "out"), *words)
    (job,) = cluster.wait(job_id)
    assert job.result is not None
    return sorted(printed(cluster.folder / "out").splitlines()), job.result.exit_code or 0, job_id


def test_a_rank_for_each_slot_with_its_number(cluster: Cluster) -> None:
    lines, code, _ = run_job(cluster, "--launch", "lightning", f"python3 -c '{RANKS}'")
    assert (lines, code) == (["rank 0 1", "rank 1 -", "rank 2 -", "rank 3 -"], 0)


@pytest.mark.nightly
def test_no_path_need_lead_to_the_commands(cluster: Cluster) -> None:
    words = ("-n", "4", "-R", "span[ptile=2]", "-o", "out", "--launch", "lightning", "printenv GSCHED_RANK")
    told = cluster.run(str(BIN / "gsub"), *words, PATH=os.defpath).stdout
    (job,) = cluster.wait(int(told.partition("<")[2].partition(">")[0]))
    assert job.state == "DONE" and sorted(printed(cluster.folder / "out").split()) == ["0", "1", "2", "3"]
    assert job.spec.command.startswith("glaunch --launch lightning ")


def test_what_would_be_started_is_shown(cluster: Cluster) -> None:
    lines, code, _ = run_job(cluster, "--launch", "torch --show", "python", "train.py")
    first = next(line for line in lines if "--node-rank=0" in line)
    assert code == 0 and [line[:12] for line in lines] == ["a: torchrun ", "b: torchrun "]
    assert "--nnodes=2" in first and first.endswith("--no-python python train.py")


def test_the_first_that_fails_says_how_it_ends(cluster: Cluster) -> None:
    text = 'if [ "$GSCHED_RANK" = 2 ]; then exit 7; fi; exec sleep 1000'
    lines, code, _ = run_job(cluster, "--launch", "lightning", text)
    assert code == 7 and len(lines) == 1 and lines[0].startswith("glaunch: rank 2 on ")
    assert lines[0].endswith(" exited with code 7")


def test_a_port_that_is_taken_is_not_used_again(cluster: Cluster) -> None:
    """The first rank finds that somebody listens there: one that it has started itself, and left."""
    text = """import os, socket, subprocess, sys, time
port, tries = int(os.environ["MASTER_PORT"]), "tries"
with open(tries, "a") as file:
    file.write(f"{port}\\n")
if len(open(tries).readlines()) > 1:
    sys.exit(0)
listening = socket.create_server(("", port))
os.set_inheritable(listening.fileno(), True)
subprocess.Popen(["setsid", "sleep", "1000"], close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
sys.exit(3)
"""
    (cluster.folder / "taken.py").write_text(text)
    job_id = cluster.submit("-o", str(cluster.folder / "out"), "--launch", "lightning", "python3", "taken.py")
    (job,) = cluster.wait(job_id)
    ports = (cluster.folder / "tries").read_text().split()
    lines = printed(cluster.folder / "out").splitlines()
    assert job.state == "DONE" and len(ports) == 2 and ports[0] != ports[1], lines
    assert lines[-1].endswith(" was taken by another meanwhile; trying another one"), lines


def test_a_topology_that_no_host_has_is_refused_with_one_line(cluster: Cluster) -> None:
    done = cluster.run("gsub", "--launch", "ddl", "--topo", "4x1x1", "./run", check=False)
    assert done.returncode == 255 and done.stdout == ""
    assert done.stderr.startswith('No host can ever provide -gpu "num=4:') and done.stderr.count("\n") == 1


def test_profiles_lie_by_rank_and_are_listed_with_the_job(cluster: Cluster) -> None:
    profiler = "sh -c 'echo $0 > %d/rank-%r.txt; exec \"$@\"' profiled"
    words = ("--launch", "lightning", "--profile", profiler, f"python3 -c '{RANKS}'")
    lines, code, job_id = run_job(cluster, *words)
    assert code == 0 and len(lines) == 4, lines
    folder = cluster.folder / f"prof.{job_id}"
    assert sorted(path.name for path in folder.iterdir()) == [f"rank-{rank}.txt" for rank in range(4)]
    shutil.rmtree(folder)
    told = f"profiles in {folder}: rank-0.txt rank-1.txt rank-2.txt rank-3.txt"
    assert f"\n PROFILES:\n {told}\n" in cluster.run("gjobs", "-l", "-UF", str(job_id)).stdout
    assert told in " ".join(cluster.run("gread", "-w", str(job_id)).stdout.split())


MPIRUN = shutil.which("mpirun.openmpi")


@pytest.mark.skipif(MPIRUN is None, reason="there is no Open MPI: apt-get install openmpi-bin")
@pytest.mark.skipif(" " in sys.prefix, reason="below a path with a blank no MPI is told of glaunch (docs/parallel.md)")
def test_open_mpi_reads_the_rank_file(cluster: Cluster) -> None:
    folder = cluster.folder / "mpi"
    folder.mkdir()
    (folder / "mpirun").symlink_to(str(MPIRUN))
    environment = (
        f"all, PATH={folder}:{cluster.env['PATH']}, OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, "
        f"OMPI_MCA_orte_tmpdir_base={folder}"  # what it names by numbers of processes is no other test's
    )
    words = ("-env", environment, "--launch", "ddl", "--topo", "2x1x1", f"python3 -c '{RANKS}'")
    job_id = cluster.submit("-o", str(cluster.folder / "out"), *words)
    (job,) = cluster.wait(job_id)
    assert sorted(printed(cluster.folder / "out").splitlines()) == ["rank 0 1", "rank 1 -"] and job.state == "DONE"
