"""Jobs that have finished so long ago that nothing of them is in memory: as the store's events tell of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gsched.base.ids import array_of, index_of
from gsched.master.past.reader import PastReader
from gsched.model.jobs.job import JobState
from gsched.model.views.catalogue import MOST_NAMED, Account, AccountFilter
from gsched.model.views.view import JobEnd, JobView
from gsched.wire.messages.convert import fill, from_proto
from gsched.wire.v1 import catalogue_pb2


class Finished:
    """Finished jobs, of which the reading process is asked. For the gRPC loop alone; raises GschedError when that
    process does not answer.
    """

    def __init__(self, reader: PastReader) -> None:
        self._reader = reader

    async def job(self, job_id: int) -> JobView | None:
        """A finished job, or an element of an array; None when there is none of that number."""
        found = [each for each in await self._accounts([job_id]) if each.job_id == job_id]
        return found[0].job if found else None

    async def any_of(self, job_id: int) -> JobView | None:
        """The same; of an array any of its elements."""
        found = await self._accounts([job_id])
        return found[0].job if found else None

    async def ends(self, job_ids: Sequence[int]) -> list[JobEnd]:
        """How the jobs ended, arrays when the last of their elements had; without a state those that did not."""
        ends: list[JobEnd] = []
        for start in range(0, len(job_ids), MOST_NAMED):
            part = job_ids[start : start + MOST_NAMED]
            by_number: dict[int, list[Account]] = {}
            for account in await self._accounts(part):
                by_number.setdefault(account.job_id, []).append(account)
                if index_of(account.job_id):
                    by_number.setdefault(array_of(account.job_id), []).append(account)
            ends += [_end(job_id, by_number.get(job_id, ())) for job_id in part]
        return ends

    async def _accounts(self, job_ids: Iterable[int]) -> list[Account]:
        request = catalogue_pb2.AccountsRequest(jobs=True)
        fill(request.filter, AccountFilter(ids=tuple(job_ids)))
        replies = [reply async for reply in self._reader.accounts(request)]
        return [from_proto(account, Account) for reply in replies for account in reply.accounts]


def _end(job_id: int, accounts: Sequence[Account]) -> JobEnd:
    if not accounts:
        return JobEnd(job_id=job_id, state="")
    first = accounts[0]
    if first.job_id != job_id:  # an array, told by its elements
        counts = Counter(account.state for account in accounts)
        state = JobState.EXIT if JobState.EXIT in counts else JobState.DONE
        name = first.job.spec.name if first.job is not None else ""
        return JobEnd(job_id=job_id, state=state.value, name=name, counts=dict(counts))
    job = first.job
    host = job.allocation.first_host if job is not None and job.allocation is not None else ""
    result = job.result if job is not None else None
    return JobEnd(job_id=job_id, state=first.state, result=result, host=host, name=first.name)
