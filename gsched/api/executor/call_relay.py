"""The calls of an executor whose hosts do not share its folder: they go with their job and come back as its messages.

What lies in the folder is this program's alone: the calls until they are submitted, and outcomes once they were
fetched. It fetches what the job's owner has posted and nobody else, since it is unpickled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from gsched.api.cluster import Cluster
from gsched.api.executor.call_folder import MOST_ELEMENTS, Batch, CallFolder, unpickled
from gsched.api.executor.call_outcome import CallFailed
from gsched.api.executor.run_calls import MOST_BYTES, CallOutcome, result_name, shown_sizes, write_whole
from gsched.api.failure import JobFailed
from gsched.base.errors import BadRequest, GschedError, NotFound
from gsched.base.ids import show_job
from gsched.model.views.message_boxes import RESULT_BOX
from gsched.model.views.view import JobEnd
from gsched.wire.messages.control_action import ControlAction

MOST_OF_ARRAY = 256 << 10
"""Bytes of the arguments of an array: each of its elements gets those of all. A larger map becomes several."""


class RelayedCalls(CallFolder):
    """As CallFolder. The cluster is asked for outcomes."""

    def __init__(self, path: str, cluster: Callable[[], Cluster], *, is_kept: bool = True) -> None:
        super().__init__(path, is_kept=is_kept)
        self._cluster = cluster
        self._fetched: list[int] = []
        """Jobs whose outcomes are here, and still with the master."""

    def check_size(self, function: bytes, calls: Sequence[bytes]) -> None:
        """Raises BadRequest where they are more than goes through the master."""
        size = len(function) + sum(map(len, calls))
        if size > MOST_BYTES:
            held, most = shown_sizes(MOST_BYTES, size)
            raise BadRequest(
                f"the function and the arguments of {len(calls)} call{'s' if len(calls) > 1 else ''} hold {held}: "
                f"{most} are the most that go through the master; a folder= that all hosts share has no such limit"
            )

    def pieces(self, calls: Sequence[bytes], chunk: int) -> Iterator[Sequence[bytes]]:
        """The calls of a map for each of its arrays, in whole elements."""
        start = size = 0
        for at in range(0, len(calls), chunk):
            own = sum(map(len, calls[at : at + chunk]))
            if at > start and (size + own > MOST_OF_ARRAY or at - start >= chunk * MOST_ELEMENTS):
                yield calls[start:at]
                start, size = at, 0
            size += own
        if start < len(calls):
            yield calls[start:]

    def note_job(self, batch: Batch, job_id: int, cluster: str) -> None:
        """The calls are with the master, and no other program asks for them."""
        super().note_job(batch, job_id, cluster)
        if not self._is_kept:
            with suppress(OSError):
                os.unlink(self.path_of(batch))

    def outcomes(self, batch: Batch, index: int, job_id: int, *, is_expected: bool = False) -> list[CallOutcome] | None:
        """Asks the master for those that are not here yet, and keeps them if another program may want them. Raises
        GschedError.
        """
        found = self.kept(batch, index) if self._is_kept else None
        if found is not None:
            return found
        try:
            content = self._cluster().client().attachment(job_id, RESULT_BOX)
        except NotFound:
            return None
        if not content:
            return None  # it was fetched before
        if not self._is_kept:
            self._fetched.append(job_id)
            return unpickled(content, f"the results of job {show_job(job_id)}")
        path = os.path.join(self.path, result_name(batch.name, index))
        try:
            write_whole(path, content)
        except OSError as error:
            raise GschedError(f"{path}: {error.strerror}: results cannot be kept there") from None
        self._fetched.append(job_id)
        return self.kept(batch, index)

    def let_go(self) -> None:
        fetched, self._fetched = self._fetched, []
        if fetched:
            nothing = ControlAction(action="post", text="its results were fetched", box=RESULT_BOX, attachment=b"")
            with suppress(GschedError):  # what cannot be let go of stays with the job's history
                self._cluster().client().control(nothing, fetched)

    def missing(self, end: JobEnd, where: str) -> GschedError:
        """Why a job that is over has left no outcome."""
        return (
            CallFailed(f"{where}: it has ended, and the master has no results of it")
            if end.succeeded
            else JobFailed(end)
        )
