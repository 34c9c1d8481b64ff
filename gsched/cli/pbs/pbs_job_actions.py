"""What PBS's commands do to jobs, one operand after the other: the exit code is that of the last that went wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gsched.base.errors import BadRequest, GschedError, PermissionDenied
from gsched.cli.pbs.pbs_call import (
    BAD_STATE,
    FINISHED,
    NOT_ALLOWED,
    PbsRefusal,
    code_about,
    code_of,
    ids_of,
    server_of,
    unknown_job,
)
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain
from gsched.cli.session.session import Session
from gsched.dialect.pbs.pbs_values import parse_job
from gsched.dialect.pbs.pbs_values import show_job as named
from gsched.model.jobs.job import FINISHED as ENDED
from gsched.model.views.view import Control, JobFilter, JobView
from gsched.wire.messages.control_action import ControlAction

Action = Callable[[Session, Sequence[int], Sequence[JobView]], Sequence[Control]]
"""Does it to jobs of these numbers; the views are what is known of them."""


def do_to_all(call: Call, session: Session, words: Sequence[str], action: Action, *, ended_too: bool = False) -> int:
    """Do it to the jobs that `words` name. `ended_too`: jobs that have ended are no mistake."""
    server = server_of(session)
    code = 0
    for word in words:
        try:
            _do(session, word, server, action, ended_too)
        except GschedError as problem:
            complain(call, problem.text)
            code = code_of(problem)
    return code


def controlled(what: ControlAction) -> Action:
    """The action of a control."""

    def action(session: Session, ids: Sequence[int], jobs: Sequence[JobView]) -> Sequence[Control]:
        del jobs
        return session.client.control(what, ids)

    return action


def _do(session: Session, word: str, server: str, action: Action, ended_too: bool) -> None:
    """Raises GschedError for what went wrong."""
    ids = ids_of(session, word, server)
    jobs = known_jobs(session, ids)
    if not jobs:
        raise unknown_job(word, server)
    if all(job.state in ENDED for job in jobs):
        if ended_too:
            return
        raise PbsRefusal(f"Job has finished {_shown(word, server)}", FINISHED)
    try:
        failed = next((each for each in action(session, ids, jobs) if each.error), None)
    except PbsRefusal as problem:
        raise PbsRefusal(f"{problem.text} {_shown(word, server)}", problem.exit_code) from None
    if failed is not None:
        raise PbsRefusal(f"{failed.error.rstrip('.')} {_shown(word, server)}", _code(failed))


def _code(failed: Control) -> int:
    """PBS's number of why it was not done: not in this state of the job, where nothing closer is known."""
    if failed.refused_as == PermissionDenied.status:
        return NOT_ALLOWED
    if failed.refused_as == BadRequest.status:
        return code_about(failed.about)
    return BAD_STATE


def known_jobs(session: Session, ids: Sequence[int]) -> list[JobView]:
    """Those of these numbers that the master knows."""
    try:
        return list(session.client.jobs(JobFilter(ids=tuple(ids), user="all", finished=True)))
    except GschedError as problem:
        if problem.status == "NOT_FOUND":
            return []
        raise


def _shown(word: str, server: str) -> str:
    found = parse_job(word)
    brackets = f"[{found.indices[:60]}]" if found.indices is not None else ""
    return named(found.number, None, server).replace(".", f"{brackets}.", 1)
