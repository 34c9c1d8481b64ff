"""`glsplace` (lsplace): the names of hosts that suit a task now, for scripts."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.one_off.group_task import count_of, hosts_that_meet, too_few
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, REQUIREMENT, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable

TABLE = OptionTable(
    summary="print the names of hosts that take jobs and meet a requirement, the best first",
    operands="[HOST ...]   (without a host: of all)",
    options=(
        REQUIREMENT,
        Option("n", "COUNT", "fail unless there are so many; 0: print all", "-n 2"),
        Option("w", "COUNT", "print so many at most; 0: all", "-w 4"),
        Option("L", help="taken for LSF's sake: hosts are chosen in the same way for every task"),
        *GENERAL,
    ),
    interspersed=True,
    examples=("PROGRAM", 'PROGRAM -R "select[ngpus>0] order[mem]" -n 2 -w 4'),
)
TOO_FEW = 1
"""Exit code where there are not enough hosts. Source: lsplace(1), DIAGNOSTICS."""


def main(call: Call) -> int:
    """Run `glsplace`."""
    options = read_options(call, TABLE)
    least = count_of(call, options, "n") if options.has("n") else 1
    most = count_of(call, options, "w") if options.has("w") else least
    if least is not None and most is not None and most < least:
        raise BadRequest(f"{program(call)}: -w {most} is less than -n {least}")
    with connected(call) as session:
        hosts = hosts_that_meet(call, session, options, options.rest)
    if len(hosts) < (least or 1):
        call.error(too_few(call, hosts, least or 1) + "\n")
        return TOO_FEW
    call.write(" ".join(hosts if most is None else hosts[:most]) + "\n")
    return 0
