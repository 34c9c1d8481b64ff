"""`qenable`, `qdisable`, `qstart`, `qstop`: open, close, start and stop queues, for administrators. `qorder`, `qrun`:
two jobs that wait change places in a queue, and one starts at once where an administrator says.

Source: the manual pages of these commands of OpenPBS 23, and of Torque 6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gsched.base.errors import BadRequest, GschedError, NotFound
from gsched.cli.pbs.pbs_call import (
    BAD_STATE,
    UNKNOWN_QUEUE,
    PbsRefusal,
    code_of,
    fails_as_pbs,
    ids_of,
    read_jobs,
    server_of,
    unknown_job,
)
from gsched.cli.pbs.pbs_job_actions import controlled, do_to_all, known_jobs
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain, program, read_words
from gsched.cli.session.session import Session, connected
from gsched.dialect.pbs.letter_options import LetterOptions, letter, refused_letters
from gsched.wire.messages.control_action import ControlAction

_HOSTS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-]*(?:\+[A-Za-z0-9][A-Za-z0-9.\-]*)*", re.ASCII)

QORDER = LetterOptions(
    summary="have two jobs that wait change places in the order of their queue, as PBS's qorder does",
    operands="JOB JOB",
    options=(),
    examples=("PROGRAM 12 15",),
)
QRUN = LetterOptions(
    summary="start jobs that wait at once, whatever order, limits and loads say, as PBS's qrun does (administrators)",
    operands="JOB ...",
    options=(
        letter("H", "HOST[+HOST...]", "where, for a job of several hosts all of them; without it where there is room"),
        letter("a", "", "taken: the command does not wait until the job runs"),
        *refused_letters("c", "there are no checkpoints"),
    ),
    examples=("PROGRAM 12", "PROGRAM -H gpu01+gpu02 12"),
)
_ACTIONS = {
    "qenable": ("open", "let queues take jobs"),
    "qdisable": ("close", "let queues take no jobs"),
    "qstart": ("activate", "let jobs of queues start"),
    "qstop": ("inactivate", "let no job of queues start"),
}


@fails_as_pbs
def main(call: Call) -> int:
    """Run whichever of the commands it is called by."""
    name = program(call)
    if name in _OF_JOBS:
        return _OF_JOBS[name](call)
    action, summary = _ACTIONS[name]
    table = LetterOptions(f"{summary}, as PBS's {name} does", "QUEUE ...", (), (f"PROGRAM {'night'}",))
    words = read_words(call, table)
    if not words.rest:
        raise BadRequest(f"usage: {name} QUEUE ...")
    code = 0
    with connected(call) as session:
        server = server_of(session)
        for word in words.rest:
            try:
                _control(session, action, word, server)
            except NotFound:
                complain(call, f"Unknown queue {word[:60]}")
                code = UNKNOWN_QUEUE
            except GschedError as problem:
                complain(call, problem.text)
                code = code_of(problem)
    return code


def _control(session: Session, action: str, word: str, server: str) -> None:
    """Raises GschedError for what went wrong."""
    queue, at, host = word.partition("@")
    if at and host not in (server, server.partition(".")[0]):
        raise BadRequest(f"'@{host[:60]}': there is one server, {server}")
    if all(each.name != queue for each in session.client.queues()):
        raise NotFound(queue)
    failed = next((each.error for each in session.client.queue_control(action, [queue]) if each.error), "")
    if failed:
        raise BadRequest(f"{queue}: {failed}")


def _qorder(call: Call) -> int:
    words = read_words(call, QORDER)
    if len(words.rest) != 2:
        raise BadRequest("usage: qorder JOB JOB")
    with connected(call) as session:
        server = server_of(session)
        numbers = [ids_of(session, word, server) for word in words.rest]
        for word, each in zip(words.rest, numbers, strict=True):
            if len(each) != 1:
                raise BadRequest(f"illegally formed job identifier: {word[:60]}: one job, element or array each")
            if not known_jobs(session, each):
                raise unknown_job(word, server)
        results = session.client.control(ControlAction(action="exchange"), [each[0] for each in numbers])
        failed = next((each.error for each in results if each.error), "")
        if failed:
            raise PbsRefusal(f"{failed.rstrip('.')} {' '.join(words.rest)[:60]}", BAD_STATE)
    return 0


def _qrun(call: Call) -> int:
    words = read_jobs(call, QRUN)
    hosts = words.value("H")
    if words.has("H") and not _HOSTS.fullmatch(hosts):
        raise BadRequest(
            f"illegal -H value: '{hosts[:60]}': names of hosts with + between; a job has what it asked for"
        )
    with connected(call) as session:
        what = ControlAction(action="run", hosts=tuple(filter(None, hosts.split("+"))))
        return do_to_all(call, session, words.rest, controlled(what))


_OF_JOBS: Mapping[str, Callable[[Call], int]] = {"qorder": _qorder, "qrun": _qrun}
