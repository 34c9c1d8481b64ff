"""When enough gets free on which host at the earliest: lower bounds for all hosts at once, from the ends of what runs.

A bound only says where to look first: it counts slots and devices, nothing else. Whether a job fits is asked of a
trial. Numbers of hosts are indices into `names`; times are UTC seconds, infinite when nobody knows, NaN for never.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gsched.model.allocation import SHARED_CLAIM
from gsched.model.snapshot import Running
from gsched.policy.demand import Choice, Demand, HostNeed
from gsched.policy.future import Future

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_NO_LIMIT = 1e9
_SHARING = frozenset({"ngpus_shared", SHARED_CLAIM})


class Need(NamedTuple):
    """The least that a job takes. `slots` and `gpus` on each of its hosts, `total` slots on all of them."""

    slots: int
    gpus: int
    total: int
    most: float = _NO_LIMIT
    """Most slots on one host."""


class Releases:
    """The ends of all holdings, in order, with what each gives back."""

    def __init__(self, future: Future) -> None:
        ledgers = future.snapshot.ledger.hosts
        self.names = sorted(name for name, host in future.snapshot.hosts.items() if not host.closed)
        self.index = {name: number for number, name in enumerate(self.names)}
        books = [ledgers.get(name) for name in self.names]
        free = [None if each is None else each.free_slots for each in books]
        self._slots = np.array([_NO_LIMIT if each is None else each for each in free], dtype=np.float64)
        self._gpus = np.array([0 if each is None else len(each.gpus) - len(each.holders) for each in books], np.float64)
        self._collect(future)

    def _collect(self, future: Future) -> None:
        """Columns of all parts that are held. Written for many thousand jobs: no tuple and no call for each."""
        started = list(future.snapshot.running.values())
        parts = [part for running in started for part in running.allocation.hosts]
        counts = [len(running.allocation.hosts) for running in started]
        ends = np.repeat(self._ends(started, future), counts)
        slots = np.array([part.slots for part in parts], dtype=np.float64)
        suspended = future.snapshot.ledger.suspended
        if suspended:
            stopped = [running.key in suspended for running in started]
            slots[np.repeat(np.array(stopped, dtype=bool), counts)] = 0.0
        placed = list(future.placements())
        parts += [part for part, _ in placed]
        ends = np.append(ends, [end for _, end in placed])
        slots = np.append(slots, [float(part.slots) for part, _ in placed])
        gpus = np.array([len(part.gpus) for part in parts], dtype=np.float64)
        hosts = np.array([self.index.get(part.host, -1) for part in parts], dtype=np.int64)
        order = np.lexsort((ends, hosts))
        order = order[np.searchsorted(hosts[order], 0) :]  # without those on hosts that are closed
        self._host: Ints = hosts[order]
        self._end: Floats = ends[order]
        self._slots_after = self._running_total(slots[order]) + self._slots[self._host]
        self._gpus_after = self._running_total(gpus[order]) + self._gpus[self._host]

    @staticmethod
    def _ends(started: Sequence[Running], future: Future) -> Floats:
        """Expected ends; most jobs simply run, and those are dealt with all at once."""
        ends = np.array([running.ends_at for running in started], dtype=np.float64)
        late = ends <= future.now
        odd = [number for number, each in enumerate(started) if each.state != "RUN" or each.is_ending]
        for number in [*odd, *np.flatnonzero(late).tolist()]:
            ends[number] = future.end_of_running(started[number])
        return ends

    def _running_total(self, amounts: Floats) -> Floats:
        """Sums from the first end of the same host on."""
        total = np.cumsum(amounts)
        first = np.searchsorted(self._host, self._host)
        return np.asarray(total - (total - amounts)[first])

    def earliest(self, need: Need) -> Floats:
        """For each host: when one host's share of the job could be free; NaN if never."""
        bounds = np.full(len(self.names), np.nan)
        enough = np.flatnonzero((self._slots_after >= need.slots) & (self._gpus_after >= need.gpus))[::-1]
        bounds[self._host[enough]] = self._end[enough]  # written backwards, so that the first end of a host stays
        bounds[(self._slots >= need.slots) & (self._gpus >= need.gpus)] = -np.inf
        return bounds

    def soonest(self, need: Need, usable: npt.NDArray[np.bool_]) -> Floats:
        """For a job on several hosts: the ends from which on slots could suffice in total, ascending."""
        base = self._share(self._slots, self._gpus, need) * usable
        share = self._share(self._slots_after, self._gpus_after, need) * usable[self._host]
        before = np.empty_like(share)
        before[1:] = share[:-1]
        first = np.ones(len(share), dtype=bool)
        first[1:] = self._host[1:] != self._host[:-1]
        before[first] = base[self._host[first]]
        order = np.argsort(self._end, kind="stable")
        total = base.sum() + np.cumsum((share - before)[order])
        return np.asarray(self._end[order][total >= need.total])

    @staticmethod
    def _share(slots: Floats, gpus: Floats, need: Need) -> Floats:
        """Slots that the hosts could give to such a job."""
        return np.where((gpus >= need.gpus) & (slots >= need.slots), np.minimum(slots, need.most), 0.0)

    def shares(self, need: Need, at: float) -> Floats:
        """For each host: slots that it could give to such a job by the time."""
        found = self._share(self._slots, self._gpus, need)
        share = self._share(self._slots_after, self._gpus_after, need)
        ended = np.flatnonzero(self._end <= at)
        found[self._host[ended]] = share[ended]  # in order, so that the last end of a host by then counts
        return found

    def idle(self, hosts: Ints) -> Floats:
        """Devices that nobody holds now on the hosts."""
        return np.asarray(self._gpus[hosts])

    def unknown_ends(self) -> Ints:
        """For each host: how many holdings end nobody knows when."""
        return np.bincount(self._host[np.isinf(self._end)], minlength=len(self.names))

    def mask(self, names: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Which hosts are among `names`."""
        found = np.zeros(len(self.names), dtype=bool)
        found[[self.index[name] for name in names if name in self.index]] = True
        return found


def needs_of(demand: Demand) -> list[Need]:
    """The needs of a job's alternatives, as far as they can be told beforehand."""
    return [_need_of(choice, demand.slots) for choice in demand.choices]


def _need_of(choice: Choice, slots: int) -> Need:
    if len(choice.terms) > 1:
        return Need(1, 0, slots)
    term = choice.terms[0]
    if term.one_host or slots == 1:
        return Need(slots, _alone(term.need(slots)), slots)
    tile = term.span.ptile if term.span is not None and not term.span.ptile_types else None
    if tile:
        # The last host may get fewer tasks than the others, and then fewer devices.
        least = slots % tile or tile
        return Need(least, _alone(term.need(least)), slots, float(tile))
    return Need(1, _alone(term.need(1)), slots)


def _alone(need: HostNeed) -> int:
    """Devices that nobody else may hold."""
    return sum(count for kind, count in need.devices if kind.claim not in _SHARING)
