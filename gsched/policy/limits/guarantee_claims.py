"""What guaranteed pools keep from a job, in the words and numbers of limits.

To whom nothing is guaranteed, all that is owed to others is beyond a limit; when jobs end that are nobody's, or his
own, it comes back to him. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsched.base.coded_text import AnyText, coded
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.queues.guarantee import LoanPolicy
from gsched.model.scheduling.snapshot import Bucket
from gsched.policy.guarantees.guarantee_use import GuaranteeUse
from gsched.policy.guarantees.pool_state import PoolRefusal
from gsched.policy.limits.limit_claims import OF_POOL, LimitClaim, LimitCounter
from gsched.policy.limits.limit_sections import BUCKET, LimitDenial

_MOST_NAMES = 5


def guarantee_reason(refused: PoolRefusal, bucket: Bucket, use: GuaranteeUse) -> LimitDenial:
    """Why a pool keeps its units from a job of the bucket, as a pending reason."""
    pool, noun = refused.pool, refused.pool.noun
    owners = ", ".join(refused.owners[:_MOST_NAMES]) + (", ..." if len(refused.owners) > _MOST_NAMES else "")
    if refused.slots_per_host:
        text = coded("guarantee.slots_per_host", pool.name)
        return LimitDenial(text, coded("limit.wanted", refused.wanted, refused.free, refused.owed), BUCKET)
    if refused.is_owners_host:
        return LimitDenial(coded("guarantee.owners_host", pool.name, owners), "", BUCKET)
    numbers = coded(
        "guarantee.numbers", refused.wanted, refused.free, noun, refused.owed, _loans(pool.loans, bucket, refused)
    )
    hosts = () if not pool.is_linear else tuple(next(each for each in use.pools if each.pool is pool).hosts)
    return LimitDenial(coded("guarantee.held_back", pool.name, owners), numbers, BUCKET, hosts)


def _loans(loans: LoanPolicy | None, bucket: Bucket, refused: PoolRefusal) -> AnyText:
    """Why nothing of it is lent to the job."""
    if loans is None:
        return coded("guarantee.no_loans")
    if not loans.all_queues and bucket.queue not in loans.queues:
        return coded("guarantee.loans_to_queues", " ".join(loans.queues))
    if loans.duration_s is not None and not loans.lends_to(bucket.queue, bucket.requirement.run_s):
        return coded("guarantee.loans_for", loans.duration_s / 60)
    return coded("guarantee.after_owners" if refused.may_borrow else "guarantee.kept_idle")


def guarantee_claims(use: GuaranteeUse, bucket: Bucket, parts: Sequence[HostAllocation]) -> Iterator[LimitClaim]:
    """What a job of the bucket with those parts takes of what pools leave to it, where it does not borrow."""
    if not use.concerns(bucket):
        return
    for state in use.pools:
        loans = state.pool.loans
        lends = loans is not None and loans.lends_to(bucket.queue, bucket.requirement.run_s)
        if lends or not state.has_part(parts) or state.is_within(bucket, parts):
            continue
        owner = state.owner_of(bucket)
        counter = LimitCounter(OF_POOL, state.pool.name, (owner,) if owner else (), pool=state)
        used = state.used.get("", 0.0) + (state.used.get(owner, 0.0) if owner else 0.0)
        text = coded("guarantee.held_back", state.pool.name, ", ".join(state.guaranteed))
        yield LimitClaim(counter, state.taken(parts), used, used + state.available(bucket, parts), text)
