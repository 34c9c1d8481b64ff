"""`qenable`, `qdisable`, `qstart`, `qstop`: open, close, start and stop queues, for administrators.

Source: the manual pages of these commands of OpenPBS 23.
"""

from __future__ import annotations

from gsched.base.errors import BadRequest, GschedError, NotFound
from gsched.cli.pbs.pbs_call import UNKNOWN_QUEUE, code_of, fails_as_pbs, server_of
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain, program, read_words
from gsched.cli.session.session import Session, connected
from gsched.dialect.pbs.letter_options import LetterOptions

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
