"""What manual pages say beyond the tables: exit codes, files, variables of the environment, what to read next.

A variable is told of where a command reads it; docs/commands.md says the same at greater length.
"""

from __future__ import annotations

ENVIRONMENT = {
    "GSCHED_ENVDIR": "Configuration folder of the cluster that is meant. Without it LSF_ENVDIR, ~/.gsched/conf and "
    "/etc/gsched, whichever is there first.",
    "LSF_ENVDIR": "The same, for programs that know LSF's name. GSCHED_ENVDIR wins.",
    "GSCHED_COMMAND_WAIT": "Seconds that a command waits for a master which does not answer (60).",
    "GSCHED_DOOR": "off: the command runs in a process of its own and not in the door.",
    "GSCHED_DEBUG": "1: tell why something failed, with a traceback.",
}
"""Of every command."""

_SUBMITTING = {
    "LSB_DEFAULTQUEUE": "Queues to choose from without -q.",
    "LSB_DEFAULTPROJECT": "Project without -P.",
    "LSB_DEFAULT_APP": "Application profile without -app.",
    "LSB_DEFAULT_JOBGROUP": "Job group without -g; %p and %u in it are the project and the user.",
    "LSB_DEFAULT_USERGROUP": "User group without -G.",
    "LSB_JOB_CWD": "Working directory of the job without -cwd.",
    "LSB_ESUB_METHOD": "esub programs that run before those of -a.",
    "LSB_API_QUOTE_CMD": "Y: the first word of the command is quoted like the others.",
    "LSB_PACK_SKIP_ERROR": "Y: a line of -pack that is refused does not end the rest.",
    "BSUB_QUIET": "Set: the line that tells the number of the job is left out.",
    "BSUB_STDERR": "Set: that line goes to standard error.",
    "BSUB_CHK_RESREQ": "Set: the requirement is checked, and nothing is submitted.",
}

_SIZES = {"LSB_UNIT_FOR_JOBS_DISPLAY": "K, M, G or T: the unit of sizes that are shown."}

_YEARS = {"LSB_DISPLAY_YEAR": "Y: times with their year; the command's own variable comes first."}

_HMS = {"LSB_HMS_TIME_FORMAT": "Y: durations as HH:MM:SS, as with -hms."}

OWN_ENVIRONMENT: dict[str, dict[str, str]] = {
    "gsub": _SUBMITTING,
    "gjobs": {
        "LSB_BJOBS_FORMAT": "Fields to show, as of -o.",
        "LSB_BJOBS_PENDREASON_LEVEL": "0 to 3: how much -p says.",
        "LSB_BJOBS_CONSISTENT_EXIT_CODE": "Y: exit code 255 where no job is found.",
        "LSB_BJOBS_DISPLAY_YEAR": "Y: times with their year.",
        **_HMS,
        **_YEARS,
        **_SIZES,
    },
    "ghosts": {"LSB_BHOSTS_FORMAT": "Fields to show, as of -o.", **_SIZES},
    "gqueues": {"LSB_BQUEUES_FORMAT": "Fields to show, as of -o.", **_SIZES},
    "gusers": {"LSB_BUSERS_FORMAT": "Fields to show, as of -o.", **_SIZES},
    "gload": {"LSF_LSLOAD_FORMAT": "Fields to show, as of -o.", **_SIZES},
    "ghist": {
        "LSB_BHIST_DISPLAY_YEAR": "Y: times with their year.",
        "LSB_BHIST_HOURS": "How many hours -t looks back.",
        **_HMS,
        **_YEARS,
    },
    "gacct": {"LSB_BACCT_DISPLAY_YEAR": "Y: times with their year.", **_YEARS},
    "gsched-pam": {
        "PAM_USER, PAM_TYPE": "Who logs in, and which question is asked: set by pam_exec.",
        "GSCHED_JOB": "The job to join, where it is not the newest.",
    },
    "elim.gpu": {
        "GSCHED_GPU_PROVIDER": "Where GPUs are read from: nvml, none, or sim:FOLDER.",
        "GSCHED_GPU_INTERVAL": "Seconds between two lines.",
        "GSCHED_HOSTNAME": "Name of the host, where it is not this machine's.",
        "LSF_RESOURCES": "Names of the resources that are asked for: ngpuprohibited is printed where it is among them.",
    },
}
"""Variables that a command reads, beyond those of every command."""

