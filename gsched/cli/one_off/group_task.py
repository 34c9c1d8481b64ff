"""The hosts of an lsgrun, and its tasks: one after the other, or at once.

Tasks that run at once are shown one after the other as well, each whole, so that what they print is not mixed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from gsched.base.errors import BadRequest
from gsched.cli.host_answers.load_listing import best_first
from gsched.cli.one_off.remote_task import kind_of, start_task
from gsched.cli.options.size_units import requirement_in
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program
from gsched.cli.session.session import Session
from gsched.dialect.options import Parsed

OK = "ok"
"""What a host says that takes jobs."""


def eligible_hosts(call: Call, session: Session, options: Parsed, names: Sequence[str], count: int | None) -> list[str]:
    """`count` hosts of those named (of all, where none is) that meet -R and take jobs, in its order; None: all of them.

    Raises BadRequest where there are fewer, and NotFound for a host that there is none.
    """
    found = hosts_that_meet(call, session, options, names)
    if len(found) < (count or 1):
        raise BadRequest(too_few(call, found, count or 1))
    return found if count is None else found[:count]


def hosts_that_meet(call: Call, session: Session, options: Parsed, names: Sequence[str]) -> list[str]:
    """All of those named (of all, where none is) that meet -R and take jobs, in its order.

    Raises NotFound for a host that there is none.
    """
    requirement = requirement_in(call, options.last("R"))
    views = best_first(session.client.hosts(names, requirement=requirement), requirement)
    return [view.name for view in views if view.status == OK]


def too_few(call: Call, found: Sequence[str], least: int) -> str:
    """What is said where there are fewer hosts than `least`."""
    return f"{program(call)}: Not enough host(s) currently eligible: {len(found)} of {least}"


def run_on_each(call: Call, session: Session, options: Parsed, hosts: Sequence[str], command: Sequence[str]) -> int:
    """The exit code: 0 if all tasks end with 0, else that of the first that does not."""
    said = f"<<Execute {_braced(command[0])} on remote host {{host}}>>" if options.has("v") else ""
    kind = "I" if options.has("p") else kind_of(options)  # at once they have no terminal, as in LSF
    start = partial(start_task, call, session, kind, command=command, said=said)
    if options.has("p"):
        tasks = [start(["-m", host]) for host in hosts]
        for task in tasks[1:]:  # each has its command, though it is not shown yet
            threading.Thread(target=task.be_there, name="gsched-task", daemon=True).start()
        codes = [task.to_its_end() for task in tasks]
        return next((code for code in codes if code), 0)
    worst = 0
    for host in hosts:
        code = start(["-m", host]).to_its_end()
        worst = worst or code
        if code and options.has("e"):
            call.error(f"{program(call)}: the task on host {host} has failed; no other is started\n")
            return code
    return worst


def count_of(call: Call, options: Parsed, name: str) -> int | None:
    """A number of hosts; None: all of them (0). Raises BadRequest."""
    text = options.last(name)
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise BadRequest(f"{program(call)}: -{name} {text[:20]}: not a number of hosts")
    return int(text) or None


def _braced(text: str) -> str:
    """`text` as part of a format."""
    return text.replace("{", "{{").replace("}", "}}")
