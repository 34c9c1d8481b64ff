"""`gread` (bread): the messages in a job's message boxes."""

from __future__ import annotations

import os

from gsched.base.errors import LSF_FAILURE, BadRequest, NotFound
from gsched.base.ids import show_job
from gsched.cli.answers.job_actions import FILTER_OPTIONS
from gsched.cli.options.job_filters import asked_jobs
from gsched.cli.options.job_selection import not_found, parse_job_ids
from gsched.cli.options.message_box import box_number
from gsched.cli.render.jobs.jobs_long import message_table
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import FILTERS, GENERAL, GROUP, program, read_options
from gsched.cli.session.master_links import serves_others
from gsched.cli.session.session import Session, connected
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.options import Option, OptionTable, unsupported
from gsched.model.views.view import JobView

TABLE = OptionTable(
    summary="show the messages in a job's message boxes",
    operands="[JOB]   (options alone: the newest of your jobs that they admit)",
    options=(
        Option("i", "BOX", "only this message box", "-i 1"),
        Option("w", help="do not cut the messages"),
        Option("a", "FILE", "write what goes with the message (of box 0 without -i) to this file", "-a loss.png"),
        *FILTERS,
        GROUP,
        *GENERAL,
        *unsupported("N", because="messages are read one by one, with -i"),
    ),
    interspersed=True,
    examples=("PROGRAM 1153", "PROGRAM -i 1 1153"),
)

NOTHING_ATTACHED = 66
"""Exit code of -a where the message box has no attachment, for programs that go on then; any other failure has
LSF_FAILURE. Source: EX_NOINPUT of sysexits.h.
"""


def main(call: Call) -> int:
    """Run `gread`."""
    options = read_options(call, TABLE)
    if options.has("a"):
        call.take_over()  # only the caller's own process writes files of his
    job_ids = parse_job_ids(options.rest)
    if len(job_ids) > 1 or 0 in job_ids or (not job_ids and not options.has(*FILTER_OPTIONS)):
        raise BadRequest(f"{program(call)}: name one job")
    box = box_number(program(call), options.last("i", "0")) if options.has("i") or options.has("a") else None
    with connected(call) as session:
        view = max(session.client.jobs(asked_jobs(call, options, job_ids)), key=lambda each: each.job_id, default=None)
        if view is not None and box is not None and options.has("a"):
            content = _attachment(call, session, view, box)
            if content is None:
                return NOTHING_ATTACHED
            _write(call, options.last("a"), content)
    if view is None:
        call.error(not_found(job_ids) or "No matching job found\n")
        return LSF_FAILURE
    messages = [each for each in view.messages if box is None or each.box == box]
    if not messages:
        where = "" if box is None else f" in message box {box}"
        call.error(f"Job <{show_job(view.job_id)}>: No message available{where}\n")
        return LSF_FAILURE
    call.write(message_table(messages, zone_of(call.env), wide=options.has("w")))
    return 0


def _attachment(call: Call, session: Session, job: JobView, box: int) -> bytes | None:
    """What is attached to the message in that box; None, with a line, where nothing is. Raises GschedError."""
    try:
        return session.client.attachment(job.job_id, box)
    except NotFound as missing:
        if any(each.attachment for each in job.messages if each.box == box):
            raise  # there is one, which the store has lost
        call.error(f"{missing.text}\n")
        return None


def _write(call: Call, path: str, content: bytes) -> None:
    if serves_others():
        raise BadRequest(f"{program(call)}: -a: the door of this host writes no files; GSCHED_DOOR=off does without it")
    try:
        with open(os.path.join(call.cwd, path), "wb", opener=_at_once) as file:
            os.set_blocking(file.fileno(), True)
            file.write(content)
    except OSError as problem:
        raise BadRequest(f"{program(call)}: -a {path}: {problem.strerror}") from None


def _at_once(path: str, flags: int) -> int:
    """Open without waiting: for who reads a named pipe one could wait for ever, and Ctrl-C would not end it."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
