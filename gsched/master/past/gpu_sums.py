"""What jobs made of their GPUs in sums, week by week and by user, project or queue: `geff -sum`.

SQLite adds up the rows of most jobs; of the others (requeued, suspended, of older stores) their events are read, page
by page. Memory grows with the names alone. A job counts whole in the week in which it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msgspec.structs import replace

from gsched.base.errors import BadRequest
from gsched.master.past.finished_accounts import accounts_of
from gsched.model.views.catalogue import Account, AccountFilter, TimeSpan
from gsched.model.views.gpu_sums import BY, MOST_WEEKS, GpuSums, GpuSumsQuery
from gsched.store.history_queries import History

IDS_PER_PAGE = 500


def read_gpu_sums(store: History, wanted: GpuSumsQuery) -> Iterator[list[GpuSums]]:
    """The sums of each week, by name. Raises BadRequest for what cannot be asked."""
    if wanted.by not in BY:
        raise BadRequest(f"Bad argument: sums are by {', '.join(BY)}, not by {wanted.by[:40]}")
    bounds = wanted.bounds
    if not 2 <= len(bounds) <= MOST_WEEKS + 1 or list(bounds) != sorted(set(bounds)):
        raise BadRequest(f"Bad argument: {MOST_WEEKS} weeks are the most, one after the other")
    for place, (begin, end) in enumerate(pairwise(bounds)):
        # What ended within the last second of a span is meant: a week ends just before the next one begins.
        asked = replace(wanted.jobs, ids=(), completed=TimeSpan(since=begin, until=end - 1.0))
        yield _of_week(store, asked, wanted.by, place)


def _of_week(store: History, asked: AccountFilter, by: str, place: int) -> list[GpuSums]:
    found = {
        name: GpuSums(place, name, jobs, held_s, seen_s, busy_s, energy_j, seen_jobs, energy_jobs)
        for name, jobs, held_s, seen_s, busy_s, energy_j, seen_jobs, energy_jobs in store.gpu_sums(asked, by)
    }
    untold = store.gpus_untold(asked)
    for start in range(0, len(untold), IDS_PER_PAGE):
        for account in accounts_of(store, store.rows_of(untold[start : start + IDS_PER_PAGE])):
            if account.gpu_s > 0.0:
                name = getattr(account, by)
                found[name] = _with(found.get(name, GpuSums(place, name)), account)
    return [found[name] for name in sorted(found)]


def _with(sums: GpuSums, account: Account) -> GpuSums:
    energy_j = account.gpu_energy_j
    return replace(
        sums,
        jobs=sums.jobs + 1,
        held_s=sums.held_s + account.gpu_s,
        seen_s=sums.seen_s + account.gpu_seen_s,
        busy_s=sums.busy_s + account.gpu_busy_s,
        energy_j=sums.energy_j + (energy_j or 0.0),
        seen_jobs=sums.seen_jobs + (account.gpu_seen_s > 0.0),
        energy_jobs=sums.energy_jobs + (energy_j is not None),
    )
