"""Lent GPUs: jobs with a range (num=2..8) give back what is beyond their least when a waiting job can start with it.

No job is preempted as a whole for what lent GPUs can give. A job gives back once for all that wait, and while it saves
its state for those that come meanwhile, so that it does not have to end for each of them. Whom it gives them back to is
planned for, like a job that preempts. It ends nothing itself: the plan says who is to go on with fewer GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import structs

from gsched.model.ledgers.allocation import Allocation, HostAllocation, with_gpus
from gsched.model.ledgers.host_ledger import AttemptKey, HostLedger
from gsched.model.scheduling.snapshot import Bucket, Resize, Running, Snapshot
from gsched.policy.backfill.asks_fit import AsksFit
from gsched.policy.backfill.reservations import Reservations
from gsched.policy.future.bookings import RESIZED
from gsched.policy.order.fairshare import queue_priority
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.gpu_range import claim_rank, lent_of, resizable_part, without
from gsched.policy.requirement.reasons import Reason

MOST_SEARCHES = 8
"""Jobs for which one cycle looks for lent GPUs."""
MOST_HOSTS = 64
"""Hosts of one search for a job that runs on one host: those where most is lent."""
MOST_TRIED = 256
"""Hosts of one search for a job that may run on several."""
MOST_ALIKE = 32
"""So many jobs of a kind get their GPUs back at once."""
_TRIED = -9
"""Attempt number under which such jobs stand in ledgers that are only tried."""

_PROMISED = -8
"""The same of those that get what is given back already."""

_Given = Mapping[int, int]
"""Job -> how many of its GPUs it gives back, beside what it does already."""


class LentGpus:
    """For one cycle. `gone`: jobs that are displaced in it."""

    def __init__(
        self, snapshot: Snapshot, now: float, trial: AsksFit, reservations: Reservations, gone: set[int]
    ) -> None:
        self._snapshot = snapshot
        self._now = now
        self._trial = trial
        self._reservations = reservations
        self._gone = gone
        self._searches = 0
        self.resized: dict[int, Resize] = {}
        """Job -> what it goes on with."""
        self._promised: list[Allocation] = []
        """What jobs get that were served before, when those have ended that are ending."""
        self._lenders: dict[str, list[Running]] = {}
        """Host -> jobs there that hold more than their least, or will; those of whom it is taken first come first."""
        found = (snapshot.running[job_id] for job_id in snapshot.elastic if job_id in snapshot.running)
        for each in sorted(found, key=partial(claim_rank, snapshot.queues), reverse=True):
            if each.state == "RUN" and (each.keeps is not None or not each.is_ending) and _lends(each):
                self._lenders.setdefault(each.allocation.first_host, []).append(each)
        self._ending: dict[str, list[Running]] | None = None

    def are_there(self) -> bool:
        """Whether any GPU is lent."""
        return bool(self._lenders)

    def take_back(self, bucket: Bucket, demand: Demand, alike: Sequence[int]) -> bool:
        """Have GPUs given back for a job that fits nowhere: they are held for it. `alike`: it, and the other jobs of
        its class that wait. False where that would not do, or enough is being given back already.

        GPUs are lent until a job of a queue of the same or of higher priority waits for them.
        """
        if not self._lenders or self._searches >= MOST_SEARCHES or not demand.least().get("ngpus"):
            return False
        names = [name for name in self._trial.candidates(bucket, demand) if name in self._snapshot.hosts]
        if self._reservations.ahead.concerns(bucket):  # nobody gives back for a job that a limit keeps from the host
            needs, opens = self._trial.needs(bucket, demand), self._reservations.ahead.opens
            names = [name for name in names if opens(bucket, needs, name) == -math.inf]
        there = {host: found for host in names if (found := self._lenders_on(host, bucket))}
        if not there:
            return False
        self._searches += 1
        lenders = {host: able for host, found in there.items() if (able := list(filter(self._left, found)))}
        coming = self._coming(bucket, demand, names, len(alike))
        self._promised += coming
        if coming:
            self._note_takers(there, dict(zip(alike, coming, strict=False)))
            self._for_others(bucket, demand, lenders, alike[len(coming) :])
        if coming or not lenders:
            return False
        least = self._least_given(bucket, demand, names, lenders)
        return least is not None and self._ask(bucket, demand, *least, alike)

    def _lenders_on(self, host: str, bucket: Bucket) -> list[Running]:
        """Those on the host who lend something yet or give it back, to whom the bucket's jobs need not give way."""
        priority = queue_priority(self._snapshot.queues, bucket.queue)
        return [
            each
            for each in self._lenders.get(host, ())
            if (each.job_id not in self._gone or each.job_id in self.resized)
            and queue_priority(self._snapshot.queues, each.bucket.queue) <= priority
            and (self._left(each) or self._resizes(each))
        ]

    def _goes_on_with(self, lender: Running) -> HostAllocation:
        """What the lender holds when it has given back what it is asked for so far. One that is growing gets none of
        the idle GPUs that others have taken meanwhile.
        """
        resize = self.resized.get(lender.job_id)
        part = resizable_part(lender.keeps or lender.allocation if resize is None else resize.allocation)
        assert part is not None
        if lender.keeps is None:
            return part
        own, may_hold = _uuids(lender.allocation), self._snapshot.ledger.host(part.host).may_hold
        return structs.replace(part, gpus=tuple(gpu for gpu in part.gpus if gpu.uuid in own or may_hold(gpu)))

    def _goes_on_with_fewer(self, lender: Running, gpus: int) -> HostAllocation:
        """The same when it gives back so many more."""
        part = self._goes_on_with(lender)
        return without(part, gpus, _uuids(lender.allocation))

    def _left(self, lender: Running) -> int:
        """How many more GPUs it could give back."""
        held = resizable_part(lender.allocation)
        return lent_of(lender) - (0 if held is None else len(held.gpus) - len(self._goes_on_with(lender).gpus))

    def _coming(self, bucket: Bucket, demand: Demand, names: Sequence[str], most: int) -> list[Allocation]:
        """What the job, and others like it, get as soon as those have ended that are ending already."""
        hosts = [name for name in names if self._is_ending_on(name)]
        order = [*dict.fromkeys([*hosts, *names])][:MOST_TRIED]
        taken: list[Allocation] = []
        while hosts and len(taken) < most:
            found = self._fits(bucket, demand, order, {}, taken)
            if found is None:
                break
            taken.append(found)
        return taken

    def _is_ending_on(self, host: str) -> bool:
        return bool(self._ending_on(host)) or any(
            each.is_ending or each.job_id in self.resized for each in self._lenders.get(host, ())
        )

    def _ending_on(self, host: str) -> list[Running]:
        """Those that are ending there and do not go on at once."""
        if self._ending is None:
            self._ending = {}
            for running in self._snapshot.running.values():
                if running.is_ending and running.keeps is None:
                    for part in running.allocation.parts:
                        self._ending.setdefault(part.host, []).append(running)
        return self._ending.get(host, [])

    def _made_to_end(self) -> list[Running]:
        """Those that this cycle makes end as a whole."""
        ending = self._reservations.future.ending - self.resized.keys() if self._gone else ()
        running = self._snapshot.running
        return [running[job_id] for job_id in ending if job_id in running and running[job_id].keeps is None]

    # -- how much -------------------------------------------------------------------------------------------------

    def _least_given(
        self, bucket: Bucket, demand: Demand, names: Sequence[str], lenders: Mapping[str, list[Running]]
    ) -> tuple[list[str], list[Running], dict[int, int]] | None:
        """Where the fewest jobs have to give back, and of them where the fewest GPUs: the hosts, who lends there, and
        who gives back how many.
        """
        if all(need.on_one for need in self._trial.needs(bucket, demand)):
            lent = {host: sum(map(self._left, found)) for host, found in lenders.items()}
            groups = [[host] for host in sorted(lent, key=lambda host: (-lent[host], host))[:MOST_HOSTS]]
        else:
            groups = [[*dict.fromkeys([*lenders, *names])][:MOST_TRIED]]
        best: tuple[int, int, int] | None = None
        found: tuple[list[str], list[Running], dict[int, int]] | None = None
        for number, hosts in enumerate(groups):
            there = [each for host in hosts for each in lenders.get(host, ())]
            given = self._given(bucket, demand, hosts, there)
            key = None if given is None else (len(given), sum(given.values()), number)
            if given is not None and key is not None and (best is None or key < best):
                best, found = key, (hosts, there, given)
        return found

    def _given(
        self, bucket: Bucket, demand: Demand, hosts: Sequence[str], lenders: Sequence[Running]
    ) -> dict[int, int] | None:
        """How many each has to give back; None where all of it is not enough, or is not what the job lacks."""
        given = {each.job_id: self._left(each) for each in lenders}
        if self._fits(bucket, demand, hosts, given) is None:
            return None
        for each in reversed(lenders):
            while given[each.job_id]:
                fewer = {**given, each.job_id: given[each.job_id] - 1}
                if self._fits(bucket, demand, hosts, fewer) is None:
                    break
                given = fewer
        return {job_id: gpus for job_id, gpus in given.items() if gpus} or None

    def _for_all(
        self,
        bucket: Bucket,
        demand: Demand,
        hosts: Sequence[str],
        lenders: Sequence[Running],
        given: dict[int, int],
        alike: int,
    ) -> tuple[dict[int, int], list[Allocation]]:
        """What is given back so that as many jobs of the class can start as wait, if it suffices, and what they get."""
        taken: list[Allocation] = []
        while len(taken) < min(alike, MOST_ALIKE):
            for more in self._wider(given, lenders):
                found = self._fits(bucket, demand, hosts, more, taken)
                if found is not None:
                    given = more
                    taken.append(found)
                    break
            else:
                break
        return given, taken

    def _wider(self, given: dict[int, int], lenders: Sequence[Running]) -> Iterator[dict[int, int]]:
        """The same, then more and more, the first lender's before the next one's."""
        yield given
        for each in lenders:
            while given.get(each.job_id, 0) < self._left(each):
                given = {**given, each.job_id: given.get(each.job_id, 0) + 1}
                yield given

    def _fits(
        self,
        bucket: Bucket,
        demand: Demand,
        hosts: Sequence[str],
        given: _Given,
        taken: Sequence[Allocation] = (),
    ) -> Allocation | None:
        """What the job would hold when those have ended that are ending, and these GPUs were given back, beside what
        others get.
        """

        def host_ledger(host: str) -> HostLedger:
            ledger, ending = self._snapshot.ledger.host(host), [*self._ending_on(host), *self._made_to_end()]
            lenders = [each for each in self._lenders.get(host, ()) if given.get(each.job_id) or self._resizes(each)]
            if not (ending or lenders or taken or self._promised):
                return ledger
            ledger = ledger.copy()
            for running in ending:
                _end(ledger, running.key)
            for lender in lenders:
                if lender.key in ledger.held:
                    left = self._goes_on_with_fewer(lender, given.get(lender.job_id, 0))
                    ledger.give(lender.key)
                    ledger.take((lender.job_id, RESIZED), left)
            for attempt, allocations in ((_PROMISED, self._promised), (_TRIED, taken)):
                for number, allocation in enumerate(allocations):
                    _take_on(ledger, (number, attempt), allocation)
            return ledger

        found = self._trial.place(bucket, demand, hosts, host_ledger)
        return None if isinstance(found, Reason) else found

    def _resizes(self, lender: Running) -> bool:
        return lender.keeps is not None or lender.job_id in self.resized

    # -- giving back ----------------------------------------------------------------------------------------------

    def _ask(
        self,
        bucket: Bucket,
        demand: Demand,
        hosts: list[str],
        lenders: list[Running],
        given: dict[int, int],
        alike: Sequence[int],
    ) -> bool:
        """Hold for the job what it gets; false where it may not have that."""
        given, taken = self._for_all(bucket, demand, hosts, lenders, given, len(alike))
        if not taken:
            return False
        before = dict(self.resized)
        self._give_back(lenders, given, dict(zip(alike, taken, strict=False)))
        future, added = self._reservations.future, self.resized.keys() - self._reservations.future.ending
        kept = dict(future.keeps)
        future.ending |= added
        future.keeps |= {number: each.allocation for number, each in self.resized.items()}
        terminate_s = self._snapshot.terminate_s
        at = max(each.ends_when_asked(self._now, terminate_s) for each in lenders if given.get(each.job_id))
        if self._reservations.hold(alike[0], bucket, taken[0], at) is None:
            future.ending -= added
            future.keeps, self.resized = kept, before
            return False
        self._promised += taken
        self._gone |= self.resized.keys()
        return True

    def _for_others(
        self, bucket: Bucket, demand: Demand, lenders: Mapping[str, list[Running]], alike: Sequence[int]
    ) -> None:
        """The same for jobs like one that gets its GPUs already: those who give back to it do so for them as well."""
        future = self._reservations.future
        for host, there in lenders.items():
            ending = [each for each in there if self._resizes(each)]
            given, taken = self._for_all(bucket, demand, [host], ending, {}, len(alike)) if alike else ({}, [])
            takers, alike = dict(zip(alike, taken, strict=False)), alike[len(taken) :]
            if given:
                self._promised += taken
                self._give_back(ending, given, takers)
                future.ending |= given.keys()
                self._gone |= given.keys()
                future.keeps |= {number: self.resized[number].allocation for number in given}

    def _note_takers(self, lenders: Mapping[str, list[Running]], takers: Mapping[int, Allocation]) -> None:
        """`takers`: jobs that get what is being given back already, each with what it gets. Who gives it back does so
        for them as well, and gives back nothing more.
        """
        for each in (each for found in lenders.values() for each in found if self._resizes(each)):
            before = self.resized.get(each.job_id)
            keeps, known = (before.allocation, before.gives_to) if before else (each.keeps or each.allocation, {})
            shares = _shares(each.allocation, keeps, takers)
            new = {taker: gpus for taker, gpus in shares.items() if taker not in known and taker not in each.gives_to}
            if new:
                by = before.by if before else next(iter(new))
                self.resized[each.job_id] = Resize(each.job_id, keeps, by, {**known, **new})

    def _give_back(self, lenders: Sequence[Running], given: _Given, takers: Mapping[int, Allocation]) -> None:
        """`takers`: the jobs that wait for it, each with what it gets."""
        for each in lenders:
            if given.get(each.job_id):
                before = self.resized.get(each.job_id)
                allocation = with_gpus(each.allocation, self._goes_on_with_fewer(each, given[each.job_id]).gpus)
                shares = _shares(each.allocation, allocation, takers)
                if not shares and _uuids(each.allocation) - _uuids(allocation):
                    shares = dict.fromkeys(takers, 0)  # they get others, which they could not have without these
                gives_to = {**(before.gives_to if before else {}), **shares}
                self.resized[each.job_id] = Resize(each.job_id, allocation, next(iter(takers)), gives_to)


