"""Ledgers of hosts at later times: what is expected to be held there when some have ended and planned jobs run.

It copies ledgers and never changes those of the cycle; who may start is decided in gsched.policy.backfill.reservations.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Iterator, Sequence

from msgspec import structs

from gsched.model.ledgers.allocation import SHARING, Allocation, HeldGpu, HostAllocation
from gsched.model.ledgers.devices import held_of
from gsched.model.ledgers.host_ledger import AttemptKey, HostLedger
from gsched.model.scheduling.snapshot import AdvanceReservation, Bucket, Running, Snapshot
from gsched.policy.devices import cpu_affinity
from gsched.policy.future.bookings import CANDIDATE, KEPT, NEVER_ENDS, RESIZED, Booking
from gsched.policy.future.run_estimates import RunEstimates
from gsched.policy.future.started_later import NOBODY, StartedLater
from gsched.policy.match.fit_condition import RoomCondition, refusal
from gsched.policy.match.host_now import FitRules, HostNow
from gsched.policy.match.room_conditions import beside_devices
from gsched.policy.order.fairshare import queue_priority

OVERRUN_S = 60.0
"""A job this long beyond its run limit is no longer expected to end soon: its end is unknown."""
MOST_CHANGES = 8
"""About as many times at which amounts get free before their jobs end are looked at on one host, or of one plan."""
_KEPT_AS = "conditions of parts"
_MOST_CONDITIONS = 4096
_SUSPENDED = frozenset({"USUSP", "SSUSP"})
PlacedHolding = tuple[HostAllocation, float, Bucket | None]
"""What a job holds on one host, its expected end (UTC seconds, infinite when nobody knows), whose it is."""


class Future:
    """What the hosts of a cycle will hold, by the run limits of what runs, is placed and is planned."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self.snapshot = snapshot
        self.now = now
        self.estimates = RunEstimates(snapshot)
        self._estimated: dict[int, float] = {}
        """Started job without a run limit -> when it is expected to end."""
        self._rules = FitRules.of(snapshot, now)
        memo = {} if snapshot.columns is None else snapshot.columns.memo
        self._conditions: dict[int, tuple[HostAllocation, list[RoomCondition]]] = memo.setdefault(_KEPT_AS, {})
        """Identity of a part -> the part, and what must be free for it; plans keep their parts from cycle to cycle."""
        if len(self._conditions) > _MOST_CONDITIONS:
            self._conditions.clear()
        self.soon = math.nextafter(now, math.inf)
        """When jobs that are ending now are expected to have ended."""
        self.ending: set[int] = set()
        """Jobs that this cycle asks to end."""
        self.keeps: dict[int, Allocation] = {}
        """Of them those that go on with another number of GPUs -> what they hold then."""
        self.stopped: set[int] = set()
        """Jobs that this cycle suspends: nobody knows when they end."""
        self.bookings: dict[int, Booking] = {}
        """Job id -> planned job."""
        self._on_host: dict[str, set[int]] = {}
        self.windows: dict[str, list[AdvanceReservation]] = {}
        """Host -> advance reservations that are not over."""
        for window in snapshot.reservations:
            if window.end > now:
                for host in dict.fromkeys([*window.slots, *window.gpus]):
                    self.windows.setdefault(host, []).append(window)
        self.placements: list[PlacedHolding] = []
        """What this cycle has placed, in order, whether it stands in a ledger yet or is put off there."""
        self._placed: dict[str, list[PlacedHolding]] = {}
        """The first `_sorted_in` of them by host."""
        self._sorted_in = 0
        self.turns: dict[int, int] = {}
        """Job that was placed in this cycle -> how many had been before."""

    # -- planned jobs ---------------------------------------------------------------------------------------------

    def book(self, booking: Booking) -> None:
        """Enter a planned job, or what has changed about it on the same hosts."""
        self.bookings[booking.job_id] = booking
        for part in booking.allocation.parts:
            self._on_host.setdefault(part.host, set()).add(booking.job_id)

    def unbook(self, job_id: int) -> None:
        """Take a planned job out."""
        for part in self.bookings.pop(job_id).allocation.parts:
            jobs = self._on_host[part.host]
            jobs.discard(job_id)
            if not jobs:
                del self._on_host[part.host]

    def booked(self, host: str) -> list[Booking]:
        """Planned jobs that will hold something on the host."""
        return [self.bookings[job_id] for job_id in self._on_host.get(host, ())]

    def booked_hosts(self) -> Collection[str]:
        """Hosts on which something is planned."""
        return self._on_host.keys()

    # -- what is known of ends ------------------------------------------------------------------------------------

    def end_of_running(self, running: Running) -> float:
        """When a started job is expected to end."""
        if running.is_ending or running.job_id in self.ending:
            return max(self.soon, running.save_by)
        if running.state in _SUSPENDED or running.job_id in self.stopped:
            return NEVER_ENDS
        if running.ends_at == NEVER_ENDS:
            return self._estimated_end(running)
        if running.ends_at > self.now:
            return running.ends_at
        return self.soon if self.now - running.ends_at <= OVERRUN_S else NEVER_ENDS

    def _estimated_end(self, running: Running) -> float:
        found = self._estimated.get(running.job_id)
        if found is None:
            end = self.estimates.end_of(running, self.now)
            found = self._estimated[running.job_id] = NEVER_ENDS if end is None else end
        return found

    def run_s(self, bucket: Bucket) -> float:
        """How long a job of the bucket that starts is expected to run; infinite when nobody knows."""
        found = self.estimates.run_s(bucket)
        return NEVER_ENDS if found is None else found

    def end_of(self, host: str, key: AttemptKey, part: HostAllocation, *, by_limits: bool = False) -> float:
        """When a holding in the cycle's ledger is expected to end; `by_limits`: as far as run limits tell alone."""
        running = self.snapshot.running.get(key[0])
        if running is not None and running.attempt == key[1]:
            end = self.end_of_running(running)
            return NEVER_ENDS if by_limits and running.ends_at == NEVER_ENDS and end > self.soon else end
        for placed, end, bucket in self.placed_on(host):
            if placed is part:
                is_limited = bucket is None or bucket.requirement.run_s is not None
                return end if is_limited or not by_limits else NEVER_ENDS
        return NEVER_ENDS

    def staying(self, host: str, later: StartedLater) -> list[Booking]:
        """Those of unknown end on the host for whom a job that is planned there for an unknown time does not wait."""
        found: list[Booking] = []
        if later is NOBODY:
            return found
        for key, part in self.snapshot.ledger.host(host).held.items():
            bucket, running = self.bucket_of(host, key, part), self.snapshot.running.get(key[0])
            is_later = later.has(key[0], None if running and running.attempt == key[1] else self.turn_of(key[0]))
            if bucket is not None and is_later and math.isinf(self.end_of(host, key, part)):
                job_id = CANDIDATE - 1 - len(found)
                found.append(Booking(job_id, bucket, 0, self.now, NEVER_ENDS, Allocation(hosts=(part,))))
        return found

    def turn_of(self, job_id: int) -> int:
        """How many jobs had been placed before it in this cycle; of one that is just being placed, all."""
        return self.turns.get(job_id, len(self.turns))

    def placed_for_long(self, hosts: Iterable[str]) -> Iterator[tuple[int, int]]:
        """(job, turn) of those that were placed there in this cycle, and nobody knows when they end."""
        for host in hosts:
            for key, part in self.snapshot.ledger.host(host).held.items():
                if key[0] in self.turns and math.isinf(self.end_of(host, key, part)):
                    yield key[0], self.turns[key[0]]

    def started(self, job_id: int) -> None:
        """A job has been placed in this cycle as a whole."""
        self.turns[job_id] = len(self.turns)

    def placed(self, part: HostAllocation, ends_at: float, bucket: Bucket | None) -> None:
        """A job was placed in this cycle and stands in its ledger."""
        self.placements.append((part, ends_at, bucket))

    def placed_on(self, host: str) -> Sequence[PlacedHolding]:
        """What was placed on the host in this cycle."""
        if self._sorted_in < len(self.placements):
            for each in self.placements[self._sorted_in :]:
                self._placed.setdefault(each[0].host, []).append(each)
            self._sorted_in = len(self.placements)
        return self._placed.get(host, ())

    def releases(self, host: str) -> list[float]:
        """Times when something gets free on the host, ascending; infinity stands for ends that nobody knows."""
        host_ledger = self.snapshot.ledger.host(host)
        ends = {self.end_of(host, key, part) for key, part in host_ledger.held.items()}
        ends.update(_few(host_ledger.changes()))
        ends.update(self.ends_of_plans(host))
        return sorted(ends)

    def ends_of_plans(self, host: str) -> set[float]:
        """The same of what is only planned there, by jobs and by advance reservations."""
        ends = {window.end for window in self.windows.get(host, ())}
        for booking in self.booked(host):
            ends.add(booking.end)
            ends.update(_few(booking.part_on(host).changes(booking.start)))
        return ends

    def given_back(self, hosts: Container[str]) -> list[float]:
        """Times at which jobs give something back on any of the hosts before they end."""
        ledger = self.snapshot.ledger
        return [at for host in ledger.giving_back() if host in hosts for at in _few(ledger.host(host).changes())]

    # -- ledgers --------------------------------------------------------------------------------------------------

    def host_ledger(self, host: str, at: float, priority: int = 0, inside: str = "") -> HostLedger:
        """The ledger at a time: without what has ended by then, with what is planned for then.

        `priority`: of the queue for whose job one looks: preempted jobs of lower queues do not count as going on.
        `inside`: the advance reservation whose resources count as free, since it is its jobs that are looked at.
        """
        host_ledger = self.held(host, at, priority)
        for booking in self.booked(host):
            if booking.is_active(at):
                host_ledger.take(booking.key, booking.part_on(host), booking.start)
        self.keep_windows(host_ledger, at, inside)
        return host_ledger

    def held(self, host: str, at: float, priority: int = 0, *, by_limits: bool = False) -> HostLedger:
        """The ledger at a time without planned jobs and advance reservations. `by_limits`: with jobs that are only
        estimated to have ended by then.
        """
        host_ledger = self.snapshot.ledger.host(host).copy()
        for key, part in list(host_ledger.held.items()):
            if self.end_of(host, key, part, by_limits=by_limits) <= at:
                host_ledger.give(key)
                kept = self._kept_on(host, key, at)
                if kept is not None:
                    host_ledger.take((key[0], RESIZED), kept)
            elif key in host_ledger.suspended and self._goes_on_before(key, priority):
                host_ledger.resume(key)
        host_ledger.advance(at)
        return host_ledger

    def _kept_on(self, host: str, key: AttemptKey, at: float) -> HostAllocation | None:
        """What the job, whose attempt has ended by then, holds on the host because it goes on with other GPUs."""
        running = self.snapshot.running.get(key[0])
        if running is None or running.attempt != key[1]:
            return None
        keeps = self.keeps.get(key[0], running.keeps)
        if keeps is None or at >= running.ends_at:
            return None
        return next((part for part in keeps.parts if part.host == host), None)

    def _goes_on_before(self, key: AttemptKey, priority: int) -> bool:
        running = self.snapshot.running.get(key[0])
        return running is not None and self.priority(running.bucket) >= priority

    def priority(self, bucket: Bucket) -> int:
        """Priority of the bucket's queue."""
        return queue_priority(self.snapshot.queues, bucket.queue)

    def keep_windows(self, host_ledger: HostLedger, at: float, inside: str = "") -> None:
        """Take what advance reservations keep on the host at the time and their jobs do not hold yet."""
        for number, window in enumerate(self.windows.get(host_ledger.host, ())):
            if window.start <= at < window.end and window.name != inside:
                slots, gpus = self.left_of(window, host_ledger)
                if slots or gpus:
                    kept = HostAllocation(
                        host=host_ledger.host, slots=slots, gpus=tuple(idle_gpus(host_ledger)[::-1][:gpus])
                    )
                    host_ledger.take((number, KEPT), kept)

    def left_of(self, window: AdvanceReservation, host_ledger: HostLedger) -> tuple[int, int]:
        """Slots and GPUs that the reservation keeps on the host beyond what its own jobs hold in this ledger."""
        slots, gpus = window.slots.get(host_ledger.host, 0), window.gpus.get(host_ledger.host, 0)
        for key, part in host_ledger.held.items():
            bucket = self.bucket_of(host_ledger.host, key, part)
            if bucket is not None and bucket.requirement.reservation == window.name:
                slots -= 0 if key in host_ledger.suspended else part.slots
                gpus -= part.whole_gpus
        return max(0, slots), max(0, gpus)

    def bucket_of(self, host: str, key: AttemptKey, part: HostAllocation) -> Bucket | None:
        """Whose the holding is, that runs, was placed in this cycle or is planned; None when nobody knows."""
        running = self.snapshot.running.get(key[0])
        if running is not None and running.attempt == key[1]:
            return running.bucket
        for placed, _, bucket in self.placed_on(host):
            # What has been given back by then makes another part of it; the very same courses mean the same class.
            if placed is part or (placed.courses and placed.courses is part.courses):
                return bucket
        return next((each.bucket for each in self.booked(host) if each.key == key), None)

    def kept_at(self, host_ledger: HostLedger, at: float, inside: str = "") -> tuple[int, int, list[str]]:
        """Slots and GPUs that all advance reservations of the time lack in this ledger, but for `inside`; and whose."""
        slots, gpus, names = 0, 0, []
        for window in self.windows.get(host_ledger.host, ()):
            if window.start <= at < window.end and window.name != inside:
                more = self.left_of(window, host_ledger)
                slots, gpus = slots + more[0], gpus + more[1]
                names += [window.name] if any(more) else []
        return slots, gpus, names

    # -- do planned jobs fit together -----------------------------------------------------------------------------

    def settle(self, host: str, bookings: Iterable[Booking]) -> list[Booking] | Booking:
        """The planned jobs as they fit on the host one after the other; or the first that does not fit, or that leaves
        too little beside the others to an advance reservation that begins.

        One without a job's number is a candidate that starts now, or runs: its part is left as it is.
        """
        settled: list[Booking] = []
        for booking in sorted(bookings, key=lambda each: (each.start, each.job_id)):
            if booking.job_id <= CANDIDATE:
                settled.append(booking)
                continue
            knows_nobody = math.isinf(booking.start)  # else those that run are in the ledger of that time
            others = [
                each for each in settled if each.is_active(booking.start) and (knows_nobody or each.job_id >= CANDIDATE)
            ]
            fitted = self._beside(host, booking, others)
            if fitted is None:
                return booking
            settled.append(fitted)
        return self._first_to_yield(host, settled) or settled

    def _first_to_yield(self, host: str, settled: Sequence[Booking]) -> Booking | None:
        """The last planned one of the jobs that will run when an advance reservation begins and leave it too little."""
        for window in self.windows.get(host, ()):
            at = window.start
            there = [each for each in settled if at > self.now and each.job_id >= CANDIDATE]
            active = [each for each in there if each.start <= at < each.last_end]
            planned = [each for each in active if each.job_id > CANDIDATE]
            if len(active) < 2 or not planned:
                continue  # one alone is looked at by itself
            host_ledger = self.held(host, at, min(each.priority for each in planned), by_limits=True)
            for each in active:
                host_ledger.take(each.key, each.part_on(host), each.start)
            slots, gpus, _ = self.kept_at(host_ledger, at)
            lacks_slots = host_ledger.free_slots is not None and host_ledger.free_slots < slots
            lacks_gpus = len(idle_gpus(host_ledger)) < gpus
            for each in reversed(planned):
                part = each.part_on(host)
                if (lacks_slots and part.slots) or (lacks_gpus and part.whole_gpus):
                    return each
        return None

    def _beside(self, host: str, booking: Booking, others: list[Booking]) -> Booking | None:
        host_ledger = self.held(host, booking.start, booking.priority)
        for other in others:
            host_ledger.take(other.key, other.part_on(host), other.start)
        self.keep_windows(host_ledger, booking.start, inside=booking.bucket.requirement.reservation)
        part = booking.part_on(host)
        fitted = self.refit(part, host_ledger)
        if fitted is None:
            return None
        return booking if fitted is part else booking.with_part(fitted)

    # -- does it fit ----------------------------------------------------------------------------------------------

    def refit(self, part: HostAllocation, host_ledger: HostLedger) -> HostAllocation | None:
        """The part as it fits this ledger, with other devices of the same kind if need be; None when it does not."""
        host = self.snapshot.hosts.get(part.host)
        if host is None or refusal(self._conditions_of(part), HostNow(host, host_ledger)) is not None:
            return None
        gpus = self._devices(part, host_ledger)
        if gpus is None:
            return None
        found = part if gpus == part.gpus else structs.replace(part, gpus=gpus)
        if part.bindings:
            bindings = cpu_affinity.rechoose(host_ledger, part.bindings)
            if bindings is None:
                return None
            found = found if bindings == part.bindings else structs.replace(found, bindings=bindings)
        return found

    def _conditions_of(self, part: HostAllocation) -> list[RoomCondition]:
        found = self._conditions.get(id(part))
        if found is None:
            found = self._conditions[id(part)] = (part, beside_devices(part, self._rules))
        return found[1]

    @staticmethod
    def _devices(part: HostAllocation, host_ledger: HostLedger) -> tuple[HeldGpu, ...] | None:
        """The part's devices, each that cannot be claimed replaced by another of its model."""
        chosen: dict[str, HeldGpu] = {}
        homeless = []
        for held in part.gpus:
            if _is_free(held, host_ledger):
                chosen[held.uuid] = held
            else:
                homeless.append(held)
        for held in homeless:
            old, taken = host_ledger.gpus.get(held.uuid), () if held.claim in SHARING else host_ledger.holders
            others = (gpu for gpu in host_ledger.gpus.values() if gpu.uuid not in taken and gpu.uuid not in chosen)
            for gpu in sorted(others, key=lambda gpu: gpu.index):
                other = held_of(gpu, held.claim, held.share, held.gmem_mib)
                is_alike = (old is None or gpu.model == old.model) and other.profile == held.profile
                if is_alike and _is_free(other, host_ledger):
                    chosen[gpu.uuid] = other
                    break
            else:
                return None
        return tuple(sorted(chosen.values(), key=lambda held: held.index)) if homeless else part.gpus


def _is_free(held: HeldGpu, host_ledger: HostLedger) -> bool:
    return host_ledger.exclusive is None and host_ledger.may_hold(held)


def _few(times: Iterable[float]) -> list[float]:
    """The last of the times at which one thing after the other gets free, and a few before it: searches are bounded."""
    found = sorted(at for at in times if at < NEVER_ENDS)
    return [at for place, at in enumerate(reversed(found)) if place % max(1, len(found) // MOST_CHANGES) == 0]


def idle_gpus(host_ledger: HostLedger) -> list[HeldGpu]:
    """Usable devices that nobody holds, lowest index first, as holdings that nobody can share."""
    return [
        held_of(gpu, "ngpus")
        for gpu in sorted(host_ledger.gpus.values(), key=lambda gpu: gpu.index)
        if host_ledger.is_idle(gpu)
    ]
