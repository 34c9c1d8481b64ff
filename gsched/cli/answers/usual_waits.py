"""How long jobs like one have waited, from the history: for `gjobs -p4`, `gadmin explain` and `gadmin estimates`.

The master's reading process tells of the jobs; the engine is not asked, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gsched.model.views.catalogue import Account, AccountFilter, TimeSpan
from gsched.model.views.explanation import JobExplanation
from gsched.policy.future.past_waits import EstimateErrors, PastStart, WaitEstimate, waits_of

if TYPE_CHECKING:
    from gsched.wire.calls.client import Client

LOOKED_AT_S = 30 * 86_400.0
"""Jobs that ended longer ago say nothing about those that wait now."""
MOST_JOBS = 20_000
"""That are looked at for one that waits; of more, those of its user alone, and of the last day."""


def usual_wait(client: Client, found: JobExplanation) -> WaitEstimate | None:
    """What is expected of a job that waits for a place; None: too few such jobs have waited, or it is held."""
    if found.waits_for or not found.submitted_at:
        return None
    for users, since_s in (((), LOOKED_AT_S), ((found.user,), LOOKED_AT_S), ((found.user,), 86_400.0)):
        wanted = AccountFilter(users=users, queues=(found.queue,), completed=TimeSpan(since=found.at - since_s))
        accounts = client.catalogue.few_accounts(wanted, MOST_JOBS)
        if accounts is not None:
            known, _ = waits_of(starts_of(accounts))
            return known.estimate(found.user, found.queue, found.gpus, found.at - found.submitted_at)
    return None


def errors_of_past(accounts: Iterable[Account]) -> EstimateErrors:
    """How far off estimates of these jobs would have been, each made when the job was submitted."""
    return waits_of(starts_of(accounts))[1]


def starts_of(accounts: Iterable[Account]) -> Iterator[PastStart]:
    """Those that have started."""
    for each in accounts:
        if each.dispatched_at is not None:
            gpus = each.gpu_s / each.run_s if each.run_s else 0.0
            yield PastStart(each.user, each.queue, round(gpus, 2), each.submitted_at, each.dispatched_at)
