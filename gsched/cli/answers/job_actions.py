"""What the commands share that do something to jobs: which jobs are meant, and the answer for each of them.

Source of the texts: bkill, bstop, bresume, brequeue, bswitch, btop, brun; clients search for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from gsched.base.errors import LSF_FAILURE, BadRequest, Unavailable
from gsched.base.ids import array_of, show_job
from gsched.cli.options.job_filters import asked_jobs
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.session.call import Call, Cancelled
from gsched.cli.session.command_line import program
from gsched.cli.session.session import Session, connected
from gsched.dialect.options import Option, Parsed
from gsched.model.views.view import Control, JobFilter
from gsched.wire.messages.control_action import ControlAction

EVERY = 0
"""The job id that stands for all of the caller's jobs."""
FILTER_OPTIONS = ("u", "q", "m", "J", "g", "app", "sla")

Act = Callable[[Session, Sequence[int], JobFilter | None, list[Control]], Sequence[Control]]
"""Does it to these jobs, or where there are none to those that the filter admits. What has been done stands in the list
at any time.
"""


@dataclass(frozen=True, slots=True)
class Said:
    """What is printed for each job; `{job}` is its number, `{error}` what went wrong."""

    done: str
    failed: str = "Job <{job}>: {error}"
    nothing: str = "No unfinished job found"


ALL_JOBS = Option("a", help="all of yours that the options admit, as job number 0 means them")


def meant(call: Call, options: Parsed, words: Sequence[str] | None = None) -> Sequence[str]:
    """The words that name jobs, `words` or all that are no options; 0 where -a stands in their place. Raises BadRequest
    for jobs beside -a.
    """
    words = options.rest if words is None else words
    if not options.has("a"):
        return words
    if list(words) not in ([], ["0"]):
        raise BadRequest(f"{program(call)}: -a means all jobs; name none beside it")
    return (str(EVERY),)


def carry_out(
    call: Call,
    options: Parsed,
    what: ControlAction,
    being: str,
    *,
    states: tuple[str, ...] = (),
    words: Sequence[str] = (),
) -> int:
    """Do it to the jobs that the command line means (`words` in its place); each line says `being`."""

    def act(
        session: Session, job_ids: Sequence[int], wanted: JobFilter | None, done: list[Control]
    ) -> Sequence[Control]:
        return session.client.control(what, job_ids, wanted=wanted, done=done)

    said = Said(f"Job <{{job}}> is being {being}")
    return do_to_jobs(call, options, words or options.rest, act, said, states=states)


def do_to_jobs(
    call: Call,
    options: Parsed,
    words: Sequence[str],
    act: Act,
    said: Said,
    *,
    states: tuple[str, ...] = (),
    finished: bool = False,
) -> int:
    """Do something to the jobs that `words` and the filters mean. Exit code 255 if anything failed.

    Named jobs and elements are taken as they are. 0 means all of the caller's jobs that the filters and `states` admit
    (with `finished` also those that have ended); filters alone mean the newest of them, as for LSF's commands.
    """
    job_ids = parse_job_ids(words)
    if not job_ids and not options.has(*FILTER_OPTIONS):
        raise BadRequest(f"{program(call)}: name a job, or 0 for all of yours (-h lists the options)")
    wanted = asked_jobs(call, options, states=states)
    with connected(call) as session, _told_when_broken_off(call, said) as done:
        if job_ids and EVERY not in job_ids:
            results = act(session, job_ids, None, done)
        elif EVERY in job_ids and not finished and "[" not in wanted.name:
            results = act(session, (), wanted, done)
        else:
            chosen = _listed(session, wanted, finished=finished, newest=not job_ids)
            results = act(session, chosen, None, done) if chosen else []
    return report(call, results, said)


@contextlib.contextmanager
def _told_when_broken_off(call: Call, said: Said) -> Iterator[list[Control]]:
    """A list for what is done; of a command that does not come to its end it is told all the same."""
    done: list[Control] = []
    try:
        yield done
    except (Cancelled, Unavailable) as problem:
        with contextlib.suppress(OSError):  # nobody may be there any more
            if done:
                report(call, done, said)
            if call.cancelled.is_set():
                call.error(f"{program(call)}: interrupted: {_so_far(done)}; the master goes on with the others\n")
                raise Cancelled from None
        if not done:
            raise
        assert isinstance(problem, Unavailable)
        raise Unavailable(
            f"{program(call)}: {problem.text}; {_so_far(done)}, give the command again for the others"
        ) from None


def _so_far(done: Sequence[Control]) -> str:
    succeeded = sum(not each.error for each in done)
    return f"{succeeded} {'job has' if succeeded == 1 else 'jobs have'} been done so far"


def _listed(session: Session, wanted: JobFilter, *, finished: bool, newest: bool) -> list[int]:
    """Numbers of the jobs admitted; with `newest` of those of the last submission alone.

    An array whose elements all count is one number.
    """
    found = [job.job_id for job in session.client.jobs(msgspec.structs.replace(wanted, finished=finished))]
    if newest and found:
        last = max(array_of(job_id) for job_id in found)
        found = [job_id for job_id in found if array_of(job_id) == last]
        if not wanted.host and "[" not in wanted.name:
            return [last]
    return found


def report(call: Call, results: Sequence[Control], said: Said) -> int:
    """A line for each job; its exit code."""
    for result in results:
        job = show_job(result.job_id)
        if result.error:
            call.error(said.failed.format(job=job, error=result.error) + "\n")
        else:
            call.write(said.done.format(job=job) + "\n")
    if not results:
        call.error(said.nothing + "\n")
    return LSF_FAILURE if not results or any(result.error for result in results) else 0
