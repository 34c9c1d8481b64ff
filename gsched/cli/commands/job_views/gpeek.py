"""`gpeek` (bpeek): what a job has written so far; with -f also what it goes on to write."""

from __future__ import annotations

from collections.abc import Iterable

from gsched.base.errors import LSF_FAILURE, BadRequest, Conflict, NotFound
from gsched.cli.options.job_filters import asked_jobs
from gsched.cli.options.job_selection import not_found, parse_job_ids
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import FILTERS, GENERAL, GROUP, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported
from gsched.model.jobs.job import FINISHED, STARTED
from gsched.model.views.view import OutputChunk

TABLE = OptionTable(
    summary="show what a job has written so far",
    operands="[JOB]   (without JOB: the newest one that has started)",
    options=(
        Option("f", help="go on showing what it writes, until it ends"),
        *FILTERS,
        GROUP,
        *GENERAL,
        *unsupported("a", because="the output of a job that ended is in its file"),
    ),
    interspersed=True,
    examples=("PROGRAM 1153", "PROGRAM -f '1160[3]'"),
)


def main(call: Call) -> int:
    """Run `gpeek`."""
    options = read_options(call, TABLE)
    job_ids = parse_job_ids(options.rest)
    if len(job_ids) > 1 or 0 in job_ids:
        raise BadRequest(f"{program(call)}: name one job")
    with connected(call) as session:
        wanted = asked_jobs(call, options, job_ids, states=() if job_ids else tuple(STARTED))
        job = max(session.client.jobs(wanted), key=lambda each: each.job_id, default=None)
        if job is None and not job_ids:
            call.error("No matching job found\n")
            return LSF_FAILURE
        try:
            seen = _Seen(call)
            if job is None:  # the master looks for it in the history
                seen.show_all(session.client.output(job_ids[0]))
            elif options.has("f") and job.state not in FINISHED:
                seen.show_all(session.job_output(job.job_id))
            else:
                seen.show_all(session.client.output(job.job_id))
            seen.show("stdout", b"")
        except NotFound:
            call.error(not_found(job_ids))
            return LSF_FAILURE
        except Conflict as error:
            call.error(f"{error.text}\n")
            return LSF_FAILURE
        return 0


class _Seen:
    """Under which heading the text stands now."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._heading = ""

    def show_all(self, chunks: Iterable[OutputChunk]) -> None:
        """Show each as it comes."""
        for chunk in chunks:
            self.show(chunk.stream, chunk.data)
            self._call.flush()

    def show(self, stream: str, data: bytes) -> None:
        """Show what the stream goes on with."""
        if self._heading != stream and (data or not self._heading):
            gap = "\n" if self._heading else ""
            self._call.write(f"{gap}<< output from {stream} >>\n")
            self._heading = stream
        if data:
            self._call.write_bytes(data)
