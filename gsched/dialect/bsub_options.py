"""bsub's and bmod's options as tables: what gsub and gmod take, and by name what they refuse.

Source: bsub(1) and bmod(1) of LSF 10.1.
"""

from __future__ import annotations

from gsched.dialect.launching.launch_options import LAUNCH_OPTIONS
from gsched.dialect.options import Option, OptionTable, unsupported

JOB = (
    Option("J", "NAME", 'name of the job; "NAME[1-100:2]%5" is an array, 5 started at a time', '-J "train[1-10]"'),
    Option("Jd", "TEXT", "description of the job"),
    Option("q", "QUEUES", "queue; of several the first that accepts the job", '-q "short normal"'),
    Option("n", "LEAST[,MOST]", "number of job slots", "-n 4"),
    Option("R", "REQUIREMENT", "resources needed; several -R add up", '-R "rusage[ngpus_excl_p=1]"'),
    Option("gpu", "SPEC", "GPUs needed on each host; - takes the queue's or the cluster's default", '-gpu "num=2"'),
    Option("m", "HOSTS", "run only there; HOST+2 is preferred, HOST! comes first", '-m "gpu01+1 gpu02"'),
    Option("x", help="alone on its hosts"),
    Option("w", "CONDITION", "wait until the condition on other jobs holds", "-w 'done(17) && ended(\"prep*\")'"),
    Option("b", "TIME", "start no sooner than [[[YEAR:]MONTH:]DAY:]HOUR:MINUTE", "-b 20:00"),
    Option("t", "TIME", "end the job at this time, started or not", "-t 8:00"),
    Option("W", "[HOURS:]MINUTES", "run limit; the job is killed when it is reached", "-W 1:30"),
    Option("We", "[HOURS:]MINUTES", "estimated run time, which ends nothing"),
    Option("sp", "PRIORITY", "order among your own jobs; larger is sooner"),
    Option("g", "GROUP", "job group", "-g /risk/night"),
    Option("G", "USERGROUP", "user group that the job counts for"),
    Option("P", "PROJECT", "project the job belongs to"),
    Option("U", "RESERVATION", "use this advance reservation"),
    Option("r", help="run it again elsewhere when its host is lost"),
    Option("rn", help="never run it again by itself"),
    Option("Q", "CODES", "exit codes after which the job waits again", '-Q "99 EXCLUDE(3)"'),
    Option(
        "-signal",
        "[B:]SIGNAL[@SECONDS]",
        "asks it so long (60) before its end to save its state; B: its script alone",
        "--signal TERM@120",
    ),
    Option(
        "-restart-on",
        "CAUSE,...",
        "run it again after preempt, host, gpu, timelimit, idle, drain",
        "--restart-on preempt,timelimit",
    ),
    Option(
        "-max-restarts",
        "COUNT",
        "it saves its state, and exit code 99 asks for another run: so often at most",
        "--max-restarts 5",
    ),
    Option(
        "o",
        "FILE",
        "append output to FILE; %J is the job's number, %t the attempt, DIR/ means DIR/NUMBER.out",
        "-o log.%J",
    ),
    Option("oo", "FILE", "the same, overwriting FILE"),
    Option("e", "FILE", "append error output to FILE; without it, it goes where -o says", "-e err.%J"),
    Option("eo", "FILE", "the same, overwriting FILE"),
    Option("i", "FILE", "standard input of the job"),
    Option("cwd", "DIR", "directory the job runs in", "-cwd /data/run1"),
    Option("M", "SIZE", "limit: memory of all its processes", "-M 16G"),
    Option("v", "SIZE", "limit: swapped-out memory of all its processes"),
    Option("c", "[HOURS:]MINUTES", "limit: CPU time of all its processes"),
    Option("p", "COUNT", "limit: processes"),
    Option("T", "COUNT", "limit: threads of all its processes"),
    Option("F", "SIZE", "limit: size of each file"),
    Option("D", "SIZE", "limit: data segment of each process"),
    Option("S", "SIZE", "limit: stack of each process"),
    Option("C", "SIZE", "limit: size of core files"),
    Option("app", "PROFILE", "application profile of lsb.applications"),
    Option("sla", "CLASS", "service class of lsb.serviceclasses: it may use what is guaranteed to it", "-sla gold"),
    Option("E", "COMMAND", "runs on the first host before the job; when it fails the job waits again"),
    Option("Ep", "COMMAND", "runs on the first host when the job has ended"),
    Option("L", "SHELL", "absolute path of a shell whose login files make the environment"),
    Option("f", "COPY", "copy a file before (>) or after (<, << appends) the job", '-f "in.dat > /scratch/in.dat"'),
    Option("outdir", "DIR", "folder for -o and -e, made if missing; %J %I %P %U %G %H %JG are filled in"),
    Option("wa", "SIGNAL", "signal sent before the run limit or -t ends the job; needs -wt", "-wa URG -wt 5"),
    Option("wt", "[HOURS:]MINUTES", "how long before"),
    Option("-gpu-idle-ok", "REASON", "its GPUs may be idle, where the queue lets jobs say so"),
    Option("gpu-idle-ok", "REASON", "the same"),
    Option(
        "-service-users",
        "USERS",
        "who else may use the page of --service",
        '--service-users "ann bob"',
    ),
    Option(
        "-container",
        "IMAGE",
        "run it in a container: docker://NAME, a .sif file or a folder",
        "--container a.sif",
    ),
    Option(
        "-container-mount",
        "MOUNT",
        "SOURCE[:TARGET][:ro]: what of the host the container sees; may be repeated",
    ),
    Option("ar", help="give it more slots while it runs, up to the most of -n MIN,MAX"),
    Option("ti", help="end the job when its dependency can never hold"),
    Option("u", "ADDRESS", "whom mail about the job goes to"),
    Option("B", help="mail when the job starts"),
    Option("N", help="mail the report instead of writing it into the file of -o"),
    Option("Ne", help="the same, only if the job ends as EXIT"),
    Option(
        "-notify",
        "TARGET[,EVENT...]",
        "tell a URL, a program or mail of start, end, fail, warning or all",
        "--notify mail,fail",
    ),
    Option(
        "-plot",
        "NAME=PATTERN",
        "gsched web draws the numbers that PATTERN finds in the output",
        "--plot 'loss=loss = ([0-9.e+-]+)'",
    ),
)
"""Options that say something of the job, at submission and later."""

