"""What a job writes, in lines, while it writes them; and the file that it writes to."""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gsched.base.patterns import expand_job_id
from gsched.model.views.view import EventRecord, JobView
from gsched.wire.output_following import OutputFollower

if TYPE_CHECKING:
    from gsched.api.job import Job

MOST_LETTERS = 1 << 20
"""Of a line that is kept until its end comes."""


def lines_of(job: Job) -> Iterator[str]:
    """Each line of the job's standard output as it is written: see `Job.output_lines`."""
    client = job.cluster.client()

    def events(after: int, job_ids: object) -> Iterator[EventRecord]:
        return client.events(after, job_ids=[job.id])

    follower = OutputFollower(client, pause=time.sleep)
    lines, seen = _Lines(), None
    for attempt, chunk in follower.of_job(job.id, events, waits_for_start=True):
        if attempt != seen:
            yield from lines.end()
            seen = attempt
        if chunk.stream == "stdout":
            yield from lines.add(chunk.data)
    yield from lines.end()
    view = job.view()
    if view.attempt != seen and view.started_at is not None:  # over before it was seen to run
        yield from lines.add(job.output().encode())
        yield from lines.end()


class _Lines:
    """Bytes that come in pieces, as lines."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""

    def add(self, data: bytes) -> Iterator[str]:
        """The lines that these bytes end."""
        *whole, self._begun = (self._begun + self._decoder.decode(data)).split("\n")
        yield from whole
        while len(self._begun) > MOST_LETTERS:
            yield self._begun[:MOST_LETTERS]
            self._begun = self._begun[MOST_LETTERS:]

    def end(self) -> Iterator[str]:
        """The line that has no end."""
        last = self._begun + self._decoder.decode(b"", final=True)
        self._begun = ""
        self._decoder.reset()
        if last:
            yield last


def output_path(view: JobView) -> Path:
    """The file of -o, as this machine sees it; a directory holds a file for each job."""
    host = view.allocation.first_host if view.allocation is not None else ""
    attempt = view.spec.attempt_in_names(view.attempt)
    path = expand_job_id(view.spec.output_file, view.job_id, host=host, attempt=attempt)
    path = os.path.join(view.spec.run_dir, path)
    if path.endswith("/") or os.path.isdir(path):
        path = expand_job_id(f"{path.rstrip('/')}/", view.job_id, extension="out")
    return Path(path)
