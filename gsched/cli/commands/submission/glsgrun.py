"""`glsgrun` (lsgrun): run a command on each of several hosts, here in the terminal."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.one_off.group_task import count_of, eligible_hosts, run_on_each
from gsched.cli.one_off.remote_task import TERMINALS, VERBOSE, check_may_run_tasks
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, REQUIREMENT, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, Parsed, unsupported

TABLE = OptionTable(
    summary="run a command on each of several hosts, in this terminal; each is an interactive job",
    operands="COMMAND [ARGUMENT ...]",
    options=(
        Option("m", "HOSTS", "on these hosts", '-m "gpu01 gpu02"'),
        Option("f", "FILE", "on the hosts that a file names; # begins a comment", "-f hosts.txt"),
        Option("n", "COUNT", "on so many hosts, the first of gload; 0: on all", "-n 4"),
        REQUIREMENT,
        Option("p", help="on all at once, without -P; what they print is shown host by host"),
        Option("e", help="stop after the first host where it fails"),
        *TERMINALS,
        VERBOSE,
        *GENERAL,
        *unsupported("i", because="the command is given behind the options"),
    ),
    examples=('PROGRAM -m "gpu01 gpu02" uptime', "PROGRAM -p -n 0 nvidia-smi -L"),
)


def main(call: Call) -> int:
    """Run `glsgrun`."""
    options = read_options(call, TABLE)
    if not options.rest:
        raise BadRequest(f"{program(call)}: no command is given")
    if options.has("p") and options.has("e", "S"):
        raise BadRequest(f"{program(call)}: -p cannot be given together with -e and -S")
    names = _names(call, options)
    count = count_of(call, options, "n") if options.has("n") else None
    if not names and not options.has("n", "R"):
        raise BadRequest(f"{program(call)}: -m, -f, -n or -R says on which hosts")
    with connected(call) as session:
        check_may_run_tasks(call, session)
        hosts = eligible_hosts(call, session, options, names, count)
        return run_on_each(call, session, options, hosts, options.rest)


def _names(call: Call, options: Parsed) -> list[str]:
    """The hosts of -m and -f, each once."""
    names = options.last("m").split()
    if options.has("f"):
        path = options.last("f")
        try:
            text = call.read_file(path).decode("utf-8", "replace")
        except OSError as problem:
            raise BadRequest(f"{program(call)}: {path}: {problem.strerror}") from None
        names += [word for line in text.splitlines() for word in line.partition("#")[0].split()[:1]]
    return list(dict.fromkeys(names))
