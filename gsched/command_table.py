"""The commands of gsched, each once: its name, LSF's name for it, and how the launcher runs it.

Whatever needs a list of commands takes it from here: the build writes a script for each, `gsched names lsf` one for
each of LSF's names, gsched.cli.registry finds the module of each, manual pages and completion are written for them, and
the launcher sees which it may ask again. What options a command has is said by the TABLE of its module.

The launcher imports it before each command and the build before anything is installed: it must never import anything.
"""

CHANGES = "changes"
"""It changes something: when the door breaks off, nobody knows whether it was carried out, and it says so."""
SUBMITS = "submits"
"""The master answers it once however often it asks, by the token of its call: it asks again and goes on from there."""
READS = "reads"
"""It changes nothing: it is simply run again when the door breaks off before it has said anything."""
READS_HISTORY = "reads history"
"""The same, with an answer that may be large: the door gives it back, to be laid out behind what people wait for."""
WAITS = "waits"
"""It changes nothing and prints no answer: it waits anew whatever it has said of how it stands."""
STARTS_TASKS = "starts tasks"
"""A part of a job, not a question to the master: the agent of its host answers it."""
ATTENDS = "attends"
"""It stays with what it has started, on its caller's own streams: never through the door."""
IS_ELIM = "is an elim"
"""A program of gsched.probe that an agent starts and that runs for ever: never through the door."""
WITHOUT_DOOR = (STARTS_TASKS, ATTENDS, IS_ELIM)

COMMANDS = (
    ("gsub", "bsub", SUBMITS, "submission"),
    ("gjobs", "bjobs", READS, "job_views"),
    ("ghosts", "bhosts", READS, "hosts"),
    ("ghist", "bhist", READS_HISTORY, "job_views"),
    ("gqueues", "bqueues", READS, "cluster"),
    ("gid", "lsid", READS, "cluster"),
    ("gload", "lsload", READS, "hosts"),
    ("gparams", "bparams", READS, "cluster"),
    ("gclusters", "lsclusters", READS, "cluster"),
    ("glshosts", "lshosts", READS, "hosts"),
    ("glsinfo", "lsinfo", READS, "hosts"),
    ("gslots", "bslots", READS, "hosts"),
    ("glsplace", "lsplace", READS, "hosts"),
    ("glsmon", "lsmon", READS, "hosts"),
    ("glsrun", "lsrun", ATTENDS, "submission"),
    ("glsgrun", "lsgrun", ATTENDS, "submission"),
    ("glslogin", "lslogin", ATTENDS, "submission"),
    ("gusers", "busers", READS, "cluster"),
    ("gugroup", "bugroup", READS, "cluster"),
    ("gmgroup", "bmgroup", READS, "hosts"),
    ("gacct", "bacct", READS_HISTORY, "job_views"),
    ("geff", "", READS_HISTORY, "job_views"),
    ("gapp", "bapp", READS, "cluster"),
    ("gkill", "bkill", CHANGES, "job_control"),
    ("gmod", "bmod", CHANGES, "job_control"),
    ("gswitch", "bswitch", CHANGES, "job_control"),
    ("gtop", "btop", CHANGES, "job_control"),
    ("gbot", "bbot", CHANGES, "job_control"),
    ("grun", "brun", CHANGES, "job_control"),
    ("grequeue", "brequeue", CHANGES, "job_control"),
    ("gresize", "bresize", CHANGES, "job_control"),
    ("gbgadd", "bgadd", CHANGES, "job_groups"),
    ("gbgmod", "bgmod", CHANGES, "job_groups"),
    ("gbgdel", "bgdel", CHANGES, "job_groups"),
    ("gjgroup", "bjgroup", READS, "job_groups"),
    ("grsvadd", "brsvadd", CHANGES, "reservations"),
    ("grsvmod", "brsvmod", CHANGES, "reservations"),
    ("grsvdel", "brsvdel", CHANGES, "reservations"),
    ("grsvs", "brsvs", READS, "reservations"),
    ("glimits", "blimits", READS, "cluster"),
    ("gresources", "bresources", READS, "cluster"),
    ("gsla", "bsla", READS, "cluster"),
    ("gpeek", "bpeek", READS, "job_views"),
    ("gpost", "bpost", CHANGES, "job_control"),
    ("gread", "bread", CHANGES, "job_views"),
    ("gwait", "bwait", WAITS, "submission"),
    ("gjdepinfo", "bjdepinfo", READS, "job_views"),
    ("gstop", "bstop", CHANGES, "job_control"),
    ("gresume", "bresume", CHANGES, "job_control"),
    ("glaunch", "blaunch", STARTS_TASKS, "submission"),
    ("elim.gpu", "", IS_ELIM, ""),
)
"""(name, LSF's name or "", how the launcher runs it, the folder of gsched.cli.commands that its module is in)."""

