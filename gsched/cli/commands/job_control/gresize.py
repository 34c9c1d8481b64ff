"""`gresize` (bresize): give slots of running jobs back, ask for more, or for no more. Source: bresize(1)."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.base.errors import BadRequest
from gsched.cli.answers.job_actions import EVERY, Said, report
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported
from gsched.wire.messages.control_action import ControlAction

TABLE = OptionTable(
    summary="give slots of running jobs back, ask for more, or for no more",
    operands=(
        "release 'all | [SLOTS*]HOST ...' JOB ...\n       PROGRAM request SLOTS JOB ...\n       PROGRAM cancel JOB ..."
    ),
    options=(
        Option("c", help="with release: ask for no more slots, either"),
        *GENERAL,
        *unsupported("rnc", "rncn", because="no command is run for it; gjobs -o alloc_slot tells the slots"),
    ),
    interspersed=True,
    examples=("PROGRAM release '2*gpu01 gpu02' 1153", "PROGRAM release -c all 1153", "PROGRAM request 4 1153"),
)

WORDS = {
    "release": Said("Job resize request is submitted: slots of job <{job}> are released."),
    "request": Said("Job resize request is submitted: job <{job}> gets more slots when there are any."),
    "cancel": Said("Job <{job}> asks for no more slots."),
}
"""Word -> what is said of each job."""


def main(call: Call) -> int:
    """Run `gresize`."""
    options = read_options(call, TABLE)
    word, *rest = options.rest or [""]
    if word not in WORDS:
        raise BadRequest(f"{program(call)}: say release, request or cancel (-h shows how)")
    if options.has("c") and word != "release":
        raise BadRequest(f"{program(call)}: -c goes with release")
    what, words = _asked(call, word, rest, cancels=options.has("c"))
    job_ids = parse_job_ids(words)
    if not job_ids or EVERY in job_ids:
        raise BadRequest(f"{program(call)}: name a job")
    with connected(call) as session:
        results = session.client.control(what, job_ids)
    return report(call, results, WORDS[word])


def _asked(call: Call, word: str, rest: Sequence[str], *, cancels: bool) -> tuple[ControlAction, Sequence[str]]:
    """What is asked of the master, and the words that name jobs. Raises BadRequest."""
    if word == "cancel":
        return ControlAction(action="request", position=0), rest
    if not rest:
        raise BadRequest(f"{program(call)}: {word} what? (-h shows how)")
    if word == "release":
        return ControlAction(action="release", hosts=tuple(rest[0].split()), cancels=cancels), rest[1:]
    text = rest[0]
    if not (text.isascii() and text.isdigit() and 0 < int(text[:12]) < 2**31):
        raise BadRequest(f"{program(call)}: {text[:60]}: the number of slots must be a positive integer")
    return ControlAction(action="request", position=int(text)), rest[1:]