HOST_FILE = Option(
    "hostfile", "FILE", "slots on each of the hosts in a file: HOST [SLOTS] a line", "-hostfile hosts.txt"
)
_GENERAL = (
    Option("h", help="this text"),
    Option("-help", help="this text"),
    Option("V", help="version"),
)
_SUMMIT = "it belongs to IBM's CSM and JSM"
_PENDING_TIME = "LSF too ends no job for it; -t ends a job at a time"
NOTED = (
    Option("alloc_flags", "FLAGS", noted=_SUMMIT),
    Option("cn_cu", "TYPE", noted=_SUMMIT),
    Option("cn_mem", "SIZE", noted=_SUMMIT),
    Option("core_isolation", "LEVEL", noted=_SUMMIT),
    Option("csm", "Y|N", noted=_SUMMIT),
    Option("jsm", "Y|N|D", noted=_SUMMIT),
    Option("ln_mem", "SIZE", noted=_SUMMIT),
    Option("ln_slots", "COUNT", noted=_SUMMIT),
    Option("smt", "COUNT", noted=_SUMMIT),
    Option("step_cgroup", "Y|N", noted=_SUMMIT),
    Option("hl", noted="memory limits always count for the whole job"),
    Option("ptl", "[HOURS:]MINUTES", noted=_PENDING_TIME),
    Option("eptl", "[HOURS:]MINUTES", noted=_PENDING_TIME),
)
"""Options of bsub that are taken with a warning: a script that has them does the same without."""
_UNKNOWN = (
    *unsupported("stage", "ext", "jobaff", "network", "freq", "rcacct", "ul"),
    *unsupported("notify", because="--notify TARGET,EVENT says what to tell and whom, -B and -N send mail"),
    *unsupported("rnc", because="no command is run when the slots of a job change; gjobs -o alloc_slot tells them"),
    *unsupported("k", "mig", because="there are no checkpoints"),
    *unsupported("clusters", because="there is one cluster"),
    *unsupported("data", "datachk", "datagrp", because="there is no data manager"),
    *unsupported("Lp", because="there is no licence scheduler"),
    *unsupported("s", because="a run window suspends and resumes; -wa SIGNAL -wt MINUTES warns before the run limit"),
)
_INTERACTIVE = unsupported(
    *("IX", "tty", "XF"),
    because="-I, -Ip and -Is are the kinds of interactive jobs",
)

