"""bsub's options as a table: what gsub takes, and by name what it refuses. Source: bsub(1) of LSF 10.1."""

from __future__ import annotations

from gsched.dialect.options import Option, OptionTable, unsupported

_GPU_HINT = 'is not supported yet; ask for GPUs with -R, as in -R "select[ngpus>0] rusage[ngpus_excl_p=1]"'

BSUB = OptionTable(
    summary="submit a job; it runs when the resources it asks for are free",
    operands="[command [argument ...]]   (without a command, a script is read from standard input)",
    options=(
        Option("J", "NAME", "name of the job", '-J "train resnet"'),
        Option("q", "QUEUE", "queue to submit to", "-q normal"),
        Option("n", "SLOTS", "number of job slots", "-n 4"),
        Option("R", "REQUIREMENT", "resources needed; several -R add up", '-R "rusage[ngpus_excl_p=1]"'),
        Option("m", "HOSTS", "run only on these hosts", '-m "gpu01 gpu02"'),
        Option("W", "[HOURS:]MINUTES", "run limit; the job is killed when it is reached", "-W 1:30"),
        Option("o", "FILE", "append output to FILE; %J is the job's number, DIR/ means DIR/NUMBER.out", "-o log.%J"),
        Option("oo", "FILE", "the same, overwriting FILE"),
        Option("e", "FILE", "append error output to FILE; without it, it goes where -o says", "-e err.%J"),
        Option("eo", "FILE", "the same, overwriting FILE"),
        Option("i", "FILE", "standard input of the job"),
        Option("cwd", "DIR", "directory the job runs in", "-cwd /data/run1"),
        Option("P", "PROJECT", "project the job belongs to"),
        Option(
            "env", "LIST", "variables the job gets: all, none, NAME, NAME=VALUE, ~NAME", '-env "all, SEED=1, ~DISPLAY"'
        ),
        Option("K", help="wait for the end of the job and exit with its exit code"),
        Option("H", help="hold the job until it is resumed"),
        Option("h", help="this text"),
        Option("-help", help="this text"),
        Option("V", help="version"),
        Option("gpu", "SPEC", refused=_GPU_HINT),
        *unsupported(
            *("a", "alloc_flags", "app", "ar", "b", "B", "C", "c", "clusters", "cn_cu", "cn_mem", "core_isolation"),
            *("csm", "D", "data", "datachk", "datagrp", "E", "Ep", "eptl", "ext", "F", "f", "freq", "G", "g", "hl"),
            *("hostfile", "I", "Ip", "Is", "IS", "ISp", "ISs", "IX", "is", "Jd", "jobaff", "jsdl", "jsdl_strict"),
            *("jsm", "json", "k", "L", "Lp", "ln_mem", "ln_slots", "M", "mig", "N", "Ne", "network", "nnodes"),
            *("notify", "outdir", "p", "pack", "ptl", "Q", "r", "rcacct", "rn", "rnc", "S", "s", "sla", "smt", "sp"),
            *("stage", "step_cgroup", "T", "t", "ti", "tty", "U", "u", "ul", "v", "w", "wa", "We", "wt", "x", "XF"),
            *("user", "yaml", "Zs"),
        ),
    ),
    examples=(
        "PROGRAM -n 4 -o log.%J ./train.sh --epochs 10",
        'PROGRAM -R "select[ngpus>0] rusage[ngpus_excl_p=1]" python train.py',
        "PROGRAM < job.sh      (options may stand in job.sh on lines that begin with #BSUB)",
    ),
)
