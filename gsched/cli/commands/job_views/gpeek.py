"""`gpeek` (bpeek): what a job has written so far; with -f also what it goes on to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.base.errors import LSF_FAILURE, BadRequest, Conflict, NotFound
from gsched.cli.options.job_filters import asked_jobs
from gsched.cli.options.job_selection import not_found, parse_job_ids
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import FILTERS, GENERAL, GROUP, program, read_options
from gsched.cli.session.session import Session, connected
from gsched.dialect.options import Option, OptionTable, unsupported
from gsched.model.jobs.job import FINISHED, STARTED
from gsched.model.views.view import JobFilter, OutputChunk
from gsched.wire.calls.client import Client

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
                _follow(session, job.job_id, seen)
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


def _follow(session: Session, job_id: int, seen: _Seen) -> None:
    """Show what each of the job's attempts prints, up to the job's end. Raises Conflict when it has not started yet."""
    client = session.client
    over: int | None = None
    while True:
        # Asked before the job is looked at: what happens to it after that is an event to wait for.
        last = client.last_event()
        job = next(iter(client.jobs(JobFilter(ids=(job_id,), user="all", finished=True))), None)
        if job is None or job.state in FINISHED:
            return
        if over is not None and (job.attempt == over or job.state not in STARTED):
            next(session.follow(last, (job_id,)), None)
            continue
        if over is not None:
            seen.begin_anew()
        if job.state not in STARTED or job.spec.interactive:
            seen.show_all(client.output(job_id))  # says why there is nothing to follow
            return
        _show_attempt(session, job_id, job.attempt, seen)
        over = job.attempt


def _show_attempt(session: Session, job_id: int, attempt: int, seen: _Seen) -> None:
    """What the attempt that runs prints, until it is over."""

    def ask(client: Client) -> Iterator[OutputChunk]:
        return client.output(job_id, stdout_from=seen.size("stdout"), stderr_from=seen.size("stderr"), follow=True)

    seen.show_all(session.output(job_id, attempt, ask))


class _Seen:
    """How much of each stream has been shown, and under which heading the text stands now."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._shown = {"stdout": 0, "stderr": 0}
        self._heading = ""

    def size(self, stream: str) -> int:
        """Bytes of the stream that have been shown."""
        return self._shown[stream]

    def begin_anew(self) -> None:
        """Another attempt writes to streams of its own."""
        self._shown = dict.fromkeys(self._shown, 0)

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
            self._shown[stream] += len(data)
