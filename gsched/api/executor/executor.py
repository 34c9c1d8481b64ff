"""Functions of a Python program as jobs of a cluster, in the manner of concurrent.futures.

The jobs run with the program's own interpreter and paths. What it submits goes on when the program ends; with a name it
finds its calls again.
"""

from __future__ import annotations

import atexit
import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor as FuturesExecutor
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack

from gsched.api.cluster import Cluster
from gsched.api.executor.call_folder import Batch, CallFolder, checked_name, pickled
from gsched.api.executor.call_future import CallFuture, CallPart
from gsched.api.executor.call_outcome import CallFailed
from gsched.api.executor.call_relay import RelayedCalls
from gsched.api.executor.call_requests import CallRequests
from gsched.api.job import Job
from gsched.api.request import JobRequest, SubmitOptions
from gsched.api.values import path, seconds, truth, whole
from gsched.base.envdir import home_of
from gsched.base.errors import (
    BadRequest,
    Conflict,
    GschedError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from gsched.base.ids import array_of, element_id, show_job
from gsched.model.views.view import JobEnd

MOST_TOGETHER = 1_000
"""Jobs of one submission."""
MOST_BYTES_TOGETHER = 24 << 20
"""Of calls that go through the master with one submission, without the last."""
_REFUSALS = (BadRequest, Conflict, NotFound, PermissionDenied, ResourceExhausted)
"""After these there is no job; after any other error there may be."""
_Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments by position and by name."""


class _Work:
    """A batch that waits to be submitted, or is."""

    def __init__(self, batch: Batch, request: JobRequest | None = None, size: int = 0) -> None:
        """`size`: bytes of the calls, where they go with the submission."""
        self.batch = batch
        self.request = request
        self.size = size
        self.parts = [CallPart(index) for index in range(1, batch.elements + 1)] or [CallPart(0)]
        size = batch.chunk or batch.calls
        self.futures = [CallFuture(self.parts[number // size]) for number in range(batch.calls)]


class Executor(FuturesExecutor):
    """Calls functions as jobs: `with gsched.Executor(gpus=1) as executor: executor.submit(train, 0.1).result()`.

    `name`: results stay until `clear`, and another program with an Executor of that name finds them (`futures`).
    `cluster`: one's own Cluster instead of a connection of its own. `folder`: where calls and results are kept, which
    all hosts have to share (~/.gsched/executor/NAME). `shared=False`: they share none, and what is called and returned
    goes through the master, MOST_BYTES of each at most. `python`: the interpreter on the hosts (sys.executable).

    A call of an object with a method `checkpoint` gets the signal of `checkpoint` so many seconds before its job is to
    end: `checkpoint(*args, **kwargs)` returns what is called in the job's next attempt, of which there are
    `max_restarts` at most. The others are the options of `Cluster.submit`, for each job.

    Raises BadRequest and its kin, Conflict where another program has an executor of that name.
    """

    def __init__(
        self,
        name: str = "",
        /,
        *,
        cluster: Cluster | None = None,
        folder: str | os.PathLike[str] | None = None,
        shared: bool = True,
        python: str | os.PathLike[str] | None = None,
        checkpoint: str = "USR2@60",
        max_restarts: int | None = None,
        **options: Unpack[SubmitOptions],
    ) -> None:
        self.name = checked_name(name) if name else ""
        self._requests = CallRequests(
            self.name,
            options,
            shared=truth("shared", shared),
            python=python,
            checkpoint=checkpoint,
            max_restarts=max_restarts,
        )
        kept = _folder(folder, self.name)
        is_kept = bool(name)
        self._folder = (
            CallFolder(kept, is_kept=is_kept) if shared else RelayedCalls(kept, lambda: self.cluster, is_kept=is_kept)
        )
        if self.name and not self._folder.hold():
            raise Conflict(
                f"the executor {self.name} ({self._folder.path}) is in use: one program at a time has its calls"
            )
        self._owns_cluster = cluster is None
        self.cluster = Cluster() if cluster is None else cluster
        self._lock = threading.Lock()
        self._is_shut_down = False
        self._process = os.getpid()
        self._works: list[_Work] = []
        self._to_submit: queue.Queue[_Work | None] = queue.Queue()
        self._ended: queue.Queue[tuple[_Work, CallPart, Future[JobEnd]] | None] = queue.Queue()
        self._threads = [
            threading.Thread(target=target, name=f"gsched-executor-{target.__name__[1:]}", daemon=True)
            for target in (self._submit_all, self._settle_all)
        ]
        for thread in self._threads:
            thread.start()
        atexit.register(self._join_submissions)  # a program that ends loses no call
        if self.name:
            self._find_again()

    def __repr__(self) -> str:
        return f"<gsched.Executor {self.name or self._folder.path}>"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.shutdown(wait=True)
        return None

    # Calling

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> CallFuture:
        """Call the function as a job. Raises BadRequest where it or an argument cannot be pickled; what the master has
        against the job is raised by the future.
        """
        return self._add(fn, [(args, kwargs)], 0)[0]

    def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        """The results in order, as of the built-in map. The calls are made at once, as elements of an array with
        `chunksize` of them each. Raises TimeoutError when one is not there `timeout` seconds after the call of map.
        """
        timeout, size = seconds("timeout", timeout), whole("chunksize", chunksize)
        if size < 1:
            raise BadRequest(f"chunksize={chunksize}: at least 1 is wanted")
        until = None if timeout is None else time.monotonic() + timeout
        made = self._add(fn, ((args, {}) for args in zip(*iterables, strict=False)), size)

        def results() -> Iterator[Any]:
            try:
                while made:
                    yield made.pop(0).result(None if until is None else until - time.monotonic())
            finally:
                for future in made:
                    future.cancel()

        return results()

    def _add(self, fn: Callable[..., Any], calls: Iterable[_Call], chunk: int) -> list[CallFuture]:
        function = pickled("the function", fn)
        arguments = [pickled("an argument", call) for call in calls]
        if os.getpid() != self._process:
            raise RuntimeError("an executor cannot be used in a process forked from its own: make another one there")
        for start in range(0, len(arguments), chunk or 1):
            self._folder.check_size(function, arguments[start : start + (chunk or 1)])
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            pieces = self._folder.pieces(arguments, chunk) if chunk else (arguments,)
            works = [self._work(fn, function, piece, chunk) for piece in pieces]
            self._works += works
            for work in works:
                self._to_submit.put(work)
        return [future for work in works for future in work.futures]

    def _work(self, fn: Callable[..., Any], function: bytes, calls: Sequence[bytes], chunk: int) -> _Work:
        source = self._requests.source()
        batch = self._folder.add(function, calls, chunk, self._requests.signal_of(fn), source)
        size = len(function) + sum(map(len, calls)) if source else 0
        return _Work(batch, self._requests.of(fn, batch, self._folder), size)

    # What was called

    def futures(self) -> list[CallFuture]:
        """Of all calls, in their order; of an executor with a name also those of programs before."""
        with self._lock:
            return [future for work in self._works for future in work.futures]

    def clear(self) -> None:
        """Forget the calls that are over, and remove their files. Those go on that were given up since no master
        answered.
        """
        with self._lock:
            over, left = list[_Work](), list[_Work]()
            for work in self._works:
                (over if all(map(_is_over, work.futures)) else left).append(work)
            self._works = left
        self._folder.remove(work.batch for work in over)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. With `wait` all results are waited for, and the files of an executor without a name are
        removed; without it its jobs go on. `cancel_futures`: end all jobs that are not over.
        """
        if os.getpid() != self._process:
            return  # all is the other process's
        with self._lock:
            self._is_shut_down = True
        self._join_submissions()
        if cancel_futures:
            for future in self.futures():
                future.cancel()
        if not wait:
            self._folder.release()
            return
        wait_for(self.futures())
        with self._lock:
            threads, self._threads = self._threads, []
        if threads:
            self._to_submit.put(None)
            self._ended.put(None)
        for thread in threads:
            thread.join()
        atexit.unregister(self._join_submissions)
        if self._owns_cluster:
            self.cluster.close()
        self._folder.release()
        if not self.name:
            self.clear()
            self._folder.remove_if_empty()

    # Threads

    def _join_submissions(self) -> None:
        if os.getpid() == self._process:  # a forked process has none of the threads
            self._to_submit.join()

    def _submit_all(self) -> None:
        """Whatever waits goes in one step."""
        while (work := self._to_submit.get()) is not None:
            together, size = [work], work.size
            while len(together) < MOST_TOGETHER and size < MOST_BYTES_TOGETHER:
                try:
                    following = self._to_submit.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    self._to_submit.put(None)
                    self._to_submit.task_done()
                    break
                together.append(following)
                size += following.size
            try:
                self._submit_together(together)
            finally:
                for _ in together:
                    self._to_submit.task_done()
        self._to_submit.task_done()

    def _submit_together(self, works: list[_Work]) -> None:
        try:
            jobs = self.cluster.submit_many([work.request for work in works if work.request is not None])
        except Exception as error:  # whatever it is, who waits must hear of it
            if len(works) > 1 and isinstance(error, _REFUSALS):  # one of them may be wrong, and not the others
                for work in works:
                    self._submit_together([work])
                return
            for part in itertools.chain.from_iterable(work.parts for work in works):
                part.failed(error)
            return
        for work, job in zip(works, jobs, strict=True):
            try:
                self._folder.note_job(work.batch, job.id, self.cluster.folder)
            except OSError:
                pass  # another program finds the job by its command
            self._await(work, job)

    def _await(self, work: _Work, job: Job) -> None:
        """Its ends settle the futures."""
        numbers = [element_id(array_of(job.id), part.index) for part in work.parts]
        for part, number in zip(work.parts, numbers, strict=True):
            part.submitted_as(self.cluster.job(number))
        try:
            ends = self.cluster.futures(numbers)
        except GschedError as error:
            for part in work.parts:
                part.failed(error)
            return
        for part, end in zip(work.parts, ends, strict=True):
            end.add_done_callback(partial(self._has_ended, work, part))

    def _has_ended(self, work: _Work, part: CallPart, end: Future[JobEnd]) -> None:
        self._ended.put((work, part, end))

    def _settle_all(self) -> None:
        while (found := self._ended.get()) is not None:
            self._settle(*found)
            if self._ended.empty():
                self._folder.let_go()
        self._folder.let_go()

    def _settle(self, work: _Work, part: CallPart, ended: Future[JobEnd]) -> None:
        try:
            end = ended.result()
            outcomes = self._folder.outcomes(work.batch, part.index, end.job_id, is_expected=end.succeeded) or []
        except Exception as error:  # whatever it is, who waits must hear of it
            part.failed(error)
            return
        where = f"Job <{show_job(end.job_id)}>{f' on {end.host}' if end.host else ''}"
        part.settle(outcomes, where, self._folder.missing(end, where))

    # Finding again

    def _find_again(self) -> None:
        """The calls of programs before."""
        unknown = []
        for batch in self._folder.batches():
            work = _Work(batch)
            self._works.append(work)
            if self._has_all_results(work):
                continue
            known = self._folder.job_of(batch)
            if known is not None and known[1] == self.cluster.folder:
                self._await(work, self.cluster.job(known[0]))
            else:
                unknown.append(work)
        if unknown:
            self._find_jobs(unknown)

    def _has_all_results(self, work: _Work) -> bool:
        """Whether all are there; they are the futures' then."""
        found = [self._folder.kept(work.batch, part.index) or [] for part in work.parts]
        if any(len(outcomes) < len(part.futures) for part, outcomes in zip(work.parts, found, strict=True)):
            return False
        known = self._folder.job_of(work.batch)
        for part, outcomes in zip(work.parts, found, strict=True):
            number = element_id(array_of(known[0]), part.index) if known else 0
            if number:
                part.submitted_as(self.cluster.job(number))
            where = f"Job <{show_job(number)}>" if number else self.name
            part.settle(outcomes, where, CallFailed(f"{where}: it has no result"))
        return True

    def _find_jobs(self, works: list[_Work]) -> None:
        """The jobs of batches whose program ended before it heard of them: they name the batch in their commands."""
        since = datetime.fromtimestamp(int(works[0].batch.name[:20]) / 1e9, UTC) - timedelta(minutes=1)
        numbers: dict[str, int] = {}
        for view in itertools.chain(self.cluster.jobs(finished=True), self.cluster.history(since=since)):
            numbers.setdefault(view.spec.command.rpartition(" ")[2].strip("'"), array_of(view.job_id))
        for work in works:
            number = numbers.get(work.batch.name)
            if number is not None:
                self._folder.note_job(work.batch, number, self.cluster.folder)
                self._await(work, self.cluster.job(number))
                continue
            problem = CallFailed(f"{self.name}: a program ended before it had submitted the call: no job makes it")
            for part in work.parts:
                part.failed(problem)


def _is_over(future: CallFuture) -> bool:
    return future.done() and (future.cancelled() or not isinstance(future.exception(), Unavailable))


def _folder(folder: str | os.PathLike[str] | None, name: str) -> str:
    """An absolute path: of the executor's name, or one of its own."""
    if folder is not None:
        return os.path.abspath(path("folder", folder))
    home = home_of(os.getuid(), dict(os.environ))
    own = name or f"unnamed-{os.uname().nodename}-{os.getpid()}-{os.urandom(4).hex()}"
    return str(Path(home) / ".gsched" / "executor" / own)
