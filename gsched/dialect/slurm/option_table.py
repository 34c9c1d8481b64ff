"""sbatch's options as a table: what is taken, and by name what is refused and what to say instead.

Source: sbatch(1) of Slurm 22.05, whose list of options this table goes through; a test compares them.
"""

from __future__ import annotations

from gsched.dialect.slurm.gnu_options import VERBOSE, GnuOption, GnuOptions, general, noted, refused

_ONE_CLUSTER = "there is one cluster"

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

_ADVICE = (
    *noted("wckey", because="there are no wckeys"),
    *noted("hint", "distribution/m", "mem-bind", because="the job and its host place processes"),
    *noted("switches", because="all hosts count as equally near"),
    *noted("contiguous", "use-min-nodes", "spread-job", value="", because="--nodes says how many nodes"),
    *noted("propagate", because="limits of a job are those of its host and queue"),
    *noted("profile", "acctg-freq", because="use is sampled for every job"),
    *noted("cpu-freq", "gpu-freq", "power", because="clocks are not changed"),
    *noted("core-spec/S", "thread-spec", because="no cores are set aside"),
    *noted("mcs-label", "network", because="there is no such thing"),
    *noted("delay-boot", "wait-all-nodes", because="a job starts when all of its hosts are ready"),
    *noted("time-min", because="a job has one run limit, --time"),
    *noted("prefer", because="any host that meets --constraint will do"),
    *noted("oversubscribe/s", value="", because="hosts are shared unless --exclusive is given"),
    *noted("ignore-pbs", value="", because="lines of other systems are never obeyed"),
    GnuOption(
        "get-user-env",
        value="MODE",
        help="taken, and does nothing: --export says which variables a job gets",
        is_optional=True,
        note="--export says which variables a job gets",
    ),
)
"""Options that only advise: without them a job runs as it was asked for."""

SBATCH = GnuOptions(
    summary="submit a batch script, as Slurm's sbatch does",
    operands="[SCRIPT [ARGUMENT ...]]   (without a script it is read from standard input)",
    options=(
        GnuOption("job-name", "J", "NAME", "name of the job", variable="SBATCH_JOB_NAME"),
        GnuOption("partition", "p", "NAMES", "queue, or several to choose from", variable="SBATCH_PARTITION"),
        *SHAPE,
        GnuOption("time", "t", "TIME", "run limit", variable="SBATCH_TIMELIMIT"),
        GnuOption("array", "a", "LIST[%COUNT]", "an array with these indices", variable="SBATCH_ARRAY_INX"),
        GnuOption("output", "o", "FILE", "output; %j %A %a %N %x %u ... are filled in", variable="SBATCH_OUTPUT"),
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
        GnuOption("priority", "", "NUMBER", "order among your own jobs; 0 holds it"),
        GnuOption("requeue", "", help="run it again when its node is lost", variable="SBATCH_REQUEUE"),
        GnuOption("no-requeue", "", help="never run it again by itself", variable="SBATCH_NO_REQUEUE"),
        GnuOption("reservation", "", "NAME", "use this reservation", variable="SBATCH_RESERVATION"),
        GnuOption("signal", "", "[B:]SIGNAL[@SECONDS]", "signal before the run limit", variable="SBATCH_SIGNAL"),
        GnuOption("mail-type", "", "TYPES", "NONE, BEGIN, END, FAIL, ALL; ARRAY_TASKS: of each element"),
        GnuOption("mail-user", "", "ADDRESS", "whom mail goes to"),
        GnuOption("export", "", "LIST", "ALL, NONE, NAME, NAME=VALUE", variable="SBATCH_EXPORT"),
        GnuOption("wrap", "", "COMMAND", "run this command line; there is no script"),
        GnuOption("wait", "W", help="wait for the end and exit with its exit code", variable="SBATCH_WAIT"),
        GnuOption("test-only", "", help="tell when the job could start, and submit nothing"),
        GnuOption("parsable", "", help="print the number alone"),
        GnuOption("quiet", "Q", help="print nothing but errors"),
        VERBOSE,
        *general(),
        GnuOption("clusters", "M", "all", "taken for this cluster alone", variable="SBATCH_CLUSTERS"),
        *refused("cluster-constraint", because=_ONE_CLUSTER),
        GnuOption("qos", "q", "normal", "taken: there is no other", variable="SBATCH_QOS"),
        GnuOption("nice", "", "NUMBER", "less priority among your own jobs, 1 to 100", is_optional=True),
        *refused("uid", "gid", because="jobs run as whoever submits them"),
        *refused("container", "container-image", "container-mounts", because="gsub --container IMAGE does it"),
        *refused("bb", "bbf", because="there are no burst buffers"),
        GnuOption("licenses", "L", "NAME[:COUNT],...", "shared resources that it takes"),
        GnuOption("tmp", "", "SIZE[K|M|G|T]", "only nodes with so much room in /tmp"),
        *_ADVICE,
        *refused("ntasks-per-gpu", "gpus-per-socket", "gpu-bind", because="say --gpus-per-task"),
        *refused("ntasks-per-core", "ntasks-per-socket", "sockets-per-node", "cores-per-socket", "threads-per-core"),
        *refused("extra-node-info/B", "mincpus", "cpus-per-gpu", "overcommit/O"),
        *refused("no-kill/k", because="a job ends when one of its nodes is lost"),
        *refused("reboot", because="hosts are not rebooted from here"),
        *refused("export-file", "nodefile/F", "gres-flags", "batch"),
    ),
    examples=(
        "PROGRAM --gres=gpu:2 --time=8:00:00 train.sh --epochs 10",
        "PROGRAM -N 2 --ntasks-per-node=4 --gpus-per-node=4 --wrap 'srun hostname'",
        "PROGRAM --array=0-99%8 --output=out.%A_%a sweep.sh",
    ),
)
