"""What is said of planned starts: the time, or why nobody knows it. It plans nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gsched.base.coded_text import AnyText, coded
from gsched.base.ids import show_job
from gsched.base.moments import shown_utc
from gsched.model.jobs.reason import UNKNOWN
from gsched.model.scheduling.snapshot import Bucket
from gsched.policy.future.bookings import Booking
from gsched.policy.future.future_ledgers import Future
from gsched.policy.future.future_limits import LimitsAhead

OTHER_PLANNED = coded(UNKNOWN, coded("planned.waits_for_other"))


def may_be_put_off(rests_on: AnyText, latest: float) -> AnyText:
    """What the time of a planned start rests on, and until when others may put it off."""
    return coded("planned.may_be_put_off", rests_on, shown_utc(latest))


def blocker(future: Future, booking: Booking, otherwise: AnyText = OTHER_PLANNED) -> AnyText:
    """Why nobody knows when the planned job starts: one job in its way whose end is not known, or `otherwise`."""
    wants_gpus = any(part.gpus for part in booking.allocation.hosts)
    blocking = sorted(_unknown_on(future, booking, wants_gpus))
    if not blocking:
        return otherwise
    _, job_id = blocking[0]
    running = future.snapshot.running.get(job_id)
    if running is not None and running.state in ("USUSP", "SSUSP"):
        return coded(UNKNOWN, coded("planned.suspended", show_job(job_id)))
    if running is not None and running.ends_at < math.inf:
        return coded(UNKNOWN, coded("planned.overrun", show_job(job_id)))
    return coded(UNKNOWN, coded("planned.no_run_limit", show_job(job_id)))


def last_estimate(future: Future, ahead: LimitsAhead, booking: Booking) -> tuple[float, AnyText] | None:
    """The last of the jobs that a planned start of a known time waits for whose end is only estimated: that end, and
    what the start rests on besides run limits; None where there is none.
    """
    found = max((*_estimated_on(future, booking), *ahead.estimated(booking)), default=None)
    if found is None:
        return None
    end, job_id, bucket = found
    return end, coded(future.estimates.source(bucket), show_job(job_id))


def _estimated_on(future: Future, booking: Booking) -> Iterator[tuple[float, int, Bucket]]:
    """(expected end, job, its bucket) of those without a run limit that leave its hosts before it starts."""
    for part in booking.allocation.parts:
        for key, held in future.snapshot.ledger.host(part.host).held.items():
            bucket, running = future.bucket_of(part.host, key, held), future.snapshot.running.get(key[0])
            if bucket is None:
                continue
            is_limited = bucket.requirement.run_s is not None if running is None else running.ends_at < math.inf
            end = future.end_of(part.host, key, held)
            if not is_limited and future.soon < end <= booking.start:
                yield end, key[0], bucket
        for other in future.booked(part.host):
            if other.bucket.requirement.run_s is None and future.soon < other.end <= booking.start < math.inf:
                yield other.end, other.job_id, other.bucket


def _unknown_on(future: Future, booking: Booking, wants_gpus: bool) -> Iterator[tuple[bool, int]]:
    """(it holds nothing that the job lacks, job id) of those on its hosts whose end is not known."""
    for part in booking.allocation.parts:
        host_ledger = future.snapshot.ledger.host(part.host)
        for key, held in host_ledger.held.items():
            if math.isinf(future.end_of(part.host, key, held)):
                yield wants_gpus and not held.gpus, key[0]
        for other in future.booked(part.host):
            if other.job_id != booking.job_id and math.isinf(other.end):
                yield wants_gpus and not other.part_on(part.host).gpus, other.job_id
