"""MPI in jobs over separate hosts: `mpirun` alone starts a process for each slot, and the job's end is the end of all.

Open MPI 4 and MPICH as Debian has them; others in environments of their own, which `make nightly` installs.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from netlab import Lab
from netlab_cluster import SharedCluster, shared_cluster
from netlab_jobs import end_jobs, output, read, run_job, script

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

ROOT = Path(__file__).resolve().parents[2]
HELLO = """\
import ctypes, os, socket, sys
mpi = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL) if sys.argv[1] != "none" else None
if hasattr(mpi, "ompi_mpi_comm_world"):
    of = lambda name: ctypes.byref(ctypes.c_char.in_dll(mpi, name))
    world, integer, add = of("ompi_mpi_comm_world"), of("ompi_mpi_int"), of("ompi_mpi_op_sum")
else:
    world, integer, add = 0x44000000, 0x4C000405, 0x58000003  # those of the binary interface of MPICH
number, one = ctypes.c_int, ctypes.c_int(1)
rank, size, total = number(), number(), number()
if mpi:
    mpi.MPI_Init(None, None)
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    mpi.MPI_Comm_size(world, ctypes.byref(size))
    mpi.MPI_Allreduce(ctypes.byref(one), ctypes.byref(total), 1, integer, add, world)
else:
    rank.value, size.value, total.value = (int(os.environ[name]) for name in ("PMI_RANK", "PMI_SIZE", "PMI_SIZE"))
told = [os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "GSCHED_GPU_UUIDS", "GREETING")]
line = " ".join(map(str, [rank.value, size.value, total.value, socket.gethostname(), *told])) + "\\n"
os.write(1, line.encode())  # all at once: those of other processes come in between
if mpi:
    mpi.MPI_Finalize()
if "stay" in sys.argv:
    os.execvp("sleep", ["sleep", "1000.9"])
sys.exit(3 if "fail" in sys.argv and rank.value == size.value - 1 else 0)
"""
"""A program for MPI without a compiler: each of its processes counts all of them. With `none` it does not call MPI."""


@dataclass(frozen=True)
class Mpi:
    """One of them."""

    path: str
    """Of its mpirun."""
    library: Path | None
    """What the program loads; None: it asks only its environment."""
    install: str
    """What brings it here."""
    words: str = ""
    """What mpirun has to be told beside the program."""

    @property
    def command(self) -> str:
        """As a job's script runs the program with it."""
        folder, name = self.path.rpartition("/")[::2]
        begin = f"PATH={folder}:$PATH; " if folder else ""
        return f"{begin}{name} {self.words} /usr/bin/python3 hello.py {self.library or 'none'}"

    @property
    def is_there(self) -> bool:
        return shutil.which(self.path) is not None and (self.library is None or self.library.exists())


def own(name: str, library: str, words: str = "") -> Mpi:
    """One of an environment of its own."""
    folder = ROOT / f".venv-{name}"
    return Mpi(f"{folder}/bin/mpirun", folder / "lib" / library, f"make .venv-{name}/.installed", words)


OPEN_MPI_4 = next(Path("/usr/lib").glob("*/libmpi.so.40"), Path("libmpi.so.40"))
DEBIAN = {
    "openmpi4": Mpi("mpirun.openmpi", OPEN_MPI_4, "apt-get install openmpi-bin"),
    # Its library, 4.0.2, stands still once in some tens of runs on a busy machine, one process spinning in it while all
    # others wait for that; what is ours, the start of its processes, is seen without it.
    "mpich4": Mpi("mpirun.mpich", None, "apt-get install mpich"),
}
LATER = {
    "openmpi5": own("openmpi", "libmpi.so.40", "--bind-to none"),  # there may be fewer cores than slots here
    "mpich5": own("mpich", "libmpi.so.12"),
    # Nothing but an option keeps it from writing the first host's variables over those of the others.
    "intel": own("impi", "libmpi.so.12", "-genvnone"),
}
EACH = [
    *(pytest.param(mpi, id=name) for name, mpi in DEBIAN.items()),
    *(pytest.param(mpi, id=name, marks=pytest.mark.nightly) for name, mpi in LATER.items()),
]


@pytest.fixture(params=EACH)
def mpi(request: pytest.FixtureRequest) -> Mpi:
    found: Mpi = request.param
    if not found.is_there:
        pytest.skip(f"there is no {found.path}: {found.install}")
    return found


@pytest.fixture(scope="module")
def prepared(module_lab: Lab) -> SharedCluster:
    """Three hosts that do not fence GPUs, so a job sees the numbers that its GPUs have on their host."""
    hosts = [module_lab.host(name) for name in ("h1", "h2", "h3")]
    cluster = shared_cluster(module_lab, hosts, sim_gpus="2", slots=5, settings={"GSCHED_GPU_FENCE": "N"})
    cluster.master_host.run(["sh", "-c", "cat > hello.py"], user="alice", stdin=HELLO, check=True)
    return cluster