_OWN_EXITS = {
    "gsub": [
        ("0", "The job was submitted; with -K, -I, -Ip and -Is: it has ended with exit code 0."),
        ("255", "It was refused, or the master cannot be reached."),
        ("any other", "With -K, -I, -Ip and -Is: the exit code of the job."),
    ],
    "gsched": [
        ("0", "Done."),
        ("1", "status: a daemon does not run."),
        ("2", "The words were not understood."),
        ("255", "It could not be done; standard error says why."),
    ],
    "gadmin": [
        ("0", "Done; without words: quit, or all lines of standard input were carried out."),
        ("2", "The words were not understood (255 under the name badmin)."),
        ("255", "It could not be done, or the files have errors; standard error says why."),
    ],
    "gsched-pam": [
        ("0", "The user is let in; with --session: done."),
        ("1", "The user is refused; standard output says why."),
        ("2", "The words were not understood, or it was not run by pam_exec."),
    ],
    "elim.gpu": [
        ("0", "Interrupted, or one line was printed."),
        ("1", "--once: the GPUs cannot be read."),
        ("255", "The words were not understood."),
    ],
}
_EXITS = [("0", "Done."), ("255", "It could not be done, or not for all that was named; standard error says why.")]


def exits(name: str) -> list[tuple[str, str]]:
    """(exit code, what it means) of a command."""
    return _OWN_EXITS.get(name, _EXITS)


_FILES = [
    ("lsf.conf", "in the configuration folder: where everything lies."),
    ("~/.gsched/conf", "Configuration of a private cluster."),
    ("/etc/gsched", "Configuration of a cluster of this machine."),
]
_OWN_FILES = {
    "gadmin": [
        ("lsf.conf, lsf.shared, lsf.cluster.NAME", "folders and daemons; resources; hosts and administrators."),
        ("lsb.params, lsb.queues, lsb.hosts, lsb.users, lsb.applications, lsb.resources", "scheduling."),
        ("~/.local/state/gsched/gadmin_history", "lines of the prompt; below XDG_STATE_HOME where it is set."),
    ],
    "lsadmin": [
        (
            "~/.local/state/gsched/lsadmin_history",
            "lines of the prompt; below XDG_STATE_HOME where it is set.",
        ),
    ],
    "gsched-pam": [("/etc/pam.d/sshd", "where it is named; docs/shared-cluster.md has the lines.")],
    "gsched": [("~/.gsched", "a private cluster: conf, run, state, spool, log.")],
}


def files(name: str) -> list[tuple[str, str]]:
    """(file, what it is) of a command."""
    return _OWN_FILES.get(name, []) + _FILES


_FAMILIES = (
    ("gsub", "gjobs", "gpeek", "ghist", "gkill", "gmod", "gwait", "gpost", "gread", "gjdepinfo"),
    ("gkill", "gstop", "gresume", "grequeue", "gswitch", "gtop", "gbot", "grun", "gmod"),
    ("gsub", "glaunch", "glsrun", "glsgrun", "glslogin"),
    ("gbgadd", "gbgmod", "gbgdel", "gjgroup"),
    ("grsvadd", "grsvmod", "grsvdel", "grsvs"),
    ("ghosts", "gload", "glsmon", "glsplace", "gslots", "glshosts", "glsinfo", "gmgroup", "elim.gpu"),
    ("gqueues", "gusers", "gugroup", "gapp", "glimits", "gresources", "gsla", "gparams", "gid", "gclusters"),
    ("ghist", "gacct"),
    ("gsched", "gadmin", "lsadmin", "lsfstartup", "lsfshutdown", "lsf_daemons"),
)


def related(name: str) -> list[str]:
    """Pages to read next, by name."""
    found = {other for family in _FAMILIES if name in family for other in family}
    return sorted((found or {"gsched"}) - {name})
