"""A day with PBS's commands on a real cluster of four hosts: `gsched names pbs`, qsub, qstat, qdel."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

pytestmark = pytest.mark.system
HOSTS = "n1,n2,n3,n4"
SEED = """\
#!/bin/sh
#PBS -N test
#PBS -V
#PBS -l select=4:ncpus=68:mpiprocs=1:ompthreads=68
#PBS -q normal
#PBS -l walltime=04:00:00
#PBS -A caffe

cd $PBS_O_WORKDIR

module purge
module load conda/intel_caffe_1.1.5

source mlslvars.sh

export KMP_AFFINITY=verbose,granularity=fine,compact=1
echo before $OMP_NUM_THREADS
export OMP_NUM_THREADS=60
mpirun -PSM2 -prepend-rank caffe train \\
--solver ./models/intel_optimized_models/multinode/alexnet_4nodes/solver.prototxt
./run_intelcaffe.sh --hostfile $PBS_NODEFILE \\
--network opa --ppn 1 --num_omp_threads 60
exit 0
"""
"""What people of a site with PBS submit: chunks, walltime, modules, and a host file for a program of their own."""
PROGRAMS = {
    "module": 'echo "module $*"',
    "source": "true",
    "mpirun": 'echo "mpirun with $OMP_NUM_THREADS threads on $(sort -u "$PBS_NODEFILE" | wc -l) hosts"',
}
RUN_CAFFE = """\
#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in --hostfile) hostfile=$2 ;; --ppn) ppn=$2 ;; esac
  shift
