"""srun's and salloc's options as tables: what is taken, and by name what is refused and what to say instead.

Source: srun(1) and salloc(1) of Slurm 22.05, whose lists of options these tables go through; a test compares them.
"""

from __future__ import annotations

from dataclasses import replace

from gsched.dialect.slurm.gnu_options import GnuOption, GnuOptions, refused
from gsched.dialect.slurm.option_table import SBATCH

_OF_BATCH = {option.name: option for option in SBATCH.options}
_JOB = (
    *("job-name", "partition", "ntasks", "nodes", "ntasks-per-node", "cpus-per-task", "gres", "gpus", "gpus-per-node"),
    *("gpus-per-task", "mem", "mem-per-cpu", "mem-per-gpu", "time", "account", "comment", "constraint", "exclusive"),
    *("nodelist", "exclude", "dependency", "begin", "deadline", "hold", "priority", "reservation", "signal"),
    *("mail-type", "mail-user", "quiet", "verbose", "help", "usage", "version", "clusters", "chdir"),
)
"""Options that mean what they mean for sbatch."""
_VARIABLES = {
    "partition": "PARTITION",
    "time": "TIMELIMIT",
    "account": "ACCOUNT",
    "gres": "GRES",
    "gpus": "GPUS",
    "gpus-per-node": "GPUS_PER_NODE",
    "gpus-per-task": "GPUS_PER_TASK",
    "constraint": "CONSTRAINT",
    "reservation": "RESERVATION",
    "mem": "MEM_PER_NODE",
    "mem-per-cpu": "MEM_PER_CPU",
    "mem-per-gpu": "MEM_PER_GPU",
}
_RESOURCES = (
    *refused("qos/q", because="there is no QOS: queues (--partition) say what jobs may do"),
    *refused("cluster-constraint", because="there is one cluster"),
    *refused("nice", because="--priority says the order among your own jobs"),
    *refused("uid", "gid", because="jobs run as whoever submits them"),
    *refused("container", "container-image", "container-mounts", because="gsub --container IMAGE does it"),
    *refused("bb", "bbf", because="there are no burst buffers"),
    *refused("licenses/L", because="shared resources are asked for with gsub -R 'rusage[NAME=1]'"),
    *refused("ntasks-per-gpu", "gpus-per-socket", "gpu-freq", because="say --gpus-per-task"),
    *refused("ntasks-per-core", "ntasks-per-socket", "sockets-per-node", "cores-per-socket", "threads-per-core"),
    *refused("extra-node-info/B", "core-spec/S", "thread-spec", "mincpus", "hint", "cpus-per-gpu"),
    *refused("contiguous", "switches", "mem-bind", "tmp", "profile", "acctg-freq", "cpu-freq"),
    *refused("time-min", "delay-boot", "use-min-nodes", "spread-job", "oversubscribe/s"),
    *refused("no-kill/k", "power", "reboot", "wckey", "mcs-label", "network"),
    *refused("nodefile/F", "gres-flags", "prefer"),
    *refused("x11", because="ssh -X to the host of the job does it"),
)


def _job_options(prefix: str) -> tuple[GnuOption, ...]:
    """Those that say what a job gets, with the variables of one command."""
    found = []
    for name in _JOB:
        variable = f"{prefix}_{_VARIABLES[name]}" if name in _VARIABLES else ""
        found.append(replace(_OF_BATCH[name], variable=variable))
    return tuple(found)


