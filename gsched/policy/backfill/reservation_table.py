"""Who something is reserved for in one cycle, and where the cycle before had planned them.

Jobs are reserved for in serving order, only so many of each queue (Queue.reserved_jobs), and beyond them the first ones
that could use none of the same hosts. What was planned before reserves nothing: it is where a job of the class looks
first, so that plans stay while nobody who comes before needs the place. It searches for nothing, and judges nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from gsched.model.scheduling.column_part import Flags
from gsched.model.scheduling.snapshot import Bucket, Snapshot
from gsched.policy.backfill.asks_fit import AsksFit
from gsched.policy.backfill.reserved_start import ReservedStart, start_of
from gsched.policy.future.future_ledgers import Future
from gsched.policy.order.queue_class import QueueClass, kind_of

MOST_TOLD = 64
"""Jobs that nothing is reserved for of which it is said why."""
MOST_APART = 32
"""Jobs of one queue, beyond its `reserved_jobs`, that something is reserved for on hosts of their own."""


@dataclass(slots=True)
class _QueuePlaces:
    """Of one queue."""

    left: int
    """So many more jobs may be reserved for, wherever they could run."""
    apart: int
    """So many more may on hosts that none of the others could use."""
    reach: Flags | None = None
    """Hosts that one of those could use for which something is reserved; None: not known."""
    is_all: bool = False
    """Whether these are all that the queue uses."""


class ReservationTable:
    """For one cycle."""

    def __init__(self, future: Future, trial: AsksFit) -> None:
        self._future = future
        self._trial = trial
        self.reserved_starts: dict[int, ReservedStart] = {}
        """Job id -> its plan, of this cycle."""
        self._told: set[int] = set()
        """Jobs of which this cycle says why nothing is reserved for them."""
        self._before: dict[QueueClass, list[tuple[int, ReservedStart]]] = {}
        """What the cycle before planned for jobs of a class, as long as no job has taken it: see `_place`."""
        self._displaced: set[int] = set()
        """Jobs whose place, planned by the cycle before, one of their class has taken that comes first."""
        self._places = {
            name: _QueuePlaces(queue.reserved_jobs, MOST_APART if queue.reserved_jobs else 0)
            for name, queue in future.snapshot.queues.items()
        }
        planned = future.snapshot.planned.items()
        old = [(job_id, each) for job_id, each in planned if isinstance(each, ReservedStart)]
        for job_id, reserved in sorted(old, key=_place):
            self._before.setdefault(kind_of(reserved.bucket), []).append((job_id, reserved))

    # -- how many -------------------------------------------------------------------------------------------------

    def may_reserve(self, queue: str, usable: Flags | None) -> bool:
        """Whether a job of the queue that could use these hosts, flags in the order of names, may be reserved for."""
        places = self._places.get(queue)
        if places is None or places.left > 0:
            return places is not None
        if not places.apart or places.reach is None or usable is None or places.is_all:
            return False
        return bool(usable.any()) and not bool((usable & places.reach).any())

    def is_room(self, queue: str) -> bool:
        """Whether any job of the queue may be reserved for."""
        places = self._places.get(queue)
        if places is None or places.left > 0:
            return places is not None
        return places.apart > 0 and places.reach is not None and not places.is_all

    def is_room_for_all(self, queue: str) -> bool:
        """Whether a further job may be reserved for whichever hosts it could use."""
        places = self._places.get(queue)
        return places is not None and places.left > 0

    def is_untouched(self, queue: str) -> bool:
        """Whether nothing has been reserved for any job of the queue."""
        return self._places[queue].left == self._future.snapshot.queues[queue].reserved_jobs

    def count(self, queue: str, usable: Flags | None) -> None:
        """Something has been reserved for a job of the queue that could use these hosts."""
        places = self._places[queue]
        if places.left > 0:
            places.left -= 1
        else:
            places.apart = max(0, places.apart - 1)
        open_to_queue = self._trial.open_to(queue) if places.apart else None
        if usable is None or open_to_queue is None:
            places.apart = 0
        else:
            places.reach = usable if places.reach is None else places.reach | usable
            places.is_all = not bool((open_to_queue & ~places.reach).any())

    # -- plans ----------------------------------------------------------------------------------------------------

    def before(self, kind: QueueClass) -> ReservedStart | None:
        """The first of those that the cycle before planned for jobs of the class and nobody has taken yet."""
        found = self._before.get(kind)
        return found[0][1] if found else None

    def is_planned_before(self, queue: str) -> bool:
        """Whether the cycle before reserved something for a job of the queue, which nobody has taken yet."""
        return any(
            each.allocation is not None for kind, found in self._before.items() if kind[0] == queue for _, each in found
        )

    def is_kept(self, job_id: int, bucket: Bucket) -> bool:
        """Whether the cycle before reserved something for a job of this very bucket, which nobody has taken yet, or for
        this job, and one of its class that comes first has taken that.
        """
        return job_id in self._displaced or any(
            each.bucket == bucket and each.allocation is not None for _, each in self._before.get(kind_of(bucket), ())
        )

    def take(self, job_id: int, bucket: Bucket) -> ReservedStart | None:
        """What was planned for the job of the bucket, else for the first of its class: it is the job's now.

        Who started beside another one's plan ran already when the job got it. But where users take turns, the plan goes
        to and fro between them, and is one for all.
        """
        found = self._before.get(kind_of(bucket))
        if not found:
            return None
        own = next((number for number, each in enumerate(found) if each[0] == job_id), None)
        if own is not None:
            return found.pop(own)[1]
        other, reserved = found.pop(0)
        if reserved.allocation is not None:
            self._displaced.add(other)
        if not reserved.later or self._take_turns(reserved.bucket, bucket):
            return reserved
        return structs.replace(reserved, later=frozenset())

    def _take_turns(self, one: Bucket, other: Bucket) -> bool:
        """Whether jobs of the two, which are of one queue, are served in turn, and not in the order of one user."""
        return _is_fair(self._future.snapshot, one) and (one.user, one.user_group) != (other.user, other.user_group)

    def latest_of(self, queue: str, own: ReservedStart | None) -> float | None:
        """Until when others may put off what is planned first for the queue: as long as was said of the job, else of
        who was planned before it and has not started. If it began anew where users take turns, it might never end.
        """
        if own is not None and own.latest is not None:
            return own.latest
        running = self._future.snapshot.running
        others = (item for kind, found in self._before.items() if kind[0] == queue for item in found)
        waiting = [each.latest for job_id, each in others if job_id not in running and each.latest is not None]
        return min(waiting, default=None)

    def confirm(self, job_id: int, reserved: ReservedStart) -> None:
        """This is the plan of this cycle; where nothing is reserved only so many are told why."""
        if reserved.allocation is None:
            if len(self._told) >= MOST_TOLD:
                return
            self._told.add(job_id)
        self.reserved_starts[job_id] = reserved

    def rest(self) -> dict[int, ReservedStart]:
        """What was planned for jobs to which the cycle has not come."""
        return {job_id: each for found in self._before.values() for job_id, each in found}

    def settle(self, host: str) -> None:
        """Let the planned jobs of a host choose their devices anew; whoever no longer fits loses the plan."""
        bookings = self._future.booked(host)
        while bookings:
            settled = self._future.settle(host, bookings)
            if isinstance(settled, list):
                for booking in settled:
                    self._future.book(booking)
                return
            self._future.unbook(settled.job_id)
            self.reserved_starts.pop(settled.job_id, None)
            bookings = self._future.booked(host)


def coming_first(snapshot: Snapshot) -> list[tuple[int, Bucket]]:
    """Jobs of queues with fairshare that the cycle before reserved something for, which was free and left to them, by
    how long they have had it: they come before others of their queue, whoever's turn it is. Who waits for what all is
    in use loses nothing by another one's turn.

    On each host it is one of a queue at the most: else many reservations, made while only one user had jobs, would
    stand before the turns of all others.
    """
    found = [
        (each.since, job_id, each)
        for job_id, each in snapshot.planned.items()
        if isinstance(each, ReservedStart) and each.has_gathered and _is_fair(snapshot, each.bucket)
    ]
    first: list[tuple[int, Bucket]] = []
    hosts: dict[str, set[str]] = {}
    for _, job_id, each in sorted(found, key=lambda one: one[:2]):
        taken, own = hosts.setdefault(each.bucket.queue, set()), set(each.hosts)
        if taken.isdisjoint(own):
            taken |= own
            first.append((job_id, each.bucket))
    return first


def _is_fair(snapshot: Snapshot, bucket: Bucket) -> bool:
    queue = snapshot.queues.get(bucket.queue)
    return queue is not None and queue.fairshare is not None


def _place(planned: tuple[int, ReservedStart]) -> tuple[bool, float, int]:
    """Those that something is reserved for come before those that were only looked at, then by start."""
    job_id, reserved = planned
    return reserved.allocation is None, start_of(reserved), job_id