BSUB = OptionTable(
    summary="submit a job; it runs when the resources it asks for are free",
    operands="[command [argument ...]]   (without a command, a script is read from standard input)",
    options=(
        *JOB,
        Option(
            "env", "LIST", "variables the job gets: all, none, NAME, NAME=VALUE, ~NAME", '-env "all, SEED=1, ~DISPLAY"'
        ),
        Option("nnodes", "COUNT", "so many hosts; the slots of -n are spread evenly over them, one each without -n"),
        HOST_FILE,
        Option("K", help="wait for the end of the job and exit with its exit code"),
        Option("-test-only", help="tell when the job could start, and submit nothing"),
        Option("-dry-run", help="tell what would become of the job and what would start it now, and submit nothing"),
        Option("-json", help="with --dry-run: tell it as a JSON object"),
        Option("I", help="interactive: what the job prints is shown here, what is typed here goes to the job"),
        Option("Ip", help="the same with a terminal of the job's own, for what wants one"),
        Option("Is", help="the same, for shells", example="-Is bash"),
        Option("IS", help="the same as -I: what passes between hosts is always encrypted and authenticated"),
        Option("ISp", help="the same as -Ip"),
        Option("ISs", help="the same as -Is"),
        Option(
            "-service",
            "PORT|auto",
            "it has a page of its own on this port, or a free one; `gsched web` leads there",
            "--service auto",
        ),
        Option(
            "-resubmit",
            "JOB",
            "as that job was submitted; what is given beside it counts instead",
            "--resubmit 812 -q long -W 12:00",
        ),
        Option("-snapshot", help="keep commit, changed files and Python packages with the job; gjobs -l tells of it"),
        Option("-notebook", help="--service auto, and JupyterLab as the command"),
        *LAUNCH_OPTIONS,
        Option("H", help="hold the job until it is resumed"),
        Option("is", "FILE", "standard input of the job, copied now: FILE may change or go"),
        Option("Zs", help="copy the script that is the command now: its file may change or go"),
        Option("a", "NAMES", "run these esub programs first", '-a "openmpi check(fast)"'),
        Option("pack", "FILE", "submit the jobs of FILE, options and command on a line each; stands alone"),
        *_GENERAL,
        *NOTED,
        *_UNKNOWN,
        *_INTERACTIVE,
        *unsupported(
            "jsdl", "jsdl_strict", "json", "yaml", because="options stand on the command line or on #BSUB lines"
        ),
        *unsupported("user", because="jobs run as whoever submits them"),
    ),
    examples=(
        "PROGRAM -n 4 -o log.%J ./train.sh --epochs 10",
        'PROGRAM -R "select[ngpus>0] rusage[ngpus_excl_p=1]" python train.py',
        'PROGRAM -gpu "num=2:mode=exclusive_process" -W 8:00 python train.py',
        'PROGRAM -J "sweep[1-100]%8" -o out.%J.%I ./run.sh      (LSB_JOBINDEX is the index)',
        "PROGRAM -n 8 -R 'span[ptile=4]' -gpu num=4 --launch torch python train.py      (also horovod, mpi ...)",
        "PROGRAM --notebook -gpu num=1 -W 8:00      (JupyterLab on a GPU, opened from the pages of `gsched web`)",
        "PROGRAM --service auto tensorboard --logdir runs --port '$GSCHED_SERVICE_PORT'",
        "PROGRAM < job.sh      (options may stand in job.sh on lines that begin with #BSUB)",
    ),
)

