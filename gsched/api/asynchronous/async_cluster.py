"""A running cluster, as coroutines use it. It must never block the event loop, nor do what Cluster does not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from functools import partial
from typing import Any, Unpack

from gsched.api.asynchronous.async_job import AsyncJob
from gsched.api.asynchronous.calls_in_threads import CallsInThreads
from gsched.api.cluster import Cluster
from gsched.api.job import Job
from gsched.api.named import NamesJob, number_of, numbers_of
from gsched.api.options import refuses_unknown_options
from gsched.api.request import JobRequest, SubmitOptions
from gsched.api.values import members, seconds
from gsched.api.waiting import not_finished
from gsched.model.views.explanation import JobDryRun, JobExplanation
from gsched.model.views.job_comparison import JobComparison
from gsched.model.views.view import EventRecord, HostView, JobEnd, JobView, QueueView


class AsyncCluster:
    """Cluster for coroutines: `async with AsyncCluster() as cluster:` closes it in the end.

    `folder` and `wait` are as of Cluster. It belongs to one event loop. A coroutine that is cancelled gives its call up
    at once; whether a submission was carried out is not known then. Raises Unavailable when no cluster is known there.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, wait: float | None = None) -> None:
        self._cluster = Cluster(folder, wait=wait)
        self.folder = self._cluster.folder
        self.address = self._cluster.address
        self.calls = CallsInThreads(self._cluster)
        """Where its calls run; that may change, this class does not."""
        self._ends: dict[int, asyncio.Future[JobEnd]] = {}

    def __repr__(self) -> str:
        return f"<gsched.AsyncCluster {self.folder}>"

    async def __aenter__(self) -> AsyncCluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection; jobs go on. Who still waits gets Unavailable."""
        self.calls.close()
        await asyncio.to_thread(self._cluster.close)

    # Submitting

    async def submit(
        self,
        command: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | float] = (),
        **options: Unpack[SubmitOptions],
    ) -> AsyncJob:
        """Submit a job (with `array=` an array of them); returns once it is on disk. See `Cluster.submit`."""
        return self._handle(await self.calls.call(lambda cluster: cluster.submit(command, **options)))

    async def submit_many(
        self,
        jobs: Iterable[str | os.PathLike[str] | Sequence[str | os.PathLike[str] | float] | JobRequest],
        **options: Unpack[SubmitOptions],
    ) -> list[AsyncJob]:
        """Submit all of the jobs or none, in one step. See `Cluster.submit_many`."""
        submitted = await self.calls.call(lambda cluster: cluster.submit_many(jobs, **options))
        return [self._handle(job) for job in submitted]

    def _handle(self, job: Job) -> AsyncJob:
        return AsyncJob(self, job.id, queue=job.queue, warnings=job.warnings)

    async def dry_run(
        self,
        command: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | float] = (),
        **options: Unpack[SubmitOptions],
    ) -> JobDryRun:
        """What would become of the job that `submit` would submit with these options. Raises what that would raise."""
        return await self.calls.call(lambda cluster: cluster.dry_run(command, **options))

    # Asking

    async def explain(self, job: NamesJob) -> JobExplanation:
        """Why a job waits, and until when. Raises NotFound, and Conflict for a job that does not wait."""
        return await self.calls.call(lambda cluster: cluster.explain(job))

    async def why_not(self, job: NamesJob, other: NamesJob) -> JobComparison:
        """Why `job` waits and `other` runs or stands before it. Raises NotFound, Conflict, BadRequest."""
        return await self.calls.call(lambda cluster: cluster.why_not(job, other))

    def job(self, job: NamesJob) -> AsyncJob:
        """The handle of a job that is known by its number, or by what a query answered."""
        return AsyncJob(self, number_of(job))

    def jobs(self, **options: Any) -> AsyncGenerator[JobView, None]:
        """Jobs as of now, for `async for`, with the options of `Cluster.jobs`. Raises what that raises."""
        return self.calls.stream(lambda cluster: cluster.jobs(**options))

    def history(self, **options: Any) -> AsyncGenerator[JobView, None]:
        """Finished jobs, for `async for`, with the options of `Cluster.history`. Raises what that raises."""
        return self.calls.stream(lambda cluster: cluster.history(**options))

    async def hosts(self, *names: str) -> list[HostView]:
        """All hosts, or the named ones. Raises NotFound."""
        return await self.calls.call(lambda cluster: cluster.hosts(*names))

    async def queues(self, *names: str) -> list[QueueView]:
        """All queues by descending priority, or the named ones. Raises NotFound."""
        return await self.calls.call(lambda cluster: cluster.queues(*names))

    def events(self, **options: Any) -> AsyncGenerator[EventRecord, None]:
        """What happens, as it is committed, for `async for`, with the options of `Cluster.events`; without `after` from
        its first step on. Raises what that raises.
        """
        return self.calls.stream(lambda cluster: cluster.events(**options))

    # Waiting

    def _futures(self, numbers: Sequence[int]) -> list[asyncio.Future[JobEnd]]:
        """Of this loop, one for each job, however many wait for it: what waits is not to cancel it."""
        loop = asyncio.get_running_loop()
        known = {number for number, future in self._ends.items() if future.get_loop() is loop}
        missing = [number for number in dict.fromkeys(numbers) if number not in known]
        for number, future in zip(missing, self._cluster.futures(missing), strict=True):
            self._ends[number] = asyncio.wrap_future(future, loop=loop)
            self._ends[number].add_done_callback(partial(self._forget, number))
        return [self._ends[number] for number in numbers]

    def _forget(self, number: int, ended: asyncio.Future[JobEnd]) -> None:
        if self._ends.get(number) is ended:
            del self._ends[number]
        if not ended.cancelled():
            ended.exception()  # else the loop complains where nobody waits any more

    @refuses_unknown_options
    async def wait(self, jobs: Iterable[NamesJob] | NamesJob, timeout: float | None = None) -> list[JobEnd]:
        """Wait until all have finished, whether well or not; returns their ends in that order. It takes no thread.

        Raises TimeoutError that names jobs which have not, NotFound.
        """
        numbers, timeout = numbers_of("jobs", jobs), seconds("timeout", timeout)
        futures = self._futures(numbers)
        if futures:
            await asyncio.wait(set(futures), timeout=timeout)
        left = [number for number, future in zip(numbers, futures, strict=True) if not future.done()]
        if left:
            raise not_finished(left, timeout)
        return [future.result() for future in futures]

    @refuses_unknown_options
    async def as_completed(
        self, jobs: Iterable[NamesJob] | NamesJob, timeout: float | None = None
    ) -> AsyncGenerator[tuple[AsyncJob, JobEnd], None]:
        """Each job with its end, in the order in which they finish, for `async for`. Raises TimeoutError, NotFound."""
        timeout = seconds("timeout", timeout)
        many = [jobs] if isinstance(jobs, AsyncJob) else members("jobs", jobs, "a list of jobs")
        handles = [each if isinstance(each, AsyncJob) else self.job(each) for each in many]
        by_future = dict(zip(self._futures([handle.id for handle in handles]), handles, strict=True))
        ended: asyncio.Queue[asyncio.Future[JobEnd]] = asyncio.Queue()
        until = None if timeout is None else asyncio.get_running_loop().time() + timeout
        for future in by_future:
            future.add_done_callback(ended.put_nowait)
        try:
            for _ in range(len(by_future)):
                try:
                    async with asyncio.timeout_at(until):
                        future = await ended.get()
                except TimeoutError:
                    raise not_finished(
                        [job.id for future, job in by_future.items() if not future.done()], timeout
                    ) from None
                yield by_future[future], future.result()
        finally:
            for future in by_future:
                future.remove_done_callback(ended.put_nowait)

    # Doing something to many

    @refuses_unknown_options
    async def kill(self, jobs: Iterable[NamesJob] | NamesJob, signal: int = 0) -> dict[int, str]:
        """End the jobs, or send them a signal; returns those it could not be done to, with the reason."""
        return await self.calls.call(lambda cluster: cluster.kill(jobs, signal))

    async def stop(self, jobs: Iterable[NamesJob] | NamesJob) -> dict[int, str]:
        """Suspend the jobs; returns those it could not be done to, with the reason."""
        return await self.calls.call(lambda cluster: cluster.stop(jobs))

    async def resume(self, jobs: Iterable[NamesJob] | NamesJob) -> dict[int, str]:
        """Let the jobs go on; returns those it could not be done to, with the reason."""
        return await self.calls.call(lambda cluster: cluster.resume(jobs))
