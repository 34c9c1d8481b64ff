"""`glslogin` (lslogin): a login shell on another host."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.one_off.remote_task import VERBOSE, WHERE, placed, start_task
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable

TABLE = OptionTable(
    summary="open your login shell on another host that the scheduler chooses; it is an interactive job",
    operands="",
    options=(
        *WHERE,
        VERBOSE,
        Option("L", help="taken for LSF's sake: a shell is always started by the agent of its host"),
        *GENERAL,
    ),
    examples=("PROGRAM", 'PROGRAM -R "select[ngpus>0]"', "PROGRAM -v -m gpu02"),
)


def main(call: Call) -> int:
    """Run `glslogin`: the shell's exit code."""
    options = read_options(call, TABLE)
    if options.rest:
        raise BadRequest(f"{program(call)}: {options.rest[0][:60]}: it takes no words; glsrun runs a command")
    said = "<<Remote login to {host}>>" if options.has("v") else ""
    with connected(call) as session:
        shell = [call.env.get("SHELL") or "/bin/sh", "-l"]
        return start_task(call, session, "Is", placed(options), shell, said=said).to_its_end()
