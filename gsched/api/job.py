"""The handle of one job. What it tells is asked for at that moment, except how the job ended."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from html import escape
from typing import TYPE_CHECKING, Any

from gsched.api.failure import JobFailed
from gsched.api.job_output import lines_of, output_path
from gsched.api.job_table import JobTable
from gsched.api.options import refuses_unknown_options
from gsched.api.values import seconds, whole
from gsched.base.coded_text import sentence
from gsched.base.errors import Conflict, GschedError, NotFound
from gsched.base.ids import array_of, index_of, show_job
from gsched.base.moments import shown_utc
from gsched.cli.render.text.reason_texts import reason_text
from gsched.model.jobs.job import FINISHED
from gsched.model.views.view import EventRecord, JobEnd, JobFilter, JobView
from gsched.wire.messages.control_action import ControlAction

if TYPE_CHECKING:
    from gsched.api.cluster import Cluster

NO_SUCH_JOB = "No matching job found"
"""The master's answer to a control of a number that no job has."""


class Job:
    """A job, an array, or an element of one. `await job` is the same as `job.wait()` in a coroutine.

    `queue` and `warnings` are what the submission was answered; empty for a job that was found otherwise. It can be
    pickled: in another process it finds its cluster by the configuration folder, when it is first used.
    """

    def __init__(self, cluster: Cluster, job_id: int, *, queue: str = "", warnings: tuple[str, ...] = ()) -> None:
        self._cluster: Cluster | None = cluster
        self._kind = type(cluster)
        self.folder = cluster.folder
        self.id = job_id
        self.queue = queue
        self.warnings = warnings

    def __repr__(self) -> str:
        return f"<gsched.Job {self}>"

    def __str__(self) -> str:
        return show_job(self.id)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Job) or self.id != other.id:
            return False
        return self.folder == other.folder or self.cluster.address == other.cluster.address

    @property
    def cluster(self) -> Cluster:
        """Its cluster; of a job that came from another process a connection that all such jobs share. Raises
        Unavailable where no cluster is known in its folder.
        """
        return self._kind.shared(self.folder) if self._cluster is None else self._cluster

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cluster": None}

    def _repr_html_(self) -> str:
        """For notebooks: what it is now, an array's elements."""
        try:
            return JobTable(self.elements())._repr_html_()
        except GschedError as error:
            return f"<code>{escape(repr(self))}</code> {escape(error.text)}"

    def __hash__(self) -> int:
        return hash(self.id)

    def __await__(self) -> Generator[Any, None, JobEnd]:
        return asyncio.wrap_future(self.future()).__await__()

    # What it is

    def view(self) -> JobView:
        """Everything about it, as of now. Raises NotFound; Conflict for an array (`elements` has views)."""
        found = self.elements()
        if [each.job_id for each in found] != [self.id]:
            raise Conflict(f"Job <{self}> is an array: ask elements()")
        return found[0]

    def elements(self) -> list[JobView]:
        """An array's elements by index, as of now; of any other job itself alone. However long ago they finished.
        Raises NotFound.
        """
        found = list(self.cluster.jobs(ids=[self.id], user="all", finished=True))
        if not found:
            found = list(self.cluster.history(ids=[self.id]))
        if not found:
            raise NotFound(f"Job <{self}> is not found")
        return sorted(found, key=lambda each: index_of(each.job_id))

    def history(self) -> tuple[EventRecord, ...]:
        """What has happened to it, oldest first: `kind`, `at`, and `payload`, JSON with the rest. Of an array what
        happened to it as a whole. Raises NotFound.
        """
        wanted = JobFilter(ids=(self.id,), user="all", finished=True)
        of_array: dict[int, EventRecord] = {}
        for told in self.cluster.client().history(wanted):
            if told.job_id == self.id:
                return told.events
            of_array.update((event.seq, event) for event in told.events if event.job_id == self.id)
        # Once all elements have been started an array is told of by them alone.
        if not of_array:
            kept = self.cluster.client().past.kept()
            gone = ""
            if kept.jobs is not None:
                gone = f": jobs that finished before {shown_utc(kept.jobs)} are no longer kept"
            elif kept.events is not None:
                gone = f": what happened to jobs that finished before {shown_utc(kept.events)} is no longer kept"
            raise NotFound(f"Job <{self}> is not found{gone}")
        return tuple(of_array[seq] for seq in sorted(of_array))

    @property
    def state(self) -> str:
        """LSF's code, as of now: PEND, RUN, DONE, EXIT …"""
        return self.view().state

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it waits (the main reason first) or is suspended, with numbers, as of now; empty otherwise."""
        view = self.view()
        if view.suspending_reason:
            return (sentence(view.suspending_reason),)
        return tuple(reason_text(each) for each in view.pending_reasons)

    @property
    def reasons_at(self) -> float | None:
        """When the scheduling cycle ran that found why it waits, seconds since 1970; None where no cycle did."""
        return self.view().pending_reasons_at

    def output(self) -> str:
        """What it has written to its standard output so far; afterwards all of it, from the file of -o with the report.

        Raises Conflict for a job that has not started, OSError when the file cannot be read.
        """
        view = self.view()
        if view.state in FINISHED and view.spec.output_file:
            return output_path(view).read_text("utf-8", "replace")
        chunks = self.cluster.client().output(self.id)
        return b"".join(chunk.data for chunk in chunks if chunk.stream == "stdout").decode("utf-8", "replace")

    def output_lines(self) -> Iterator[str]:
        """Each line of its standard output as it is written, without its end, until the job's end; waits for its start.
        A job that goes back to the queue is followed in its next attempt, too; one that is over tells all at once.

        Raises Conflict for an array, OSError when the file of -o cannot be read. A line of more than a million letters
        comes in pieces.
        """
        self.view()
        return lines_of(self)

    # Waiting

    def future(self) -> Future[JobEnd]:
        """A future of its end. Cancelling it does nothing to the job, and is not possible."""
        return self.cluster.futures([self.id])[0]

    @refuses_unknown_options
    def wait(self, timeout: float | None = None) -> JobEnd:
        """Wait until it has finished, whether well or not; an array: all its elements.

        Raises TimeoutError after `timeout` seconds, NotFound, Unavailable when the master stays away.
        """
        timeout = seconds("timeout", timeout)
        try:
            return self.future().result(timeout)
        except TimeoutError:
            raise TimeoutError(f"Job <{self}> has not finished within {timeout:g} s") from None

    @refuses_unknown_options
    def result(self, timeout: float | None = None) -> JobEnd:
        """As `wait`, but raises JobFailed unless the job is DONE."""
        end = self.wait(timeout)
        if not end.succeeded:
            raise JobFailed(end)
        return end

    # Doing something to it

    @refuses_unknown_options
    def kill(self, signal: int = 0) -> None:
        """End it (INT, TERM, KILL with LSF's intervals), or send it a signal. Raises NotFound, Conflict."""
        self._control("kill" if not signal else "signal", signal)

    def stop(self) -> None:
        """Suspend it. Raises NotFound, Conflict."""
        self._control("stop")

    def resume(self) -> None:
        """Let it go on, or a held job wait for a place. Raises NotFound, Conflict."""
        self._control("resume")

    def _control(self, action: str, signal: int = 0) -> None:
        wanted = ControlAction(action=action, signal=whole("signal", signal))
        for answer in self.cluster.client().control(wanted, [self.id]):
            if answer.error and array_of(answer.job_id) == array_of(self.id):
                kind = NotFound if answer.error == NO_SUCH_JOB else Conflict
                raise kind(f"Job <{show_job(answer.job_id)}>: {answer.error}")