@pytest.fixture
def cluster(prepared: SharedCluster) -> SharedCluster:
    """Without jobs of alice."""
    end_jobs(prepared)
    return prepared


def staying(cluster: SharedCluster) -> Counter[str]:
    """How many processes stay on each host."""
    found = {host.name: host.run(["pgrep", "-xf", "sleep 1000.9"]).stdout for host in cluster.hosts}
    return Counter({name: text.count("\n") for name, text in found.items() if text})


def test_a_process_for_each_slot_with_the_gpus_of_its_host(cluster: SharedCluster, mpi: Mpi) -> None:
    cluster.becomes(cluster.submit("-m", "h1", "-gpu", "num=1", "sleep", "1000"), "RUN")
    text = f"""
    export GREETING=hello
    glaunch -z "h1 h2 h3" 'echo told $(hostname) $CUDA_VISIBLE_DEVICES $GSCHED_GPU_UUIDS'
    {mpi.command} 2> errors
    echo code $?
    """
    lines, state = run_job(cluster, text, "-gpu", "num=1", slots=2)
    told = (lines, state, read(cluster.master_host, "errors"))
    gpus = {words[1]: words[2:] for words in map(str.split, lines) if words[0] == "told"}
    ranks = sorted(words for words in map(str.split, lines) if words[0].isdigit())
    assert [gpus[host][0] for host in ("h1", "h2", "h3")] == ["1", "0", "0"], told
    assert len({uuid for _, uuid in gpus.values()}) == 3, told
    assert [words[:3] for words in ranks] == [[str(rank), "6", "6"] for rank in range(6)], told
    assert Counter(words[3] for words in ranks) == {"h1": 2, "h2": 2, "h3": 2}, told
    assert all(words[4:6] == gpus[words[3]] and words[6] == "hello" for words in ranks), told
    assert lines[-1] == "code 0" and state == "DONE", told


def test_a_process_for_each_slot_of_one_host_and_its_exit_code(cluster: SharedCluster, mpi: Mpi) -> None:
    text = f"{mpi.command} > ranks; ({mpi.command} fail) > /dev/null 2>&1; echo code $?"
    lines, state = run_job(cluster, text, hosts=1, slots=3)
    ranks = sorted(line.split()[:3] for line in read(cluster.master_host, "ranks").splitlines())
    assert ranks == [[str(rank), "3", "3"] for rank in range(3)] and state == "DONE"
    assert lines == ["code 3"]


def test_the_end_of_the_job_is_the_end_of_all_processes(cluster: SharedCluster, mpi: Mpi) -> None:
    path = script(cluster.master_host, f"{mpi.command} stay")
    job_id = cluster.submit("-n", "6", "-R", "span[ptile=2]", "-o", "out.%J", path)
    cluster.until(lambda: staying(cluster) == {"h1": 2, "h2": 2, "h3": 2}, "not all processes run")
    cluster.run("gkill", str(job_id))
    cluster.becomes(job_id, "EXIT")
    cluster.until(lambda: not staying(cluster), "processes of a job that was killed still run")


def test_one_process_on_a_host_that_gives_one_slot(cluster: SharedCluster, mpi: Mpi) -> None:
    """Open MPI takes a host that is named once for one of as many slots as it has cores, unless it is told."""
    lines, state = run_job(cluster, f"{mpi.command} 2> errors | sort")
    assert [line.split()[:3] for line in lines] == [[str(rank), "3", "3"] for rank in range(3)], lines
    assert len({line.split()[3] for line in lines}) == 3 and state == "DONE", lines


@pytest.mark.skipif(not DEBIAN["openmpi4"].is_there, reason="there is no Open MPI 4")
def test_open_mpi_by_hand(cluster: SharedCluster) -> None:
    """Somebody says what it should call and which hosts there are."""
    words = "--mca plm_rsh_agent glaunch --hostfile $LSB_DJOB_HOSTFILE"
    by_hand = Mpi("mpirun.openmpi", DEBIAN["openmpi4"].library, "", words)
    lines, state = run_job(cluster, f"unset ${{!OMPI_MCA_*}}; {by_hand.command} 2> errors | sort", hosts=2, slots=2)
    assert [line.split()[:3] for line in lines] == [[str(rank), "4", "4"] for rank in range(4)] and state == "DONE", (
        lines
    )
    assert len({line.split()[3] for line in lines}) == 2, lines


