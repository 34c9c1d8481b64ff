"""`gswitch` (bswitch): move jobs to another queue, where they wait in the order of their submission."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.base.errors import BadRequest
from gsched.cli.answers.job_actions import ALL_JOBS, Said, do_to_jobs, meant
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import APPLICATION, FILTERS, GENERAL, GROUP, SERVICE_CLASS, program, read_options
from gsched.cli.session.session import Session
from gsched.dialect.options import OptionTable
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import Control, JobFilter

TABLE = OptionTable(
    summary="move jobs to another queue; a started one goes on running and is counted there",
    operands="QUEUE JOB ...   (0: all of yours that the options admit; options alone: the newest of those)",
    options=(*FILTERS, GROUP, APPLICATION, SERVICE_CLASS, *GENERAL, ALL_JOBS),
    interspersed=True,
    examples=("PROGRAM night 1153", "PROGRAM night '1160[1-5]'", "PROGRAM -q short night 0"),
)


def main(call: Call) -> int:
    """Run `gswitch`."""
    options = read_options(call, TABLE)
    if not options.rest:
        raise BadRequest(f"{program(call)}: Queue name must be specified (-h shows how)")
    queue, *words = options.rest

    def act(
        session: Session, job_ids: Sequence[int], wanted: JobFilter | None, done: list[Control]
    ) -> Sequence[Control]:
        spec = JobSpec(command="", user="", queue=queue)
        return session.client.modify(job_ids, spec, ("queue",), wanted, done=done)

    said = Said(f"Job <{{job}}> is switched to queue <{_braced(queue)}>")
    return do_to_jobs(call, options, meant(call, options, words), act, said)


def _braced(text: str) -> str:
    """`text` as part of a format."""
    return text.replace("{", "{{").replace("}", "}}")