done
echo "hostfile: $(sort "$hostfile" | uniq -c | awk -v ppn="$ppn" '$1 == ppn' | wc -l) hosts with $ppn each"
"""


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    made = module_cluster("--sim-gpus", "4:exclusive_process", "--hosts", HOSTS)
    hosts = made.folder / "conf" / "lsb.hosts"
    hosts.write_text(hosts.read_text().replace("default    16", "default    68"))
    made.run("gadmin", "reconfig")
    made.run("gsched", "names", "pbs", str(made.folder / "bin"))
    return made


@pytest.fixture
def pbs(cluster: Cluster, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """One of the commands, in a directory of its own, with nothing of gsched in its environment."""

    def run(*words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path}/programs:{cluster.folder}/bin:/usr/local/bin:/usr/bin:/bin"
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


Pbs = Callable[..., subprocess.CompletedProcess[str]]


def test_a_script_written_for_pbs_runs_as_it_is(pbs: Pbs, tmp_path: Path, cluster: Cluster) -> None:
    (tmp_path / "seed.sh").write_text(SEED)
    (tmp_path / "programs").mkdir()
    for name, text in PROGRAMS.items():
        (tmp_path / "programs" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "programs" / name).chmod(0o755)
    (tmp_path / "run_intelcaffe.sh").write_text(RUN_CAFFE)
    (tmp_path / "run_intelcaffe.sh").chmod(0o755)
    told = pbs("qsub", "-W", "block=true", "seed.sh")
    assert told.returncode == 0, told.stderr
    number, _, server = told.stdout.strip().partition(".")
    assert server, "a job id has its server behind the dot"
    assert (tmp_path / f"test.o{number}").read_text().splitlines() == [
        "module purge",
        "module load conda/intel_caffe_1.1.5",
        "before 68",
        "mpirun with 60 threads on 4 hosts",
        "hostfile: 4 hosts with 1 each",
    ]
    assert (tmp_path / f"test.e{number}").read_text() == ""
    # The same job by LSF's commands.
    seen = cluster.run("gjobs", "-a", "-noheader", "-o", "stat slots job_name proj_name", number)
    assert seen.stdout.split() == ["DONE", "272", "test", "caffe"]
    (job,) = json.loads(pbs("qstat", "-x", "-f", "-F", "json", number).stdout)["Jobs"].values()
    assert (job["job_state"], job["Exit_status"], job["Resource_List"]["nodect"]) == ("F", 0, 4)


def test_gsub_submits_a_script_written_for_pbs(pbs: Pbs, tmp_path: Path, cluster: Cluster) -> None:
    script = tmp_path / "theirs.sh"
    lines = f"#PBS -l select=2:ncpus=3:mpiprocs=1\n#PBS -V -N theirs -j oe\n#PBS -o '{tmp_path}/out.$PBS_JOBID'\n"
    script.write_text(f"#!/bin/sh\n{lines}echo $PBS_JOBNAME $NCPUS $(wc -l < $PBS_NODEFILE) $# $(pwd)\n")
    told = cluster.run("gsub", "-K", "-J", "mine", "-cwd", str(tmp_path), str(script), "an", "argument")
    number = told.stdout.partition("<")[2].partition(">")[0]
    (written,) = tmp_path.glob(f"out.{number}.*")
    assert written.read_text().split() == ["mine", "3", "2", "2", str(tmp_path)]
    script.write_text(script.read_text() + "#PBS -l walltime=0\n")  # behind the first command it is a comment
    assert cluster.run("gsub", "-K", str(script)).returncode == 0
    script.write_text("#!/bin/sh\n#PBS -l walltime=0\ntrue\n")
    refused = cluster.run("gsub", str(script), check=False)
    assert (refused.returncode, refused.stdout) == (255, "")
    assert refused.stderr == "illegal -l value: walltime=0 would let nothing run. Job not submitted.\n"
    assert pbs("qstat", "-x", number).returncode == 0


def test_what_a_job_finds(pbs: Pbs, tmp_path: Path) -> None:
    line = (
        "echo $PBS_JOBNAME $PBS_QUEUE $PBS_ENVIRONMENT $NCPUS $PBS_NUM_NODES $PBS_NUM_PPN $(wc -l < $PBS_NODEFILE) "
        "$(wc -l < $PBS_GPUFILE); pwd; echo $PBS_O_WORKDIR; echo $PBS_JOBID; qstat -f $PBS_JOBID | head -1"
    )
    (tmp_path / "work").mkdir()
    told = pbs("qsub", "-V", "-j", "oe", "-l", "nodes=2:ppn=3:gpus=1", "-W", "block=true", "-N", "n", stdin=line)
    assert told.returncode == 0, told.stderr
    jobid = told.stdout.strip()
    found = (tmp_path / f"n.o{jobid.partition('.')[0]}").read_text().splitlines()
    assert found[:4] == ["n normal PBS_BATCH 3 2 3 6 2", str(tmp_path), str(tmp_path), jobid]
    assert found[4:] == [f"Job Id: {jobid}"]


def test_an_array_from_zero(pbs: Pbs, tmp_path: Path, cluster: Cluster) -> None:
    line = "echo $PBS_JOBID $PBS_ARRAY_INDEX $PBS_ARRAYID $PBS_ARRAY_ID"
    told = pbs("qsub", "-J", "0-2", "-N", "a", "-o", "out/", "-W", "block=true", "--", "sh", "-c", line)
    assert told.returncode != 0 or not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    told = pbs("qsub", "-J", "0-2", "-N", "a", "-o", "out", "-W", "block=true", "--", "sh", "-c", line)
    assert told.returncode == 0, told.stderr
    number, _, server = told.stdout.strip().partition("[].")
    for index in range(3):
        said = (tmp_path / "out" / f"a.o{number}.{index}").read_text()
        assert said == f"{number}[{index}].{server} {index} {index} {number}[].{server}\n"
    listed = pbs("qstat", "-x", "-t", f"{number}[0,2]").stdout.splitlines()[2:]
    assert [each.split()[0] for each in listed] == [f"{number}[0].{server}", f"{number}[2].{server}"]
    seen = cluster.run("gjobs", "-a", "-noheader", "-o", "stat", number)
    assert seen.stdout.split() == ["DONE"] * 3
    after = pbs("qsub", "-W", f"depend=afterok:{number}[0].{server},block=true", stdin="exit 3\n")
    assert after.returncode == 3


def test_what_waits_is_held_seen_and_deleted(pbs: Pbs, cluster: Cluster) -> None:
    jobid = pbs("qsub", "-h", "-N", "held", stdin="true\n").stdout.strip()
    assert pbs("qstat").stdout.splitlines()[2].split()[:2] == [jobid, "held"]
    assert pbs("qstat", "-i", jobid).stdout.splitlines()[-1].split()[9] == "H"
    assert pbs("qdel", jobid).returncode == 0
    again = pbs("qdel", jobid)
    assert (again.returncode, again.stderr) == (35, f"qdel: Job has finished {jobid}\n")
    gone = pbs("qdel", "999999")
    assert gone.returncode == 153 and gone.stderr.startswith("qdel: Unknown Job Id 999999.")
    by_lsf = cluster.run("gsub", "-H", "-n", "3", "-J", "other", "true").stdout.split("<")[1].split(">")[0]
    (job,) = json.loads(pbs("qstat", "-f", "-F", "json", by_lsf).stdout)["Jobs"].values()
    assert (job["Job_Name"], job["job_state"], job["Resource_List"]["ncpus"]) == ("other", "H", 3)
    assert pbs("qdel", "-W", "force", by_lsf).returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("-q", "nope"), 170, "qsub: -q: nope: No such queue\n"),
        (("-l", "select=1:ngpus=9"), 188, "qsub: -l: No host can ever"),
        (("nothing.sh",), 2, "qsub: script file:: No such file or directory: nothing.sh\n"),
        (("-l", "walltime=1,walltime=2"), 2, "qsub: -l: illegal -l value: walltime=2: walltime is given twice\n"),
        (("-W", "depend=afterok:999999"), 206, "qsub: -W: "),
    ],
)
def test_refused_in_one_line(pbs: Pbs, words: tuple[str, ...], code: int, said: str) -> None:
    told = pbs("qsub", *words, stdin="true\n")
    assert (told.returncode, told.stdout) == (code, "")
    assert told.stderr.startswith(said) and told.stderr.count("\n") == 1


def test_a_job_is_changed_told_and_moved(pbs: Pbs, tmp_path: Path, cluster: Cluster) -> None:
    jobid = pbs("qsub", "-h", "-N", "first", "-l", "select=2:ncpus=2", stdin="wc -l < $PBS_NODEFILE\n").stdout.strip()
    changes = ("-N", "second", "-l", "select=3:ncpus=1,walltime=100", "-o", "told.out")
    assert pbs("qalter", *changes, jobid).returncode == 0
    (job,) = json.loads(pbs("qstat", "-f", "-F", "json", jobid).stdout)["Jobs"].values()
    asked = job["Resource_List"]
    assert (job["Job_Name"], asked["select"], asked["walltime"]) == ("second", "3:ncpus=1", "00:01:40")
    assert pbs("qmove", "night", jobid).returncode == 0
    assert pbs("qmove", "nowhere", jobid).returncode == 170
    assert pbs("qmsg", "disk is full", jobid).returncode == 0
    assert cluster.run("gread", "-i", "1", jobid.partition(".")[0]).stdout.count("disk is full") == 1
    assert pbs("qselect", "-N", "second", "-s", "H").stdout == f"{jobid}\n"
    assert pbs("qsig", "-s", "USR1", jobid).returncode == 168
    assert pbs("qrls", jobid).returncode == 0
    assert pbs("qsub", "-W", f"depend=afterok:{jobid},block=true", stdin="true\n").returncode == 0
    assert (tmp_path / "told.out").read_text() == "3\n"
    traced = pbs("tracejob", jobid)
    assert traced.returncode == 0 and traced.stdout.startswith(f"\nJob: {jobid}\n") and "Dispatched" in traced.stdout


def test_a_job_that_runs_is_suspended_rerun_and_seen_on_its_node(pbs: Pbs) -> None:
    first = pbs("qsub", "-l", "select=1:ncpus=2:ngpus=1", stdin="exec tail -f /dev/null\n").stdout.strip()
    started = pbs("qsub", "-W", f"depend=after:{first},block=true", stdin="true\n")
    assert started.returncode == 0
    node = json.loads(pbs("qstat", "-f", "-F", "json", first).stdout)["Jobs"][first]["exec_host"].partition("/")[0]
    told = json.loads(pbs("pbsnodes", "-F", "json", node).stdout)
    assert told["nodes"][node]["resources_assigned"]["ngpus"] == 1
    assert first.partition(".")[0] in pbs("pbsnodes", "-Sj", node).stdout.splitlines()[-1].split()[-1].split(",")
    assert pbs("qsig", "-s", "suspend", first).returncode == 0
    assert pbs("qstat", first).stdout.splitlines()[-1].split()[4] == "S"
    assert pbs("qsig", "-s", "resume", first).returncode == 0
    assert pbs("qhold", first).returncode == 168
    assert pbs("qrerun", first).returncode == 0
    assert pbs("qdel", "-W", "force", first).returncode == 0


def test_nodes_and_queues_of_an_administrator(pbs: Pbs) -> None:
    assert pbs("pbsnodes", "-o", "-C", "fan is broken", "n4").returncode == 0
    assert pbs("pbsnodes", "-l").stdout.split(maxsplit=2) == ["n4", "offline", "fan is broken\n"]
    assert pbs("pbsnodes", "-r", "n4").returncode == 0
    assert pbs("pbsnodes", "-o", "n9").returncode == 214
    for name, enabled, started in (("qdisable", "no", "yes"), ("qenable", "yes", "yes"), ("qstop", "yes", "no")):
        assert pbs(name, "short").returncode == 0
        assert pbs("qstat", "-Q", "short").stdout.splitlines()[-1].split()[3:5] == [enabled, started]
    assert pbs("qstart", "short").returncode == 0
    assert pbs("qstop", "nowhere").returncode == 170


def test_pbsdsh_starts_on_each_line_of_the_nodefile(pbs: Pbs, tmp_path: Path) -> None:
    line = "cat $PBS_NODEFILE; pbsdsh sh -c 'echo $LSB_BATCH_JID'; pbsdsh -n 1 echo one; pbsdsh -n 9 true; pbsdsh\n"
    told = pbs("qsub", "-V", "-l", "nodes=2:ppn=2", "-N", "d", "-W", "block=true", stdin=line)
    number = told.stdout.partition(".")[0]
    assert told.returncode == 1
    said = (tmp_path / f"d.o{number}").read_text().splitlines()
    assert len(set(said[:4])) == 2 and said[4:] == [number] * 4 + ["one"]
    wrong = (tmp_path / f"d.e{number}").read_text().splitlines()
    assert wrong[0] == "pbsdsh: -n '9': nodes are 0 to 3" and wrong[1].startswith("pbsdsh: no command; usage")
    assert pbs("pbsdsh", "true").stderr == "pbsdsh: works only inside a job: PBS_NODEFILE names no file\n"
