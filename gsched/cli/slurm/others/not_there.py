"""Commands of Slurm that gsched does not have: each says in one line what to use instead, and fails.

Their names are there so that a script tells why it stops, where `command not found` would not.
"""

from __future__ import annotations

from collections.abc import Mapping

from gsched.base.errors import BadRequest
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program, read_words
from gsched.cli.slurm.slurm_call import fails_as_slurm
from gsched.dialect.slurm.gnu_options import GnuOptions, general

TABLE = GnuOptions(
    summary="not in gsched: called without options it says what to use instead",
    operands="",
    options=(*general(),),
)
INSTEAD: Mapping[str, str] = {
    "sbcast": "gsub -f copies files to the host of a job; glaunch runs cp on each of its hosts",
    "scrontab": "cron runs sbatch on this host",
    "sdiag": "gsched status and the metrics of the master tell how scheduling goes",
    "sreport": "gacct sums up what jobs took, geff how well they used it",
    "strigger": "gsub --notify tells of jobs, gadmin of hosts",
}


@fails_as_slurm
def main(call: Call) -> int:
    """Say what to use instead."""
    if len(call.argv) == 2 and call.argv[1] in ("--help", "-h", "--usage", "--version", "-V"):
        read_words(call, TABLE)
    raise BadRequest(f"there is no {program(call)}: {INSTEAD.get(program(call), 'see docs/from-slurm.md')}")
