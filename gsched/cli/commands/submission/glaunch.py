"""`glaunch` (blaunch): its options and its help. What it does is in gsched.app.glaunch, which needs none of this."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.dialect.launching.launch_words import PROFILE_OPTIONS
from gsched.dialect.options import Option, OptionTable

TABLE = OptionTable(
    summary="inside a job: run a command on the job's hosts, within the job, and show what it prints",
    operands="[HOST] COMMAND [ARGUMENT ...]   (without a host: once for each slot of the job)",
    options=(
        Option("n", help="the command's standard input is /dev/null"),
        Option("u", "FILE", "on the hosts that this file names, one a line", "-u hosts.txt"),
        Option("z", "HOSTS", "on these hosts", '-z "gpu01 gpu02"'),
        Option("no-shell", help="execute the words as they are; else they are a line for /bin/sh, as rsh has it"),
        Option("use-login-shell", help="by the user's login shell, which reads its login files"),
        *PROFILE_OPTIONS,
        *GENERAL,
    ),
    interspersed=False,
    examples=(
        "PROGRAM hostname",
        "PROGRAM gpu02 nvidia-smi -L",
        'PROGRAM -z "gpu01 gpu02" ./prepare.sh',
        "PROGRAM --launch torch python train.py      (a profile comes first; the words are executed)",
        "PROGRAM --torch --max-restarts 3 python train.py",
    ),
)


def main(call: Call) -> int:
    """Answer -h and -V."""
    read_options(call, TABLE)
    raise BadRequest(f"{program(call)}: works only as a command, inside a job")
