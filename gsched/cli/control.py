"""What gkill, gstop and gresume share: which jobs are meant, and the answer for each of them.

Source of the texts: bkill, bstop and bresume; clients search for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.cli.call import Call
from gsched.cli.command import program
from gsched.cli.selection import parse_job_ids
from gsched.cli.session import connected
from gsched.dialect.options import Parsed
from gsched.model.view import Control, JobFilter

EVERY = 0
"""The job id that stands for all of the caller's jobs."""


def carry_out(
    call: Call, options: Parsed, action: str, being: str, *, signal: int = 0, states: tuple[str, ...] = ()
) -> int:
    """Do `action` to the jobs that the command line means; `being` is what each line says (`terminated`).

    Named jobs are taken as they are. 0 means all of the caller's unfinished jobs that the filters and `states` admit;
    filters alone mean the newest of them, as for LSF's commands. Exit code 255 if anything failed.
    """
    job_ids = parse_job_ids(options.rest)
    wanted = JobFilter(
        user=options.last("u", call.user),
        queue=options.last("q"),
        host=options.last("m"),
        name=options.last("J"),
        states=states,
    )
    if not job_ids and not options.has("u", "q", "m", "J"):
        raise BadRequest(f"{program(call)}: name a job, or 0 for all of yours (-h lists the options)")
    with connected(call) as session:
        if not job_ids:
            newest = max((job.job_id for job in session.client.jobs(wanted)), default=None)
            job_ids = () if newest is None else (newest,)
            results = session.client.control(action, job_ids, signal=signal) if job_ids else []
        elif EVERY in job_ids:
            results = session.client.control(action, (), wanted=wanted, signal=signal)
        else:
            results = session.client.control(action, job_ids, signal=signal)
    return _report(call, results, being)


def _report(call: Call, results: Sequence[Control], being: str) -> int:
    for result in results:
        if result.error:
            call.error(f"Job <{result.job_id}>: {result.error}\n")
        else:
            call.write(f"Job <{result.job_id}> is being {being}\n")
    if not results:
        call.error("No unfinished job found\n")
    return LSF_FAILURE if not results or any(result.error for result in results) else 0
