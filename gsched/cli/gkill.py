"""`gkill` (bkill): end jobs, or send them a signal."""

from __future__ import annotations

import signal as signals

from gsched.base.errors import BadRequest
from gsched.cli.call import Call
from gsched.cli.command import FILTERS, GENERAL, GROUP, program, read_options
from gsched.cli.control import carry_out
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="end jobs, or send them a signal",
    operands="JOB ...   (0: all of yours that the options admit; options alone: the newest of those)",
    options=(
        Option("s", "SIGNAL", "send this signal instead, by name or number", "-s USR1"),
        Option("r", help="end at once: KILL, without the chance to clean up that INT and TERM give"),
        Option("l", help="list the names of the signals"),
        *FILTERS,
        GROUP,
        *GENERAL,
        *unsupported("a", "app", "b", "C", "cname", "d", "sla", "stat"),
    ),
    interspersed=True,
    examples=("PROGRAM 1153", "PROGRAM '1160[3,5-7]'", "PROGRAM -s USR1 1153 1154", "PROGRAM -J 'test*' 0"),
)

_ENDING = frozenset({signals.SIGKILL, signals.SIGTERM, signals.SIGINT})
_STOPPING = frozenset({signals.SIGSTOP, signals.SIGTSTP})


def main(call: Call) -> int:
    """Run `gkill`."""
    options = read_options(call, TABLE)
    if options.has("l"):
        call.write(" ".join(each.name.removeprefix("SIG") for each in signals.Signals) + "\n")
        return 0
    if options.has("r") and options.has("s"):
        raise BadRequest(f"{program(call)}: -r and -s cannot be given together")
    if options.has("r"):
        return carry_out(call, options, "signal", "terminated", signal=signals.SIGKILL)
    if not options.has("s"):
        return carry_out(call, options, "kill", "terminated")
    number = _signal(options.last("s"))
    # Stopping and continuing change a job's state, so they are not merely passed on.
    if number in _STOPPING:
        return carry_out(call, options, "stop", "stopped")
    if number == signals.SIGCONT:
        return carry_out(call, options, "resume", "resumed")
    return carry_out(call, options, "signal", "terminated" if number in _ENDING else "signaled", signal=number)


def _signal(text: str) -> int:
    """Number of a signal given as `9`, `KILL` or `SIGKILL`. Raises BadRequest."""
    try:
        if text.isascii() and text.isdigit():
            return int(signals.Signals(int(text[:9])))
        return int(signals.Signals["SIG" + text.upper().removeprefix("SIG")])
    except (ValueError, KeyError):
        raise BadRequest(f"{text}: Signal not supported (-l lists the names)") from None
