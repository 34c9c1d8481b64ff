"""`grun` (brun): start a pending job at once on hosts that an administrator names, whatever the policies say."""

from __future__ import annotations

from gsched.base.coded_text import has_code, sentence
from gsched.base.errors import BadRequest
from gsched.base.ids import show_job
from gsched.cli.answers.job_actions import EVERY, Said, report
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported
from gsched.model.views.view import JobFilter
from gsched.wire.messages.control_action import ControlAction

TABLE = OptionTable(
    summary="start a pending job at once where you say, whatever order, limits and loads say (administrators only)",
    operands="JOB",
    options=(
        Option("m", "HOSTS", "where it is to run; for a parallel job several", '-m "gpu01 gpu02"'),
        *GENERAL,
        Option("b", help="taken for LSF's sake: a job always starts over from its beginning"),
        *unsupported("c", "f", because="-m names the hosts, and all else is as for any job"),
    ),
    interspersed=True,
    examples=("PROGRAM -m gpu01 1153", "PROGRAM -m gpu01 '1160[7]'"),
)


def main(call: Call) -> int:
    """Run `grun`."""
    options = read_options(call, TABLE)
    job_ids = parse_job_ids(options.rest)
    if len(job_ids) != 1 or EVERY in job_ids:
        raise BadRequest(f"{program(call)}: name one job")
    hosts = tuple(options.last("m").split())
    if not hosts:
        raise BadRequest(f"{program(call)}: -m HOST says where the job is to run")
    with connected(call) as session:
        results = session.client.control(ControlAction(action="run", hosts=hosts), job_ids)
        forced = tuple(result.job_id for result in results if not result.error)
        views = list(session.client.jobs(JobFilter(ids=forced, user="all"))) if forced else []
    code = report(call, results, Said("Job <{job}> is being forced to run."))
    for view in views:
        # The one thing that being forced does not overrule: it would wait and nobody would know for what.
        for reason in view.pending_reasons:
            if view.job_id in forced and has_code(reason.text, "dependency.not_satisfied"):
                why = sentence(reason.detail or reason.text)
                call.error(f"Job <{show_job(view.job_id)}> starts when its condition holds: {why}\n")
    return code
