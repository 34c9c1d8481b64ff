"""The handle of one job, for coroutines: the words of Job, each of them awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from gsched.api.failure import JobFailed
from gsched.api.job import Job
from gsched.api.options import refuses_unknown_options
from gsched.base.errors import BadRequest
from gsched.base.ids import show_job
from gsched.model.views.view import EventRecord, JobEnd, JobView

if TYPE_CHECKING:
    from gsched.api.asynchronous.async_cluster import AsyncCluster

_Answer = TypeVar("_Answer")


class AsyncJob:
    """A job, an array, or an element of one. `await job` is the same as `await job.wait()`.

    `queue` and `warnings` are what the submission was answered; empty for a job that was found otherwise.
    """

    def __init__(self, cluster: AsyncCluster, job_id: int, *, queue: str = "", warnings: tuple[str, ...] = ()) -> None:
        self.cluster = cluster
        self.id = job_id
        self.queue = queue
        self.warnings = warnings

    def __repr__(self) -> str:
        return f"<gsched.AsyncJob {self}>"

    def __str__(self) -> str:
        return show_job(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncJob) and (self.id, self.cluster.address) == (other.id, other.cluster.address)

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> NoReturn:
        raise BadRequest(f"{self!r} belongs to the event loop of its AsyncCluster, and cannot be pickled: send its id")

    def __await__(self) -> Generator[Any, None, JobEnd]:
        return self.wait().__await__()

    async def _ask(self, question: Callable[[Job], _Answer]) -> _Answer:
        return await self.cluster.calls.call(lambda cluster: question(cluster.job(self.id)))

    # What it is

    async def view(self) -> JobView:
        """Everything about it, as of now. Raises NotFound; Conflict for an array (`elements` has views)."""
        return await self._ask(Job.view)

    async def elements(self) -> list[JobView]:
        """An array's elements by index, as of now; of any other job itself alone. Raises NotFound."""
        return await self._ask(Job.elements)

    async def history(self) -> tuple[EventRecord, ...]:
        """What has happened to it, oldest first. Raises NotFound."""
        return await self._ask(Job.history)

    async def state(self) -> str:
        """LSF's code, as of now: PEND, RUN, DONE, EXIT …"""
        return await self._ask(lambda job: job.state)

    async def reasons(self) -> tuple[str, ...]:
        """Why it waits (the main reason first) or is suspended, with numbers, as of now; empty otherwise."""
        return await self._ask(lambda job: job.reasons)

    async def reasons_at(self) -> float | None:
        """When the scheduling cycle ran that found why it waits, seconds since 1970; None where no cycle did."""
        return await self._ask(lambda job: job.reasons_at)

    async def output(self) -> str:
        """What it has written to its standard output so far. Raises Conflict for a job that has not started, OSError
        when the file of -o cannot be read.
        """
        return await self._ask(Job.output)

    def output_lines(self) -> AsyncGenerator[str, None]:
        """Each line of its standard output as it is written, until the job's end: see `Job.output_lines`."""
        return self.cluster.calls.stream(lambda cluster: cluster.job(self.id).output_lines())

    # Waiting

    @refuses_unknown_options
    async def wait(self, timeout: float | None = None) -> JobEnd:
        """Wait until it has finished, whether well or not; an array: all its elements. It takes no thread.

        Raises TimeoutError after `timeout` seconds, NotFound, Unavailable when the master stays away.
        """
        return (await self.cluster.wait([self], timeout))[0]

    @refuses_unknown_options
    async def result(self, timeout: float | None = None) -> JobEnd:
        """As `wait`, but raises JobFailed unless the job is DONE."""
        end = await self.wait(timeout)
        if not end.succeeded:
            raise JobFailed(end)
        return end

    # Doing something to it

    @refuses_unknown_options
    async def kill(self, signal: int = 0) -> None:
        """End it (INT, TERM, KILL with LSF's intervals), or send it a signal. Raises NotFound, Conflict."""
        await self._ask(lambda job: job.kill(signal))

    async def stop(self) -> None:
        """Suspend it. Raises NotFound, Conflict."""
        await self._ask(Job.stop)

    async def resume(self) -> None:
        """Let it go on, or a held job wait for a place. Raises NotFound, Conflict."""
        await self._ask(Job.resume)