SLURM_COMMANDS = (
    ("sbatch", SUBMITS),
    ("squeue", READS),
    ("sacct", READS_HISTORY),
    ("scontrol", CHANGES),
    ("sprio", READS),
    ("sstat", READS),
    ("sshare", READS),
    ("sacctmgr", READS),
    ("sattach", READS),
    ("sbcast", READS),
    ("scrontab", READS),
    ("sdiag", READS),
    ("sreport", READS),
    ("strigger", READS),
    ("scancel", CHANGES),
    ("sinfo", READS),
    ("srun", ATTENDS),
    ("salloc", ATTENDS),
)
"""(Slurm's name, how the launcher runs it): `gsched names slurm` writes them, no installation does."""
PBS_COMMANDS = (
    ("qsub", SUBMITS, "qsub"),
    ("qstat", READS, "qstat"),
    ("qdel", CHANGES, "qdel"),
    ("qalter", CHANGES, "qalter"),
    ("qhold", CHANGES, "pbs_job_commands"),
    ("qrls", CHANGES, "pbs_job_commands"),
    ("qsig", CHANGES, "pbs_job_commands"),
    ("qrerun", CHANGES, "pbs_job_commands"),
    ("qmove", CHANGES, "pbs_job_commands"),
    ("qmsg", CHANGES, "pbs_job_commands"),
    ("qselect", READS, "qselect"),
    ("pbsnodes", CHANGES, "pbsnodes"),
    ("tracejob", READS, "tracejob"),
    ("qenable", CHANGES, "queue_commands"),
    ("qdisable", CHANGES, "queue_commands"),
    ("qstart", CHANGES, "queue_commands"),
    ("qstop", CHANGES, "queue_commands"),
    ("qorder", CHANGES, "queue_commands"),
    ("qrun", CHANGES, "queue_commands"),
    ("qmgr", READS, "refused_commands"),
    ("qterm", READS, "refused_commands"),
    ("qchkpt", READS, "refused_commands"),
    ("qgpumode", READS, "refused_commands"),
    ("qgpureset", READS, "refused_commands"),
    ("pbs_rsub", READS, "refused_commands"),
    ("pbs_ralter", READS, "refused_commands"),
    ("pbs_rdel", READS, "refused_commands"),
    ("pbs_rstat", READS, "refused_commands"),
    ("pbs_release_nodes", READS, "refused_commands"),
    ("pbs_attach", READS, "refused_commands"),
    ("pbs_track", READS, "refused_commands"),
)
"""(PBS's name, how the launcher runs it, its module in gsched.cli.pbs): for `gsched names pbs`."""


def run_mode(name: str) -> str:
    """How the launcher runs the command that is called by this name, LSF's or ours; CHANGES for an unknown one."""
    for ours, theirs, mode, _ in COMMANDS:
        if name in (ours, theirs):
            return mode
    for theirs, mode, *_ in SLURM_COMMANDS + PBS_COMMANDS:
        if name == theirs:
            return mode
    return CHANGES