_STEP = (
    GnuOption("jobid", "", "JOB", "a step of this job", variable="SLURM_JOB_ID"),
    GnuOption("label", "l", help="begin each line with the number of its task", variable="SLURM_LABELIO"),
    GnuOption("output", "o", "FILE|MODE", "all, none, a task's number, or a file: %j %J %s %t %n %N %u %x"),
    GnuOption("error", "e", "FILE|MODE", "the same for error output; without it, it goes with the output"),
    GnuOption("input", "i", "FILE|MODE", "the same: which tasks read what is typed, or what file"),
    GnuOption("open-mode", "", "append|truncate", "whether files are added to", variable="SLURM_OPEN_MODE"),
    GnuOption("pty", help="a terminal for task 0"),
    GnuOption("unbuffered", "u", help="pass output on as it comes, not in lines", variable="SLURM_UNBUFFEREDIO"),
    GnuOption("kill-on-bad-exit", "K", "0|1", "end the step when a task fails", True, variable="SLURM_KILL_BAD_EXIT"),
    GnuOption("wait", "W", "SECONDS", "end the step so long after its first task has ended", variable="SLURM_WAIT"),
    GnuOption("quit-on-interrupt", help="one Ctrl-C ends it"),
    GnuOption("disable-status", "X", help="one Ctrl-C is sent to the tasks"),
    GnuOption("immediate", "I", "SECONDS", "fail instead of waiting for other steps", True),
    GnuOption("multi-prog", help="the command is a file that says which task runs what"),
    GnuOption("distribution", "m", "block|cyclic", "how tasks are numbered", variable="SLURM_DISTRIBUTION"),
    GnuOption("relative", "r", "COUNT", "leave out so many nodes of the job"),
    GnuOption("overlap", help="take no room from other steps", variable="SLURM_OVERLAP"),
    GnuOption("exact", help="taken: a step has no more CPUs than it asks for", variable="SLURM_EXACT"),
    GnuOption("whole", help="all CPUs of the step's nodes", variable="SLURM_WHOLE"),
    GnuOption("overcommit", "O", help="more tasks than CPUs", variable="SLURM_OVERCOMMIT"),
    GnuOption("mpi", "", "none|pmi2|pmix", "how MPI programs find each other; list", variable="SLURM_MPI_TYPE"),
    GnuOption("export", "", "LIST", "ALL, NONE, NAME, NAME=VALUE", variable="SLURM_EXPORT_ENV"),
    GnuOption("gpu-bind", "", "none|per_task:COUNT", "which GPUs of its node a task has"),
    GnuOption("cpu-bind", "", "none", "tasks may use all CPUs of the job"),
    GnuOption("preserve-env", "E", help="taken: what is said on the command line counts before variables"),
    GnuOption("threads", "T", "COUNT", "taken: it starts no threads of its own"),
)

SRUN = GnuOptions(
    summary="run tasks: within a job as a step of it, else as a job of their own",
    operands="COMMAND [ARGUMENT ...]",
    options=(
        *_job_options("SLURM"),
        *_STEP,
        *_RESOURCES,
        *refused("het-group", because="jobs have one part: there are no heterogeneous jobs"),
        *refused("no-allocate/Z", because="tasks run in jobs only"),
        *refused("test-only", because="gjobs -l tells when a job is planned to start"),
        *refused("bcast", "bcast-exclude", "compress", "send-libs", because="copy it with sbcast, or gsub -f"),
        *refused("prolog", "epilog", "task-prolog", "task-epilog", because="say it in the command"),
        *refused("accel-bind", because="say --gpus-per-task"),
        *refused("propagate", because="tasks have the limits of their job"),
        *refused("msg-timeout", because="GSCHED_COMMAND_WAIT says how long the agent is waited for"),
        *refused("resv-ports", "slurmd-debug"),
    ),
    examples=(
        "PROGRAM -N 1 -n 4 --gres=gpu:4 --time=2:00:00 --pty bash -l",
        "PROGRAM -n 8 --gpus-per-task=1 python train.py",
        "PROGRAM -l hostname",
    ),
)

SALLOC = GnuOptions(
    summary="get a job's resources, run a command beside them, and give them back",
    operands="[COMMAND [ARGUMENT ...]]   (without one: your shell)",
    options=(
        *_job_options("SALLOC"),
        GnuOption("immediate", "I", "SECONDS", "give up when it has not got them by then", True),
        GnuOption("no-shell", help="run nothing: scancel gives them back", variable="SALLOC_NO_SHELL"),
        GnuOption("kill-command", "K", "SIGNAL", "the signal that the command gets when the job ends", True),
        GnuOption("bell", help="ring when they are there", variable="SALLOC_BELL"),
        GnuOption("no-bell", help="do not", variable="SALLOC_NO_BELL"),
        GnuOption("wait-all-nodes", "", "0|1", "taken: all nodes are ready before it begins"),
        *_RESOURCES,
        *refused("overcommit/O", because="srun -O starts more tasks than CPUs"),
        *refused("distribution/m", because="srun -m says how tasks are numbered"),
        *refused("gpu-bind", because="srun --gpu-bind says which GPUs a task has"),
        *refused("get-user-env", because="the command has the environment of salloc"),
    ),
    examples=("PROGRAM -N 2 --gres=gpu:4 --time=1:00:00", "PROGRAM -n 4 ./run.sh"),
)
