"""When enough gets free on which host at the earliest: lower bounds for all hosts at once, from the ends of what runs.

A bound only says where to look first: it counts slots and devices, nothing else. Whether a job fits is asked of a
trial. Numbers of hosts are indices into `names`; times are UTC seconds, infinite when nobody knows, NaN for never.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gsched.policy.future import Future

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_NO_LIMIT = 1e9


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
        index, suspended = self.index, future.snapshot.ledger.suspended
        rows: list[tuple[int, float, int, int]] = []
        for running in future.snapshot.running.values():
            end = future.end_of_running(running)
            for part in running.allocation.hosts:
                number = index.get(part.host)
                if number is not None:
                    slots = 0 if running.key in suspended else part.slots
                    rows.append((number, end, slots, len(part.gpus)))
        for host, part, end in future.placements():
            if host in index:
                rows.append((index[host], end, part.slots, len(part.gpus)))
        table = np.array(rows, dtype=np.float64).reshape(-1, 4)
        hosts = table[:, 0].astype(np.int64)
        order = np.lexsort((table[:, 1], hosts))
        self._host: Ints = hosts[order]
        self._end: Floats = table[order, 1]
        self._slots_after = self._running_total(table[order, 2]) + self._slots[self._host]
        self._gpus_after = self._running_total(table[order, 3]) + self._gpus[self._host]

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

    def soonest(self, need: Need, usable: npt.NDArray[np.bool_]) -> list[float]:
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
        return [float(end) for end in np.unique(self._end[order][total >= need.total])]

    @staticmethod
    def _share(slots: Floats, gpus: Floats, need: Need) -> Floats:
        """Slots that the hosts could give to such a job."""
        whole = np.floor(slots / max(1, need.slots)) * max(1, need.slots)
        return np.where(gpus >= need.gpus, np.minimum(whole, need.most), 0.0)

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


def least_need(slots: int, gpus: int, *, one_host: bool, per_host: int = 0) -> Need:
    """The need of a job: `slots` slots in all, `gpus` devices that it shares with nobody on each host.

    `per_host`: slots on each host (span[ptile]); 0 when they may be spread at will.
    """
    if one_host or slots == 1:
        return Need(slots, gpus, slots)
    return Need(min(per_host, slots), gpus, slots, per_host) if per_host else Need(1, gpus, slots)
