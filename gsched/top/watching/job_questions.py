"""What is asked of one job while it is looked at: its view, and the end of what it has printed.

A job may have printed gigabytes: its end is found without reading what is before it.
"""

from __future__ import annotations

import msgspec

from gsched.base.errors import GschedError
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.calls.client import Client
from gsched.wire.calls.output_end import STREAMS, byte_behind, output_pieces

TAIL = 16 * 1024
"""Bytes of the end of each stream that are shown."""


class JobNow(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is. `view` None: there is none (any more). `why`: why there is no output."""

    view: JobView | None
    output: dict[str, bytes] = {}
    why: str = ""


class JobQuestions:
    """Of one job; it remembers where the streams ended, so that each answer is found at once."""

    def __init__(self, job_id: int) -> None:
        self._job_id = job_id
        self._starts = dict.fromkeys(STREAMS, 0)
        self._attempt = 0

    def ask(self, client: Client) -> JobNow:
        """Raises GschedError when the master does not answer."""
        wanted = JobFilter(ids=(self._job_id,), user="all", finished=True)
        view = next((job for job in client.jobs(wanted) if job.job_id == self._job_id), None)
        if view is None:
            return JobNow(view=None)
        if view.attempt != self._attempt:
            self._starts, self._attempt = dict.fromkeys(STREAMS, 0), view.attempt
        try:
            return JobNow(view=view, output={stream: self._tail(client, stream) for stream in STREAMS})
        except GschedError as error:
            return JobNow(view=view, why=error.text)

    def _tail(self, client: Client, stream: str) -> bytes:
        data = self._read(client, stream, self._starts[stream])
        if len(data) > 2 * TAIL:
            known = self._starts[stream] + len(data)
            start = max(0, byte_behind(client, self._job_id, stream, known, TAIL) - 2 * TAIL)
            data = self._read(client, stream, start)
            self._starts[stream] = start
        kept = data[-TAIL:]
        self._starts[stream] += len(data) - len(kept)
        return kept

    def _read(self, client: Client, stream: str, start: int) -> bytes:
        """All from there on, or somewhat more than twice the tail."""
        data = bytearray()
        for piece in output_pieces(client, self._job_id, stream, start):
            data += piece
            if len(data) > 2 * TAIL:
                break
        return bytes(data)
