"""The table of launch profiles: what each framework's own launcher is called with, and which variables a rank gets.

Texts have fields in braces that launch_plan fills for each task. Sources: torchrun(1) and torch.distributed.elastic of
PyTorch 2; `accelerate launch --help` 1.x; deepspeed.launcher.launch of DeepSpeed 0.14; horovodrun of Horovod 0.28,
which takes LSF for a cluster with CSM unless it is told its hosts; LightningEnvironment of PyTorch Lightning 2; `ray
start --help` 2.x; mpirun(1) of Open MPI 4 and MPICH.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class LaunchUnit(Enum):
    """What glaunch starts once for each of."""

    HOST = "host"
    RANK = "rank"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProfile:
    """How programs of one framework are started."""

    name: str
    unit: LaunchUnit
    program: str = ""
    """What must be in PATH; empty: nothing but the command itself."""
    package: str = ""
    """Which package brings it."""
    words: tuple[str, ...] = ()
    """What stands before the command."""
    elastic_words: tuple[str, ...] = ()
    """The same where the framework starts failed processes again, or goes on with fewer hosts."""
    lone_words: tuple[str, ...] = ()
    """The same for one rank in all, where the framework wants to be called otherwise then."""
    script: str = ""
    """Shell text that runs `"$@"` instead; with fields."""
    variables: tuple[tuple[str, str], ...] = ()
    spared: tuple[str, ...] = ()
    """Signals that would end the framework's launcher, and with it ranks that a signal asks to save their state."""
    dropped: tuple[str, ...] = ()
    """Variables that would lead the framework astray."""
    rank_variables: tuple[str, ...] = ("RANK",)
    """Where a rank finds its number; the first that is set counts."""
    per_gpu: bool = True
    """One rank for each GPU where the job has GPUs, else for each slot."""
    needs_port: bool = True
    has_even_hosts: bool = False
    """It takes the number of ranks for the same on each host."""
    has_rank_file: bool = False
    has_shell: bool = False
    """It calls `ssh` for other hosts, which is glaunch here."""
    is_elastic: bool = False
    is_single: bool = False
    """The command runs once, and finds the others by itself."""


_PLACE = (
    ("MASTER_ADDR", "{addr}"),
    ("MASTER_PORT", "{port}"),
    ("WORLD_SIZE", "{size}"),
    ("RANK", "{rank}"),
    ("LOCAL_RANK", "{local_rank}"),
    ("LOCAL_WORLD_SIZE", "{local_size}"),
    ("GROUP_RANK", "{node}"),
    ("NODE_RANK", "{node}"),
)
_FOR_RANKS = ("USR1", "USR2")
_MPI_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_TORCHRUN = ("torchrun", "--nproc-per-node={local_size}", "--local-addr={host_addr}")
_RAY = """\
here=$(dirname "$(command -v ray)")
if [ {node} -ne 0 ]; then
  exec ray start --address={addr}:{port} --node-ip-address={host_addr} --num-cpus={slots} --num-gpus={gpus} \
--disable-usage-stats --block
fi
ray start --head --port={port} --node-ip-address={addr} --num-cpus={slots} --num-gpus={gpus} \
--include-dashboard=false --disable-usage-stats --block >&2 &
trap 'trap "" TERM; kill -TERM 0' EXIT
export RAY_ADDRESS={addr}:{port}
"$here/python" -c 'import sys, time, ray
until = time.monotonic() + 300
while time.monotonic() < until:
    try:
        ray.init(logging_level="ERROR", log_to_driver=False)
        break
    except ConnectionError:
        time.sleep(0.5)
while sum(each["Alive"] for each in ray.nodes()) < {nodes}:
    if time.monotonic() >= until:
        sys.exit("ray: not all hosts have come within 300 s")
    time.sleep(0.2)' || exit 1
"$@"
"""
"""On the first host the head, and the command as soon as all hosts are there; on the others a worker. What the head has
started ends with the command: a task is a process group of its own."""

