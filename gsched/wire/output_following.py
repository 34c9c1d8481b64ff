"""What a job writes, as it writes it: asked for again when the master or the job's agent go and come back.

It shows nothing and knows no terminal; who follows says how to pause, and what to say of a host that is away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from gsched.base.errors import Conflict, DamagedData, NotFound, Unavailable
from gsched.model.jobs.job import FINISHED, STARTED
from gsched.model.views.view import EventRecord, JobFilter, JobView, OutputChunk
from gsched.wire.calls.client import Client
from gsched.wire.calls.retried_calls import BrokenOff

AWAY_PAUSE_S = 0.5
"""An agent that is away is asked for again MOST_FAILURES times, with such a pause."""
MOST_FAILURES = 10
"""Answers that break off one after the other without anything in between."""

EventsOf = Callable[[int, Sequence[int]], Iterator[EventRecord]]
"""Events of these jobs behind the one with this number, for ever."""


class OutputFollower:
    """See the module. `pause` is called with seconds, `on_away` once with a host that cannot be reached."""

    def __init__(
        self, client: Client, *, pause: Callable[[float], object], on_away: Callable[[str], object] = lambda _: None
    ) -> None:
        self._client = client
        self._pause = pause
        self._on_away = on_away

    def of_job(
        self, job_id: int, events: EventsOf, *, waits_for_start: bool = False
    ) -> Iterator[tuple[int, OutputChunk]]:
        """What each of the job's attempts writes, with the attempt's number, up to the job's end. An attempt that was
        over before it was seen to run is not among them. Raises Conflict for a job that has not started, unless
        `waits_for_start`.
        """
        over: int | None = None
        while True:
            # Asked before the job is looked at: what happens to it after that is an event to wait for.
            last = self._client.last_event()
            job = self._view(job_id)
            if job is None or job.state in FINISHED:
                return
            runs = job.state in STARTED
            if (over is not None and (job.attempt == over or not runs)) or (waits_for_start and not runs):
                next(events(last, (job_id,)), None)
                continue
            if not runs or job.spec.interactive:
                for chunk in self._client.output(job_id):  # says why there is nothing to follow
                    yield job.attempt, chunk
                return
            for chunk in self._whole_attempt(job_id, job.attempt):
                yield job.attempt, chunk
            over = job.attempt

    def _whole_attempt(self, job_id: int, attempt: int) -> Iterator[OutputChunk]:
        seen = {"stdout": 0, "stderr": 0}

        def ask(client: Client) -> Iterator[OutputChunk]:
            return client.output(job_id, stdout_from=seen["stdout"], stderr_from=seen["stderr"], follow=True)

        for chunk in self.of_attempt(job_id, attempt, ask):
            seen[chunk.stream] += len(chunk.data)
            yield chunk

    def of_attempt(
        self, job_id: int, attempt: int, ask: Callable[[Client], Iterator[OutputChunk]]
    ) -> Iterator[OutputChunk]:
        """What `ask` yields of an attempt's output, asked anew when master or agent go and come back.

        Ends with the attempt; a host that cannot be reached is waited for as long as the job may run there. Raises
        Conflict, Unavailable when something else keeps the output back.
        """
        failures, has_said = 0, False
        while True:
            try:
                for chunk in ask(self._client):
                    failures, has_said = 0, False
                    yield chunk
                return
            except DamagedData as error:  # what there was has gone meanwhile: that is all there will ever be
                yield OutputChunk(stream="stderr", data=f"\n[gsched: {error.text}]\n".encode())
                return
            except (Conflict, Unavailable) as error:
                job = self._view(job_id)
                if job is None or job.state not in STARTED or job.attempt != attempt:
                    return  # it has ended meanwhile
                failures = failures + 1 if not isinstance(error, BrokenOff) else 0
                away = self._host_away(job)
                if away:
                    failures = 0
                    if not has_said:
                        self._on_away(away)
                    has_said = True
                if failures >= MOST_FAILURES:
                    raise
            self._pause(AWAY_PAUSE_S)

    def _view(self, job_id: int) -> JobView | None:
        return next(iter(self._client.jobs(JobFilter(ids=(job_id,), user="all", finished=True))), None)

    def _host_away(self, job: JobView) -> str:
        """The job's first host while it cannot be reached; empty when it can."""
        host = job.allocation.first_host if job.allocation is not None else ""
        with contextlib.suppress(NotFound):  # one that was taken out of the configuration
            if host and self._client.hosts([host])[0].status in ("unreach", "unavail"):
                return host
        return ""