RESETS = {
    "Jn": ("J", "name"),
    "Jdn": ("Jd", "description"),
    "qn": ("q", "queue"),
    "nn": ("n", "slots", "max_slots"),
    "Rn": ("R", "res_req"),
    "gpun": ("gpu", "gpu_req"),
    "mn": ("m", "hosts", "host_levels", "other_hosts", "first_hosts"),
    "hostfilen": ("hostfile", "slots", "max_slots", "res_req", "hosts", "host_levels", "other_hosts", "first_hosts"),
    "xn": ("x", "exclusive"),
    "wn": ("w", "dependency"),
    "bn": ("b", "begin_at"),
    "tn": ("t", "terminate_at"),
    "Wn": ("W", "run_limit_s"),
    "Wen": ("We", "estimate_s"),
    "spn": ("sp", "priority"),
    "gn": ("g", "group"),
    "Gn": ("G", "user_group"),
    "Pn": ("P", "project"),
    "Un": ("U", "reservation"),
    "Qn": ("Q", "requeue_exit_values"),
    "on": ("o", "output_file", "output_overwrite"),
    "en": ("e", "error_file", "error_overwrite"),
    "in": ("i", "input_file"),
    "cwdn": ("cwd", "specified_cwd"),
    "appn": ("app", "application"),
    "slan": ("sla", "service_class"),
    "En": ("E", "pre_exec"),
    "Epn": ("Ep", "post_exec"),
    "Ln": ("L", "login_shell"),
    "fn": ("f", "file_copies"),
    "outdirn": ("outdir", "output_dir"),
    "wan": ("wa", "warning_signal"),
    "wtn": ("wt", "warning_s"),
    "-signaln": ("-signal", "warning_signal", "warning_s", "warns_main", "saves_on_signal"),
    "-restart-onn": ("-restart-on", "restart_on"),
    "-max-restartsn": ("-max-restarts", "max_restarts"),
    "-gpu-idle-okn": ("-gpu-idle-ok", "gpu_idle_ok"),
    "-containern": ("-container", "container", "container_mounts"),
    "-container-mountn": ("-container-mount", "container_mounts"),
    "-plotn": ("-plot", "plots"),
    "-service-usersn": ("-service-users", "service_users"),
    "arn": ("ar", "resizable", "resize_to"),
    "tin": ("ti", "end_orphan"),
    "un": ("u", "mail_user"),
    "Bn": ("B", "notify_begin"),
    "Nn": ("N", "notify_end", "notify_error"),
}
"""Reset option of bmod -> the option that it undoes, and the JobSpec fields that go back to their defaults."""
LIMIT_RESETS = {f"{option}n": option for option in "MvcpTFDSC"}
"""Reset option of bmod -> the limit's option."""

BMOD = OptionTable(
    summary="change what was asked for when jobs were submitted",
    operands='JOB ...   (12, an array; "12[3]" or "12[1-5]", elements of it)',
    options=(
        *JOB,
        HOST_FILE,
        Option("Z", "COMMAND", "another command line"),
        *(
            Option(name, help=f"take -{option} back")
            for name, option in [*((name, each[0]) for name, each in RESETS.items()), *LIMIT_RESETS.items()]
        ),
        *_GENERAL,
        *(unsupported(each.name, because=each.noted)[0] for each in NOTED),
        *_UNKNOWN,
        *unsupported("-test-only", because="gjobs -l tells when a job that waits is planned to start"),
        *unsupported("-dry-run", because="gjobs -p4 tells what would start a job that waits"),
        *unsupported("notifyn", because="--notify none takes all notices back"),
        *unsupported("an", "a", because="esubs have changed what was submitted; give the options themselves"),
        *unsupported("app_n", "kn", "Lpn", "aps", "apsn", "clustersn", "datan", "datagrpn", "envn", "eptln"),
        *unsupported("extn", "freqn", "isn", "is", "networkn", "nnodesn", "nnodes", "ptln", "rcacctn", "smtn"),
        *unsupported("sn", "step_cgroupn", "uln", "Wep", "hln", "mign", "Zsn", "Zs", "env", "H", "K"),
    ),
    interspersed=True,
    examples=("PROGRAM -W 4:00 1153", "PROGRAM -Rn -q night 1153 1154", "PROGRAM -J '%10' 1160"),
)
