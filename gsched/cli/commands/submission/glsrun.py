"""`glsrun` (lsrun): run a command on another host, here in the terminal, as if it ran on this one."""

from __future__ import annotations

from gsched.cli.one_off.remote_task import TERMINALS, VERBOSE, WHERE, check_may_run_tasks, kind_of, placed, start_task
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable

TABLE = OptionTable(
    summary="run a command on another host that the scheduler chooses, in this terminal; it is an interactive job",
    operands="COMMAND [ARGUMENT ...]",
    options=(
        *WHERE,
        *TERMINALS,
        VERBOSE,
        Option("L", help="taken for LSF's sake: a task is always started by the agent of its host"),
        *GENERAL,
    ),
    examples=("PROGRAM hostname", 'PROGRAM -R "select[ngpus>0]" nvidia-smi -L', "PROGRAM -S -m gpu02 bash"),
)


def main(call: Call) -> int:
    """Run `glsrun`: the command's exit code."""
    options = read_options(call, TABLE)
    said = "<<Execute on remote host {host}>>" if options.has("v") else ""
    with connected(call) as session:
        check_may_run_tasks(call, session)
        return start_task(call, session, kind_of(options), placed(options), options.rest, said=said).to_its_end()
