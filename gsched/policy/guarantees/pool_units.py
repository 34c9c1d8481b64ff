"""How many units of a guaranteed pool a host has, has free, and would lose to a job; how many a job takes.

The units of a pool are defined here once, for what is in use, for what is free and for what is asked. It knows neither
guarantees nor loans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.held_amounts import amount_of
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.queues.guarantee import GuaranteePool
from gsched.model.queues.limit import GPUS, PARTS, SLOTS
from gsched.model.scheduling.snapshot import HostSnapshot
from gsched.resreq.ast import Requirement
from gsched.resreq.judging.evaluate import Verdict, compile_select
from gsched.resreq.parsing.syntax import parse_any

_ROUNDING = 1e-9
_MAXIMA = {name: f"max{name}" for name in PARTS.values()}
"""mem, swp, tmp -> the value of a host that says how much of it there is."""


def total_units(pool: GuaranteePool, host: HostSnapshot, ledger: HostLedger) -> float:
    """Units of a host on which nothing runs."""
    if pool.is_of_hosts:
        return 1.0
    return _units(pool, {name: _total(name, host, ledger) for name in pool.unit})


def free_units(
    pool: GuaranteePool, host: HostSnapshot, ledger: HostLedger, beside: Sequence[HostAllocation] = ()
) -> float:
    """Units of a host that nobody holds anything of. `beside`: what is held there and no ledger shows."""
    if pool.is_of_hosts:
        return 0.0 if ledger.held or beside else 1.0
    left = {name: _left(name, host, ledger) for name in pool.unit}
    for part in beside:
        left = {name: amount - _newly_held(name, ledger, part) for name, amount in left.items()}
    return _units(pool, left)


def lost_units(
    pool: GuaranteePool,
    host: HostSnapshot,
    ledger: HostLedger,
    part: HostAllocation,
    beside: Sequence[HostAllocation] = (),
) -> float:
    """How many of the free units of a host a job would use up that takes the part."""
    before = free_units(pool, host, ledger, beside)
    if pool.is_of_hosts or not before:
        return before
    return before - free_units(pool, host, ledger, (*beside, part))


def _newly_held(name: str, ledger: HostLedger, part: HostAllocation) -> float:
    """What of the part is held by nobody yet: a GPU that jobs share already is not free."""
    if name == GPUS:
        return float(sum(gpu.uuid not in ledger.holders for gpu in part.gpus))
    return amount_of(part, name)


def taken_units(pool: GuaranteePool, part: HostAllocation) -> float:
    """Units that count as used by the holder of the part: of packages whole ones. Of whole hosts it is 1, for one job
    there.
    """
    if pool.is_of_hosts:
        return 1.0
    taken = max(amount_of(part, name) / amount for name, amount in pool.unit.items())
    return whole_units(pool, taken)


def whole_units(pool: GuaranteePool, taken: float) -> float:
    """Of packages whole ones."""
    return taken if pool.is_linear else float(math.ceil(taken - _ROUNDING))


def _units(pool: GuaranteePool, amounts: Mapping[str, float]) -> float:
    units = min(max(0.0, amounts[name]) / amount for name, amount in pool.unit.items())
    return units if pool.is_linear or math.isinf(units) else float(math.floor(units + _ROUNDING))


def _total(name: str, host: HostSnapshot, ledger: HostLedger) -> float:
    if name == SLOTS:
        return float(host.ncpus if ledger.max_slots is None else ledger.max_slots)
    if name == GPUS:
        return float(ledger.idle() + len(ledger.holders))
    return _number(host.values.get(_MAXIMA.get(name, name)))


def _left(name: str, host: HostSnapshot, ledger: HostLedger) -> float:
    if name == SLOTS:
        free = ledger.free_slots
        return float(host.ncpus - ledger.slots_used if free is None else free)
    if name == GPUS:
        return float(ledger.idle())
    return _number(host.values.get(name)) - ledger.reserved.get(name, 0.0)


def _number(value: float | str | bool | None) -> float:
    """What is unknown is not there."""
    return float(value) if isinstance(value, float | int) else 0.0


@lru_cache(maxsize=1024)
def _selected(text: str) -> Callable[[Mapping[str, float | str | bool | None]], Verdict]:
    read = parse_any(text)
    return compile_select(read.select if isinstance(read, Requirement) else None)


def is_member(pool: GuaranteePool, host: HostSnapshot) -> bool:
    """Whether the host is in the pool, whatever its state."""
    if not pool.hosts.has(host.name):
        return False
    return not pool.select or _selected(pool.select)(host.values).holds is True
