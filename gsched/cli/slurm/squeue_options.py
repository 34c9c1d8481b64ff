"""squeue's options.

Source: squeue(1) of Slurm 22.05, whose list of options this table goes through; a test compares them.
"""

from __future__ import annotations

from gsched.cli.slurm.slurm_call import GENERAL
from gsched.dialect.slurm.gnu_options import VERBOSE, GnuOption, GnuOptions, refused

SQUEUE = GnuOptions(
    summary="list jobs, as Slurm's squeue does",
    operands="",
    options=(
        GnuOption("jobs", "j", "NUMBERS", "only these jobs"),
        GnuOption("user", "u", "USERS", "only jobs of these users", variable="SQUEUE_USERS", also=("users",)),
        GnuOption("me", "", help="only your own jobs"),
        GnuOption(
            "partition",
            "p",
            "NAMES",
            "only jobs of these queues",
            variable="SQUEUE_PARTITION",
            also=("partitions",),
        ),
        GnuOption("name", "n", "NAMES", "only jobs of these names", variable="SQUEUE_NAMES"),
        GnuOption(
            "account", "A", "NAMES", "only jobs of these projects", variable="SQUEUE_ACCOUNT", also=("accounts",)
        ),
        GnuOption("states", "t", "STATES", "only jobs in these states, or all", variable="SQUEUE_STATES"),
        GnuOption("nodelist", "w", "NODES", "only jobs on these nodes", also=("nodes",)),
        GnuOption("format", "o", "FORMAT", "what is shown, such as '%i %t'", variable="SQUEUE_FORMAT"),
        GnuOption("Format", "O", "FIELDS", "what is shown, such as JobID,State:12", variable="SQUEUE_FORMAT2"),
        GnuOption("sort", "S", "FIELDS", "order, such as -i,t; + and - before a field", variable="SQUEUE_SORT"),
        GnuOption("noheader", "h", help="no heading"),
        GnuOption("long", "l", help="more columns"),
        GnuOption("start", "", help="only jobs that wait, with when they are planned to start"),
        GnuOption("array", "r", help="a line for each element of an array", variable="SQUEUE_ARRAY"),
        GnuOption("steps", "s", "STEPS", "the steps of running jobs: scripts, and what srun runs", is_optional=True),
        GnuOption("reservation", "R", "NAME", "only jobs of this reservation"),
        GnuOption("qos", "q", "NAMES", "all jobs have the QOS normal", variable="SQUEUE_QOS"),
        GnuOption("iterate", "i", "SECONDS", "list them again and again"),
        GnuOption("json", help="JSON"),
        GnuOption("all", "a", help="taken: no queue is hidden", variable="SQUEUE_ALL"),
        GnuOption("hide", help="taken: no queue is hidden"),
        GnuOption("array-unique", help="taken: elements that wait for one reason are one line"),
        GnuOption("priority", "P", help="taken: a job is in one queue", variable="SQUEUE_PRIORITY"),
        GnuOption("noconvert", help="taken: nothing is converted"),
        GnuOption("clusters", "M", "NAMES", "taken: there is one cluster", variable="SLURM_CLUSTERS"),
        GnuOption("local", help="taken: there is one cluster"),
        GnuOption("federation", help="taken: there is one cluster"),
        GnuOption("sibling", help="taken: there is one cluster"),
        VERBOSE,
        *GENERAL,
        *refused("yaml", because="--json is there"),
        *refused("licenses/L", because="gjobs -l shows which shared resources a job has"),
    ),
    interspersed=True,
    examples=("PROGRAM --me", "PROGRAM -t PD -o '%i %r'", "PROGRAM --noheader --format='%i %t' --job 12,13"),
)
