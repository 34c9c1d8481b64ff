"""`gload` (lsload): load indices of the hosts, the least loaded first."""

from __future__ import annotations

from gsched.cli.host_answers.load_listing import check_load_options, show_load
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import (
    CHOSEN_FIELDS,
    GENERAL,
    REQUIREMENT,
    read_options,
)
from gsched.cli.session.watch import REPORT_S, WATCH, shown
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="show the load of the hosts, the least loaded first",
    operands="[HOST ...]",
    options=(
        Option("w", help="cut no names"),
        Option("l", help="all load indices, also those of elims"),
        Option("I", "INDICES", "these load indices only", "-I r1m:ut:mem"),
        Option("n", "COUNT", "so many hosts at most", "-n 4"),
        REQUIREMENT,
        Option("E", help="CPU run queues for each CPU of the host"),
        Option("N", help="the same, divided by the host's CPU factor"),
        Option("gpu", help="how many GPUs each host has, and how busy those are that jobs share"),
        Option("gpuload", help="a line per GPU: mode, temperature, ECC errors, utilization, memory, health"),
        Option("s", help="resources with their values; names behind it are those of resources"),
        Option("a", help="taken for LSF's sake: all hosts are shown anyway"),
        Option("noheader", help="no heading"),
        *CHOSEN_FIELDS,
        WATCH,
        *GENERAL,
        *unsupported("cname"),
    ),
    interspersed=True,
    examples=(
        "PROGRAM",
        "PROGRAM gpu01 gpu02",
        'PROGRAM -R "select[ngpus>0] order[mem]" -n 1',
        'PROGRAM -json -o "*"',
    ),
)


def main(call: Call) -> int:
    """Run `gload`."""
    options = read_options(call, TABLE)
    check_load_options(call, options)
    return shown(call, options, lambda session: show_load(call, options, session), REPORT_S)
