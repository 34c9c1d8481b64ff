"""`gresume` (bresume): let suspended jobs go on; a held one becomes pending."""

from __future__ import annotations

from gsched.cli.answers.job_actions import ALL_JOBS, carry_out, meant
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import APPLICATION, FILTERS, GENERAL, GROUP, SERVICE_CLASS, read_options
from gsched.dialect.options import FILTERED, Option, OptionTable, unsupported
from gsched.wire.messages.control_action import ControlAction

TABLE = OptionTable(
    summary="let suspended jobs go on; one that was held becomes pending",
    operands="JOB ...   (0: all of yours that the options admit; options alone: the newest of those)",
    options=(
        Option("C", "TEXT", "why, for the jobs' histories", "-C 'wrong data'"),
        ALL_JOBS,
        *FILTERS,
        GROUP,
        APPLICATION,
        SERVICE_CLASS,
        *GENERAL,
        *unsupported("d", because=FILTERED),
    ),
    interspersed=True,
    examples=("PROGRAM 1153", "PROGRAM '1160[3,5-7]'", "PROGRAM 0"),
)


def main(call: Call) -> int:
    """Run `gresume`."""
    options = read_options(call, TABLE)
    what = ControlAction(action="resume", text=options.last("C"))
    return carry_out(call, options, what, "resumed", states=("PSUSP", "USUSP", "SSUSP"), words=meant(call, options))