def _lends(running: Running) -> bool:
    """Whether it has GPUs that it could give back, or is to get more."""
    keeps = running.keeps
    return lent_of(running) > 0 or (keeps is not None and bool(_uuids(keeps) - _uuids(running.allocation)))


def _shares(had: Allocation, keeps: Allocation, takers: Mapping[int, Allocation]) -> dict[int, int]:
    """Who of them gets how many of the GPUs that a job had and does not keep."""
    given = _uuids(had) - _uuids(keeps)
    shares = {
        job_id: sum(gpu.uuid in given for part in got.parts for gpu in part.gpus) for job_id, got in takers.items()
    }
    return {job_id: gpus for job_id, gpus in shares.items() if gpus}


def _uuids(allocation: Allocation) -> set[str]:
    return {gpu.uuid for part in allocation.parts for gpu in part.gpus}


def _end(ledger: HostLedger, key: AttemptKey) -> None:
    if key in ledger.held:
        ledger.give(key)


def _take_on(ledger: HostLedger, key: AttemptKey, allocation: Allocation) -> None:
    for part in allocation.parts:
        if part.host == ledger.host:
            ledger.take(key, part)


def keep_resized(ledger: HostLedger, job_id: int, keeps: Allocation | None) -> None:
    """Enter what a job goes on with on the ledger's host, whose attempt has just been taken out there."""
    if keeps is not None:
        _take_on(ledger, (job_id, RESIZED), keeps)
