"""`gpeek` (bpeek): what a job has written so far; with -f also what it goes on to write."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE, BadRequest, Conflict
from gsched.cli.call import Call
from gsched.cli.command import FILTERS, GENERAL, GROUP, program, read_options
from gsched.cli.selection import not_found, parse_job_ids
from gsched.cli.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported
from gsched.model.job import FINISHED, STARTED
from gsched.model.view import JobFilter
from gsched.wire.client import Client

POLL_S = 1.0

TABLE = OptionTable(
    summary="show what a job has written so far",
    operands="[JOB]   (without JOB: the newest one that has started)",
    options=(
        Option("f", help="go on showing what it writes, until it ends"),
        *FILTERS,
        GROUP,
        *GENERAL,
        *unsupported("a"),
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
        wanted = JobFilter(
            ids=job_ids,
            user="all" if job_ids else options.last("u", call.user),
            queue=options.last("q"),
            host=options.last("m"),
            name=options.last("J"),
            group=options.last("g"),
            states=() if job_ids else tuple(STARTED),
            finished=bool(job_ids),
        )
        job = max(session.client.jobs(wanted), key=lambda each: each.job_id, default=None)
        if job is None:
            call.error(not_found(job_ids) or "No matching job found\n")
            return LSF_FAILURE
        return _show(call, session.client, job.job_id, follow=options.has("f"))


def _show(call: Call, client: Client, job_id: int, *, follow: bool) -> int:
    seen = _Seen(call)
    while True:
        # Asked before reading: what is written before the end is then read after it.
        has_ended = not follow or _has_ended(client, job_id)
        try:
            for chunk in client.output(job_id, stdout_from=seen.size("stdout"), stderr_from=seen.size("stderr")):
                seen.show(chunk.stream, chunk.data)
        except Conflict as error:
            call.error(f"{error.text}\n")
            return LSF_FAILURE
        if has_ended:
            seen.show("stdout", b"")
            return 0
        call.wait(POLL_S)


def _has_ended(client: Client, job_id: int) -> bool:
    wanted = JobFilter(ids=(job_id,), user="all", finished=True)
    return all(job.state in FINISHED for job in client.jobs(wanted))


class _Seen:
    """How much of each stream has been shown, and under which heading the text stands now."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._shown = {"stdout": 0, "stderr": 0}
        self._heading = ""

    def size(self, stream: str) -> int:
        """Bytes of the stream that have been shown."""
        return self._shown[stream]

    def show(self, stream: str, data: bytes) -> None:
        """Show what the stream goes on with."""
        if self._heading != stream and (data or not self._heading):
            gap = "\n" if self._heading else ""
            self._call.write(f"{gap}<< output from {stream} >>\n")
            self._heading = stream
        if data:
            self._call.write_bytes(data)
            self._shown[stream] += len(data)
