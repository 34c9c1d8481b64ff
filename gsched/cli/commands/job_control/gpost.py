"""`gpost` (bpost): put a message into one of a job's message boxes."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.answers.job_actions import Said, do_to_jobs
from gsched.cli.options.message_box import box_number
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import FILTERS, GENERAL, GROUP, program, read_options
from gsched.dialect.options import Option, OptionTable, unsupported
from gsched.wire.messages.control_action import ControlAction

TABLE = OptionTable(
    summary="put a message into one of a job's message boxes, where gread, gjobs -l and ghist -l show it",
    operands="JOB ...   (options alone: the newest of your jobs that they admit)",
    options=(
        Option("d", "TEXT", "the message", "-d 'epoch 12 of 90'"),
        Option("i", "BOX", "message box, 0 to 128 (0); the scheduler tells a job's GPUs in box 0", "-i 1"),
        *FILTERS,
        GROUP,
        *GENERAL,
        Option(
            "a", "FILE", "a file that goes with it, for gread -a; all of a job's hold 16 MiB at most", "-a loss.png"
        ),
        *unsupported("N", because="gsub --notify tells of jobs"),
    ),
    interspersed=True,
    examples=("PROGRAM -i 1 -d 'epoch 12 of 90' 1153",),
)
UNSAID = "no description"


def main(call: Call) -> int:
    """Run `gpost`."""
    options = read_options(call, TABLE)
    box = box_number(program(call), options.last("i", "0"))
    attachment = _content(call, options.last("a")) if options.has("a") else None
    what = ControlAction(action="post", text=options.last("d", UNSAID), box=box, attachment=attachment)
    return do_to_jobs(
        call,
        options,
        options.rest,
        lambda session, job_ids, wanted, done: session.client.control(what, job_ids, wanted=wanted, done=done),
        Said("Message posted to job <{job}>", nothing="No matching job found"),
    )


def _content(call: Call, path: str) -> bytes:
    try:
        return call.read_file(path)
    except OSError as problem:
        raise BadRequest(f"{program(call)}: -a {path}: {problem.strerror}") from None
