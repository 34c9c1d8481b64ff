"""`grequeue` (brequeue): end jobs and have them wait again, under the same number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsched.base.ids import array_of, show_job
from gsched.cli.answers.job_actions import Said, do_to_jobs
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import FILTERS, GENERAL, GROUP, read_options
from gsched.cli.session.session import Session
from gsched.dialect.options import Option, OptionTable, unsupported
from gsched.model.views.catalogue import MOST_NAMED, AccountFilter
from gsched.model.views.view import Control, JobFilter
from gsched.wire.messages.control_action import ControlAction

TABLE = OptionTable(
    summary="end jobs and have them wait again, under the same number; without -d, -e, -r, -a: jobs that are running",
    operands="JOB ...   (0: all of yours that the options admit; options alone: the newest of those)",
    options=(
        Option("d", help="jobs that are done"),
        Option("e", help="jobs that exited"),
        Option("r", help="jobs that are running"),
        Option("a", help="all of these"),
        Option("H", help="hold them (PSUSP) until they are resumed"),
        *FILTERS,
        GROUP,
        *GENERAL,
        *unsupported("p", because="-d, -e and -r choose jobs by their state"),
    ),
    interspersed=True,
    examples=("PROGRAM 1153", "PROGRAM -e '1160[2,5]'", "PROGRAM -H -u all -q night 0"),
)

_STARTED = ("RUN", "USUSP", "SSUSP")
_STATES = {"d": ("DONE",), "e": ("EXIT",), "r": _STARTED, "a": (*_STARTED, "DONE", "EXIT")}
SAID = Said("Job <{job}> is being requeued ", "Job <{job}> : {error}", "No matching job found")


LONG_FINISHED = (
    "it finished too long ago to wait again under its number; `ghist -l {job}` tells what it ran, "
    "`gjobs -script {job}` prints its script, gsub submits it anew"
)


def _explained(session: Session, answers: Sequence[Control]) -> Iterator[Control]:
    """The answers, where of jobs that only the history knows that is said."""
    failed = tuple(answer.job_id for answer in answers if answer.error)[:MOST_NAMED]
    known = set[int]()
    if failed:
        in_memory = {job.job_id for job in session.client.jobs(JobFilter(ids=failed, user="all", finished=True))}
        stored = session.client.catalogue.accounts(AccountFilter(ids=failed))
        known = {number for each in stored for number in (each.job_id, array_of(each.job_id))} - in_memory
        known -= {array_of(job_id) for job_id in in_memory}
    for answer in answers:
        is_old = bool(answer.error) and answer.job_id in known
        text = LONG_FINISHED.format(job=show_job(answer.job_id)) if is_old else answer.error
        yield Control(job_id=answer.job_id, error=text)


def main(call: Call) -> int:
    """Run `grequeue`."""
    options = read_options(call, TABLE)
    chosen = [state for name in _STATES if options.has(name) for state in _STATES[name]]
    states = tuple(dict.fromkeys(chosen)) or _STARTED

    def act(
        session: Session, job_ids: Sequence[int], wanted: JobFilter | None, done: list[Control]
    ) -> Sequence[Control]:
        what = ControlAction(action="requeue", hold=options.has("H"), states=states)
        answers = session.client.control(what, job_ids, wanted=wanted, done=done)
        return [*_explained(session, answers)]

    return do_to_jobs(call, options, options.rest, act, SAID, states=states, finished=True)
