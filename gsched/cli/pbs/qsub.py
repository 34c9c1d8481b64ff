"""`qsub`: submit a job as PBS's command of that name does.

Source: qsub(1B) of OpenPBS 23.
"""

from __future__ import annotations

import contextlib

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest, Conflict, NotFound, PermissionDenied, ResourceExhausted
from gsched.base.ids import new_token
from gsched.cli.commands.submission.gsub import submission_of
from gsched.cli.options.submission_context import value_context
from gsched.cli.pbs.pbs_call import PbsRefusal, code_of, fails_as_pbs, max_priority, server_of
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain, program, read_words
from gsched.cli.session.session import Session, connected
from gsched.cli.slurm.slurm_call import elements_of
from gsched.cli.submit.interactive import TerminalSession
from gsched.dialect.pbs.pbs_values import show_job
from gsched.dialect.pbs.qsub import QsubSubmission, read_qsub
from gsched.dialect.pbs.qsub_fields import QsubReading
from gsched.dialect.pbs.qsub_options import QSUB
from gsched.model.views.view import Submitted

TABLE = QSUB
_REFUSALS = (BadRequest, Conflict, NotFound, PermissionDenied, ResourceExhausted)


@fails_as_pbs
def main(call: Call) -> int:
    """Run `qsub`."""
    read_words(call, TABLE)
    with connected(call) as session:
        server = server_of(session)
        asked = _asked(call, session, server)
        if asked.parsed.is_interactive:
            call.take_over()
        if asked.parsed.is_interactive and not (call.stdin_is_tty and call.stdout_is_tty):
            raise PbsRefusal("standard input and output must be a terminal for interactive job submission", 1)
        job = _submit(call, session, asked.with_array_mail())
        shown = show_job(job.job_id, None, server, is_array=bool(asked.parsed.spec.indices))
        for text in job.warnings:
            complain(call, f"warning: {sentence(text)}")
        if asked.parsed.is_interactive:
            return _sit_at(call, session, job.job_id, shown)
        if not asked.words.has("z"):
            call.write(f"{shown}\n")
        if not asked.parsed.wait:
            return 0
        call.flush()
        return session.end_of(job.job_id).exit_code


def _asked(call: Call, session: Session, server: str) -> QsubSubmission:
    return read_qsub(
        call.argv[1:],
        read_stdin=call.read_stdin,
        read_file=call.read_file,
        env=call.env,
        reading=reading_of(call, session, server),
    )


def reading_of(call: Call, session: Session, server: str) -> QsubReading:
    """What the values of options are read against."""
    return QsubReading(
        around=value_context(call),
        user=call.user,
        host=call.hostname,
        server=server,
        element_of=lambda number, indices: ",".join(map(str, elements_of(session, number, indices))),
        max_priority=lambda: max_priority(session),
    )


def _submit(call: Call, session: Session, asked: QsubSubmission) -> Submitted:
    submission = submission_of(call, asked.parsed)
    try:
        return session.client.submit(submission, token=call.token or new_token())
    except _REFUSALS as problem:
        raise PbsRefusal(asked.refused(problem.about, problem.text).rstrip("."), code_of(problem)) from None


def _sit_at(call: Call, session: Session, job_id: int, shown: str) -> int:
    call.write(f"{program(call)}: waiting for job {shown} to start\n")
    call.flush()
    with contextlib.ExitStack() as after:
        after.callback(call.write, f"\n{program(call)}: job {shown} completed\n")
        return TerminalSession(call, session, job_id, "Is", has_input=True).to_its_end()