@pytest.mark.skipif(not DEBIAN["openmpi4"].is_there, reason="there is no Open MPI 4")
@pytest.mark.parametrize("slots", [1, 2])
def test_open_mpi_counts_the_lines_of_a_host_file_on_its_command_line(cluster: SharedCluster, slots: int) -> None:
    """However many cores a host has: that of the job, one that names each host once, and one that says the slots."""
    library = DEBIAN["openmpi4"].library
    each = {"$LSB_DJOB_HOSTFILE": slots, "once": 1, "said": 2}
    runs = [Mpi("mpirun.openmpi", library, "", f"--hostfile {name}").command for name in each]
    text = f"sort -u $LSB_DJOB_HOSTFILE > once; sed 's/$/ slots=2/' once > said; ({'; '.join(runs)}) 2> errors"
    lines, state = run_job(cluster, text, hosts=2, slots=slots)
    told = (lines, read(cluster.master_host, "errors"))
    wanted: Counter[int] = Counter()
    for count in each.values():
        wanted[2 * count] += 2 * count  # each of them says how many there are
    assert Counter(int(line.split()[1]) for line in lines) == wanted and state == "DONE", told


def test_ddl_binds_ranks_on_all_hosts_to_the_cores_of_its_rank_file(cluster: SharedCluster) -> None:
    mpi = DEBIAN["openmpi4"]
    if not mpi.is_there:
        pytest.skip(f"there is no {mpi.path}: {mpi.install}")
    text = f"""mkdir -p bin; ln -sf {shutil.which(mpi.path)} bin/mpirun; export PATH=$PWD/bin:$PATH
exec glaunch --ddl --topo 2x3x1 sh -c 'if [ "$GSCHED_RANK" = 0 ]; then cat "$GSCHED_RANKFILE" > ranks; fi
while read -r name list; do if [ "$name" = Cpus_allowed_list: ]; then break; fi; done < /proc/self/status
echo "bound $GSCHED_RANK $(hostname) $list"; exec /usr/bin/python3 hello.py {mpi.library}' 2> errors
"""
    lines, state = run_job(cluster, text, "-gpu", "num=2", slots=2)
    told = (lines, read(cluster.master_host, "ranks"), read(cluster.master_host, "errors"))
    assert state == "DONE", told
    words = [line.split() for line in lines]
    bound = {int(rank): (host, cores) for begin, rank, host, cores, *_ in words if begin == "bound"}
    assert sorted(int(rank) for rank, *_ in words if rank.isdigit()) == [*range(6)], told
    assert {tuple(rest[:2]) for rank, *rest in words if rank.isdigit()} == {("6", "6")}, told
    wanted = [line.removeprefix("rank ").split(" slot=") for line in told[1].splitlines()]
    assert sorted(f"{rank}={host}" for rank, (host, _) in bound.items()) == sorted(place for place, _ in wanted), told
    if len({slot for _, slot in wanted}) == 2:  # the machine has as many cores: each rank is on one of its own
        assert all(len({bound[rank][1] for rank in (first, first + 3)}) == 2 for first in range(3)), told


@pytest.mark.skipif(not DEBIAN["openmpi4"].is_there, reason="there is no Open MPI 4")
@pytest.mark.parametrize("profile", ["mpi", pytest.param("ddl --topo 2x3x1", marks=pytest.mark.nightly)])
def test_a_launch_by_open_mpi_ends_or_begins_again_when_one_process_is_killed(
    cluster: SharedCluster, profile: str
) -> None:
    mpi = DEBIAN["openmpi4"]
    hello = f"/usr/bin/python3 hello.py {mpi.library}"
    ranks = f'if [ "$GSCHED_RESTART_COUNT" = 0 ]; then exec {hello} stay; else exec {hello}; fi'
    begin = f"mkdir -p bin; ln -sf {shutil.which(mpi.path)} bin/mpirun; export PATH=$PWD/bin:$PATH; exec glaunch"
    for restarts, state in ((0, "EXIT"), (1, "DONE")):
        text = f"{begin} --launch {profile} --max-restarts {restarts} sh -c '{ranks}' 2> errors"
        path = script(cluster.master_host, text)
        words = ("-n", "6", "-R", "span[ptile=2]", "-gpu", "num=2", "-o", "out.%J")
        job_id = cluster.submit(*words, path)
        cluster.until(lambda: staying(cluster) == {"h1": 2, "h2": 2, "h3": 2}, "not all processes run")
        cluster.hosts[1].run(["sh", "-c", "kill -9 $(pgrep -xf 'sleep 1000.9' | head -n 1)"], check=True)
        cluster.becomes(job_id, state)
        lines = output(cluster.master_host, job_id).splitlines()
        told = (lines, read(cluster.master_host, "errors"))
        found = sorted(tuple(line.split()[:4]) for line in lines if line[:1].isdigit())
        assert Counter(rank[:3] for rank in found) == {(str(rank), "6", "6"): 1 + restarts for rank in range(6)}, told
        assert Counter(rank[3] for rank in found) == dict.fromkeys(("h1", "h2", "h3"), 2 * (1 + restarts)), told
        cluster.until(lambda: not staying(cluster), "processes of a launch whose rank was killed still run")
