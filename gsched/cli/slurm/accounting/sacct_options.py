"""sacct's options.

Source: sacct(1) of Slurm 22.05, whose list of options this table goes through; a test compares them.
"""

from __future__ import annotations

from gsched.cli.slurm.accounting.field_tables import PARSABLE
from gsched.dialect.slurm.gnu_options import VERBOSE, GnuOption, GnuOptions, general, refused

SACCT = GnuOptions(
    summary="show what jobs took, those that have ended too, as Slurm's sacct does",
    operands="",
    options=(
        GnuOption("jobs", "j", "JOB[.STEP],...", "these jobs, array elements or steps; since when does not matter"),
        GnuOption("user", "u", "USERS", "jobs of these users, by name or number", also=("uid",)),
        GnuOption("allusers", "a", help="jobs of everybody"),
        GnuOption("accounts", "A", "NAMES", "jobs of these projects"),
        GnuOption("partition", "r", "NAMES", "jobs of these queues"),
        GnuOption("state", "s", "STATES", "jobs that were in these states in the time asked for"),
        GnuOption("name", "", "NAMES", "jobs of these names"),
        GnuOption("nodelist", "N", "NODES", "jobs that ran on these nodes"),
        GnuOption("group", "g", "GROUPS", "jobs of users of these primary groups", also=("gid",)),
        GnuOption("qos", "q", "NAMES", "all jobs have the QOS normal"),
        GnuOption("reason", "R", "REASONS", "jobs that wait or ended for these reasons"),
        GnuOption("nnodes", "i", "LEAST[-MOST]", "jobs with so many nodes"),
        GnuOption("ncpus", "I", "LEAST[-MOST]", "jobs with so many CPUs"),
        GnuOption("timelimit-min", "k", "TIME", "jobs with this run limit, or the least"),
        GnuOption("timelimit-max", "K", "TIME", "with -k: the most"),
        GnuOption("starttime", "S", "TIME", "jobs that had not ended by then (00:00 of today)"),
        GnuOption("endtime", "E", "TIME", "jobs that were there by then (now)"),
        GnuOption("truncate", "T", help="show no time before -S or after -E"),
        GnuOption("allocations", "X", help="no steps"),
        GnuOption("format", "o", "FIELDS", "what is shown, such as JobID,State%20", variable="SACCT_FORMAT"),
        GnuOption("helpformat", "e", help="the fields of --format"),
        GnuOption("brief", "b", help="JobID, State, ExitCode"),
        GnuOption("long", "l", help="many fields"),
        *PARSABLE,
        GnuOption("delimiter", "", "TEXT", "with -p and -P: stands between fields"),
        GnuOption("units", "", "K|M|G|T|P", "unit of sizes"),
        GnuOption("noconvert", help="sizes as they are kept"),
        GnuOption("json", help="JSON"),
        GnuOption("batch-script", "B", help="with -j: the scripts of the jobs"),
        GnuOption("clusters", "M", "NAMES", "taken: there is one cluster"),
        GnuOption("allclusters", "L", help="taken: there is one cluster"),
        GnuOption("federation", help="taken: there is one cluster"),
        GnuOption("local", help="taken: there is one cluster"),
        GnuOption("duplicates", "D", help="taken: a number is never used twice"),
        GnuOption("use-local-uid", help="taken: numbers of users are this host's"),
        GnuOption("whole-hetjob", "", "yes|no", "taken: there are no heterogeneous jobs", is_optional=True),
        VERBOSE,
        *general(),
        *refused("associations/x", because="there are no associations: -u and -A choose"),
        *refused("wckeys/W", because="there are no wckeys: -A and --name choose"),
        *refused("constraints/C", because="gjobs -l shows the requirement of a job"),
        *refused("completion/c", "file/f", because="all that is known is in one place"),
        *refused("flags/F", because="there is one scheduler"),
        *refused("env-vars", because="the environment of a job is its owner's: it is not shown"),
        *refused("yaml", because="--json is there"),
    ),
    interspersed=True,
    examples=(
        "PROGRAM -X --starttime now-7days",
        "PROGRAM -j 12,13_4 -o JobID,State,ExitCode,Elapsed,MaxRSS,TRESUsageInTot%60",
        "PROGRAM -aXnP -S 2026-11-01 -E now -s F,TO,OOM -o JobIDRaw,User,State,NodeList",
    ),
)