_ALL = (
    LaunchProfile(
        name="torch",
        unit=LaunchUnit.HOST,
        program="torchrun",
        package="PyTorch",
        words=(
            *(*_TORCHRUN, "--nnodes={nodes}", "--node-rank={node}", "--master-addr={addr}", "--master-port={port}"),
            "--no-python",
        ),
        elastic_words=(
            *(*_TORCHRUN, "--nnodes={least_nodes}:{nodes}", "--rdzv-backend=c10d", "--rdzv-id={job}"),
            *("--rdzv-endpoint={addr}:{port}", "--rdzv-conf=is_host={is_first}", "--max-restarts={restarts}"),
            "--no-python",
        ),
        spared=_FOR_RANKS,
        is_elastic=True,
    ),
    LaunchProfile(
        name="accelerate",
        unit=LaunchUnit.HOST,
        program="accelerate",
        package="accelerate",
        words=(
            *("accelerate", "launch", "--multi_gpu", "--num_machines={nodes}", "--num_processes={size}"),
            *("--machine_rank={node}", "--main_process_ip={addr}", "--main_process_port={port}"),
            *("--mixed_precision=no", "--dynamo_backend=no", "--no_python"),
        ),
        lone_words=(
            *("accelerate", "launch", "--num_machines=1", "--num_processes=1"),
            *("--mixed_precision=no", "--dynamo_backend=no", "--no_python"),
        ),
        spared=_FOR_RANKS,
        has_even_hosts=True,
    ),
    LaunchProfile(
        name="deepspeed",
        unit=LaunchUnit.HOST,
        program="deepspeed",
        package="DeepSpeed",
        words=(
            *("python", "-m", "deepspeed.launcher.launch", "--world_info={world}", "--node_rank={node}"),
            *("--master_addr={addr}", "--master_port={port}", "--no_local_rank", "--no_python"),
        ),
        spared=_FOR_RANKS,
    ),
    LaunchProfile(
        name="horovod",
        unit=LaunchUnit.JOB,
        program="horovodrun",
        package="Horovod",
        words=("horovodrun", "-np", "{size}", "-H", "{hosts}", "--disable-cache"),
        rank_variables=("HOROVOD_RANK", *_MPI_RANKS),
        spared=_FOR_RANKS,
        has_shell=True,
        needs_port=False,
    ),
    LaunchProfile(
        name="lightning",
        unit=LaunchUnit.RANK,
        variables=_PLACE,
        # Lightning would take what it finds of these for its own launcher's, and miss the rest.
        dropped=(
            *("SLURM_NTASKS", "SLURM_JOB_NAME", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK"),
            *("JSM_NAMESPACE_SIZE", "TORCHELASTIC_RUN_ID"),
        ),
        has_even_hosts=True,
    ),
    LaunchProfile(
        name="ray", unit=LaunchUnit.HOST, program="ray", package="Ray", script=_RAY, is_single=True, per_gpu=False
    ),
    LaunchProfile(
        name="mpi",
        unit=LaunchUnit.JOB,
        program="mpirun",
        package="an MPI",
        words=("mpirun", "-n", "{size}"),
        rank_variables=_MPI_RANKS,
        per_gpu=False,
        needs_port=False,
    ),
    LaunchProfile(
        name="ddl",
        unit=LaunchUnit.JOB,
        program="mpirun",
        package="Open MPI",
        words=("mpirun", "{forwarded}", "-n", "{size}", "-rf", "{rank_file}"),
        rank_variables=_MPI_RANKS,
        per_gpu=False,
        needs_port=False,
        has_rank_file=True,
    ),
)
PROFILES = {profile.name: profile for profile in _ALL}
PLAIN = LaunchProfile(name="", unit=LaunchUnit.JOB, rank_variables=(), needs_port=False)
"""One process, of a command that is only to be profiled."""
