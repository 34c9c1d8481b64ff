"""sbatch's options as a table: what is taken, and by name what is refused and what to say instead.

Source: sbatch(1) of Slurm 22.05, whose list of options this table goes through; a test compares them.
"""

from __future__ import annotations

from gsched.dialect.slurm.gnu_options import GnuOption, GnuOptions, refused

_ONE_CLUSTER = "there is one cluster"
_GENERIC = (
    GnuOption("help", "h", help="this text"),
    GnuOption("usage", help="the same"),
    GnuOption("version", "V", help="version"),
)

SHAPE = (
    GnuOption("ntasks", "n", "COUNT", "tasks; a slot for each CPU of each"),
    GnuOption("nodes", "N", "LEAST[-MOST]", "nodes"),
    GnuOption("ntasks-per-node", "", "COUNT", "tasks on each node", also=("tasks-per-node",)),
    GnuOption("cpus-per-task", "c", "COUNT", "slots for each task, on one node"),
    GnuOption("gres", "", "gpu[:MODEL][:COUNT]", "GPUs on each node", variable="SBATCH_GRES"),
    GnuOption("gpus", "G", "[MODEL:]COUNT", "GPUs of the job", variable="SBATCH_GPUS"),
    GnuOption("gpus-per-node", "", "[MODEL:]COUNT", "GPUs on each node", variable="SBATCH_GPUS_PER_NODE"),
    GnuOption("gpus-per-task", "", "[MODEL:]COUNT", "GPUs for each task", variable="SBATCH_GPUS_PER_TASK"),
    GnuOption("mem", "", "SIZE[K|M|G|T]", "memory on each node", variable="SBATCH_MEM_PER_NODE"),
    GnuOption("mem-per-cpu", "", "SIZE[K|M|G|T]", "memory for each slot", variable="SBATCH_MEM_PER_CPU"),
    GnuOption("mem-per-gpu", "", "SIZE[K|M|G|T]", "memory for each GPU", variable="SBATCH_MEM_PER_GPU"),
)
"""How much a job asks for."""

SBATCH = GnuOptions(
    summary="submit a batch script, as Slurm's sbatch does",
    operands="[SCRIPT [ARGUMENT ...]]   (without a script it is read from standard input)",
    options=(
        GnuOption("job-name", "J", "NAME", "name of the job", variable="SBATCH_JOB_NAME"),
        GnuOption("partition", "p", "NAMES", "queue, or several to choose from", variable="SBATCH_PARTITION"),
        *SHAPE,
        GnuOption("time", "t", "TIME", "run limit", variable="SBATCH_TIMELIMIT"),
        GnuOption("array", "a", "LIST[%COUNT]", "an array with these indices", variable="SBATCH_ARRAY_INX"),
        GnuOption("output", "o", "FILE", "output; %j %A %a %x %u are filled in", variable="SBATCH_OUTPUT"),
        GnuOption("error", "e", "FILE", "error output; without it, it goes to the output", variable="SBATCH_ERROR"),
        GnuOption("input", "i", "FILE", "standard input", variable="SBATCH_INPUT"),
        GnuOption("open-mode", "", "append|truncate", "whether files are added to", variable="SBATCH_OPEN_MODE"),
        GnuOption("chdir", "D", "DIR", "directory the job runs in"),
        GnuOption("account", "A", "NAME", "project the job belongs to", variable="SBATCH_ACCOUNT"),
        GnuOption("comment", "", "TEXT", "description of the job"),
        GnuOption("constraint", "C", "FEATURES", "only nodes with these resources", variable="SBATCH_CONSTRAINT"),
        GnuOption("exclusive", help="alone on its nodes", variable="SBATCH_EXCLUSIVE"),
        GnuOption("nodelist", "w", "NODES", "these nodes"),
        GnuOption("exclude", "x", "NODES", "not these nodes"),
        GnuOption("dependency", "d", "LIST", "start after other jobs"),
        GnuOption("kill-on-invalid-dep", "", "yes|no", "end it when that can never hold"),
        GnuOption("begin", "b", "TIME", "start no sooner"),
        GnuOption("deadline", "", "TIME", "end it then"),
        GnuOption("hold", "H", help="hold it until it is released"),
        GnuOption("priority", "", "NUMBER", "order among your own jobs"),
        GnuOption("requeue", "", help="run it again when its node is lost", variable="SBATCH_REQUEUE"),
        GnuOption("no-requeue", "", help="never run it again by itself", variable="SBATCH_NO_REQUEUE"),
        GnuOption("reservation", "", "NAME", "use this reservation", variable="SBATCH_RESERVATION"),
        GnuOption("signal", "", "[B:]SIGNAL[@SECONDS]", "signal before the run limit", variable="SBATCH_SIGNAL"),
        GnuOption("mail-type", "", "TYPES", "NONE, BEGIN, END, FAIL, ALL"),
        GnuOption("mail-user", "", "ADDRESS", "whom mail goes to"),
        GnuOption("export", "", "LIST", "ALL, NONE, NAME, NAME=VALUE", variable="SBATCH_EXPORT"),
        GnuOption("wrap", "", "COMMAND", "run this command line; there is no script"),
        GnuOption("wait", "W", help="wait for the end and exit with its exit code", variable="SBATCH_WAIT"),
        GnuOption("test-only", "", help="tell when the job could start, and submit nothing"),
        GnuOption("parsable", "", help="print the number alone"),
        GnuOption("quiet", "Q", help="print nothing but errors"),
        GnuOption("verbose", "v", help="taken, and says nothing more"),
        *_GENERIC,
        GnuOption("clusters", "M", "all", "taken for this cluster alone", variable="SBATCH_CLUSTERS"),
        *refused("cluster-constraint", because=_ONE_CLUSTER),
        GnuOption(
            "qos",
            "q",
            refused="there is no QOS: queues (--partition) say what jobs may do",
            variable="SBATCH_QOS",
        ),
        *refused("nice", because="--priority says the order among your own jobs"),
        *refused("get-user-env", because="--export says which variables a job gets"),
        *refused("uid", "gid", because="jobs run as whoever submits them"),
        *refused("container", because="say it in the script"),
        *refused("bb", "bbf", because="there are no burst buffers"),
        *refused("licenses/L", because="shared resources are asked for with gsub -R 'rusage[NAME=1]'"),
        *refused("ntasks-per-gpu", "gpus-per-socket", "gpu-bind", "gpu-freq", because="say --gpus-per-task"),
        *refused("ntasks-per-core", "ntasks-per-socket", "sockets-per-node", "cores-per-socket", "threads-per-core"),
        *refused("extra-node-info/B", "core-spec/S", "thread-spec", "mincpus", "hint", "cpus-per-gpu"),
        *refused("distribution/m", "contiguous", "switches", "mem-bind", "tmp", "profile", "acctg-freq", "cpu-freq"),
        *refused("time-min", "delay-boot", "use-min-nodes", "spread-job", "overcommit/O", "oversubscribe/s"),
        *refused("no-kill/k", "propagate", "power", "reboot", "wckey", "mcs-label", "network", "ignore-pbs"),
        *refused("export-file", "nodefile/F", "gres-flags", "batch", "wait-all-nodes", "prefer"),
    ),
    examples=(
        "PROGRAM --gres=gpu:2 --time=8:00:00 train.sh --epochs 10",
        "PROGRAM -N 2 --ntasks-per-node=4 --gpus-per-node=4 --wrap 'srun hostname'",
        "PROGRAM --array=0-99%8 --output=out.%A_%a sweep.sh",
    ),
)
