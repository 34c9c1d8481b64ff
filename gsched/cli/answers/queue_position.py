"""What `gtop` and `gbot` share: they move a pending job to a place counted from the top or the bottom of its queue."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.answers.job_actions import EVERY, Said, report
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable
from gsched.wire.messages.control_action import ControlAction

FARTHEST = 2_000_000_000


def table(where: str) -> OptionTable:
    """The options of the command that counts from there."""
    return OptionTable(
        summary=f"move a pending job to the {where} of its queue, or to a place counted from there",
        operands="JOB [POSITION]   (administrators move it among all jobs, others among their own)",
        options=(
            Option("u", help="for administrators: count among the jobs of the job's user, as it does for others"),
            *GENERAL,
        ),
        interspersed=True,
        examples=("PROGRAM 1153", "PROGRAM '1160[7]' 2"),
    )


def move(call: Call, own: OptionTable, action: str, where: str) -> int:
    """Run the command, whose options are `own`. `action` is the master's word for it."""
    options = read_options(call, own)
    if not 1 <= len(options.rest) <= 2:
        raise BadRequest(f"{program(call)}: name one job, and perhaps a position (-h shows how)")
    job_ids = parse_job_ids(options.rest[:1])
    if len(job_ids) != 1 or EVERY in job_ids:
        raise BadRequest(f"{program(call)}: name one job")
    position = _position(options.rest[1]) if len(options.rest) == 2 else 1
    what = ControlAction(action=action, position=position, among_own=options.has("u"))
    with connected(call) as session:
        results = session.client.control(what, job_ids)
    return report(call, results, Said(f"Job <{{job}}> has been moved to position {position} from {where}."))


def _position(text: str) -> int:
    """A place from 1. Raises BadRequest."""
    if text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= FARTHEST:
        return int(text)
    raise BadRequest(f"{text}: Position value must be a positive integer")
