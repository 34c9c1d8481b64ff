"""Can this host take some tasks of a job? Either what they would hold there, or the reason why not.

This is the rule host by host, on any books: columns asks the same of all hosts at once, and a property
test holds the two together. `standing` is about what no job of the cycle changes, `try_host` about all the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from gsched.model.allocation import HostAllocation
from gsched.model.host_ledger import HostLedger
from gsched.model.queue import Queue
from gsched.model.resource import BUILTIN, GPU_COUNTERS
from gsched.model.snapshot import HostSnapshot, HostValues, Snapshot
from gsched.policy.devices import cpu_affinity, gpu_choice
from gsched.policy.requirement.demand import Bound, Demand, DemandTerm, HostNeed
from gsched.policy.requirement.reasons import Reason, Shortage, reserving, split

NOT_IN_QUEUE = Reason("Not usable to the queue", candidate=False)
NOT_ASKED = Reason("Not specified in job submission", candidate=False)
EXCLUDED = Reason("Excluded by the requeue exit values of the job", candidate=False)
RECENT = Reason("Just started a job recently")
LOCKED = "Running an exclusive job"
NOT_EMPTY = "Job's requirement for exclusive execution not satisfied"
UNSATISFIED = "Job's resource requirements not satisfied"
ONE_SLOT, SLOTS = "Job slot limit reached", "Not enough job slot(s)"


@dataclass(frozen=True, slots=True)
class FitRules:
    """What of a cycle's snapshot decides beside host, books and job."""

    increasing: frozenset[str] = frozenset(name for name, each in BUILTIN.items() if each.increasing)
    cores_per_gpu: int = 0
    """RESERVE_CORES_PER_GPU."""
    accept_interval_s: float = 0.0
    now: float = 0.0
    queue_hosts: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, now: float) -> FitRules:
        """The rules of a cycle at `now`."""
        hosts = {name: frozenset(each.hosts) for name, each in snapshot.queues.items() if each.hosts is not None}
        return cls(snapshot.increasing, snapshot.reserve_cores_per_gpu, snapshot.job_accept_interval_s, now, hosts)

    def interval_of(self, queue: Queue) -> float:
        """Seconds between two starts of jobs on one host."""
        return self.accept_interval_s if queue.accept_interval_s is None else queue.accept_interval_s


class LiveValues(Mapping[str, float | str | bool | None]):
    """A host's values with what is left of reserved resources, GPU counters and slots; each is looked up when asked."""

    __slots__ = ("_ledger", "_shared", "_values")

    def __init__(self, host: HostSnapshot, ledger: HostLedger, shared: Mapping[str, float | None]) -> None:
        self._values = host.values
        self._ledger = ledger
        self._shared = shared

    def __getitem__(self, name: str) -> float | str | bool | None:
        if name == "slots":
            free = self._ledger.free_slots
            return float("inf") if free is None else float(free)
        if name in self._shared:
            return self._shared[name]
        value = self._values[name]
        if name in GPU_COUNTERS:
            return self._ledger.left(name)
        if isinstance(value, float | int) and name in self._ledger.reserved:
            return value - self._ledger.reserved[name]
        return value

    def __contains__(self, name: object) -> bool:
        return name == "slots" or name in self._values

    def __iter__(self) -> Iterator[str]:
        yield from self._values
        if "slots" not in self._values:
            yield "slots"

    def __len__(self) -> int:
        return len(self._values) + ("slots" not in self._values)


def live_values(host: HostSnapshot, ledger: HostLedger, shared: Mapping[str, float | None] | None = None) -> HostValues:
    """The host's values with what is left of reserved resources, GPU counters and slots.

    `shared`: what is left of those that it shares with others; without it only what is held on this host is taken off,
    and limits say the rest.
    """
    return LiveValues(host, ledger, shared or {})


def outside(demand: Demand, host: str, queue: Queue, rules: FitRules) -> Reason | None:
    """Why the host is nothing to the class in this queue, however it is; None when it is."""
    members = rules.queue_hosts.get(queue.name)
    if members is not None and host not in members:
        return NOT_IN_QUEUE
    if not demand.may_use(host):
        return NOT_ASKED
    return EXCLUDED if host in demand.excluded_hosts else None


def standing(demand: Demand, host: HostSnapshot, queue: Queue, rules: FitRules) -> Reason | None:
    """Why the host takes no job of the class in this queue, however much is free there; None when it does."""
    stranger = outside(demand, host.name, queue, rules)
    if stranger is not None:
        return stranger
    if host.closed:
        return split(host.closed)
    busy = host.busy.get(queue.name) or host.busy.get("")
    if busy:
        return split(busy)
    if rules.now < host.last_dispatch + rules.interval_of(queue):
        return RECENT
    return None


def reserved_for_others(term: DemandTerm, host: HostSnapshot) -> Reason | None:
    """Whether the host has exclusive resources (`!name` in lsf.cluster) of which the job names none."""
    if not host.exclusive_resources or not term.names.isdisjoint(host.exclusive_resources):
        return None
    names = ", ".join(host.exclusive_resources)
    return Reason(UNSATISFIED, f"{host.name} is kept for jobs that ask for {names}", candidate=False)


def is_chosen(demand: Demand, host: HostSnapshot, ledger: HostLedger, queue: Queue, rules: FitRules) -> bool:
    """Whether a host that a start was planned on meets what is asked of its values, whatever is free there."""
    if standing(demand, host, queue, rules) is not None:
        return False
    values = live_values(host, ledger)
    return any(
        reserved_for_others(term, host) is None
        and bool(term.select(values))
        and is_beyond(term.bounds, values, rules.increasing) is None
        for choice in demand.choices
        for term in choice.terms
    )


def try_host(
    term: DemandTerm, host: HostSnapshot, ledger: HostLedger, values: HostValues, need: HostNeed, rules: FitRules
) -> HostAllocation | Reason:
    """What tasks of `term` that need `need` would hold on the host, or why they cannot run there.

    `values` are the live ones, of the same books.
    """
    kept = reserved_for_others(term, host)
    if kept is not None:
        return kept
    verdict = term.select(values)
    if not verdict:
        return Reason(UNSATISFIED, f"{verdict.reason} on {host.name}")
    beyond = is_beyond(term.bounds, values, rules.increasing)
    if beyond is not None:
        return beyond._replace(detail=f"{beyond.detail} on {host.name}")
    reason = (
        crowded(ledger, alone=need.exclusive)
        or _slots(need, ledger, rules)
        or _amounts(need, host, values)
        or _counters(need, host, values)
    )
    return reason or fill(need, ledger)


def fill(need: HostNeed, ledger: HostLedger) -> HostAllocation | Reason:
    """The part that meets the need, of a host that has slots and amounts for it; or that devices or processor units
    are missing.
    """
    if need.devices:
        held = gpu_choice.choose(ledger, need.devices)
    else:
        held = gpu_choice.choose_any(ledger) if need.auto_gpu else ()
    if isinstance(held, Shortage):
        return held.reason(ledger.host)
    part = HostAllocation(
        host=ledger.host,
        slots=need.slots,
        gpus=held,
        amounts=dict(need.amounts),
        exclusive=need.exclusive,
        courses=need.courses,
    )
    if need.affinity is None:
        return part
    nodes = (ledger.gpus[gpu.uuid].numa for gpu in held if gpu.uuid in ledger.gpus)
    near = frozenset(node for node in nodes if node is not None)
    binding = cpu_affinity.choose(ledger, need.affinity, need.slots, near)
    return binding if isinstance(binding, Reason) else replace(part, bindings=(binding,))


def is_beyond(bounds: Collection[Bound], values: HostValues, increasing: Collection[str]) -> Reason | None:
    """Which threshold of rusage[] the values do not meet; None when they meet all."""
    for name, bound in bounds:
        value = values.get(name)
        known = float(value) if isinstance(value, float | int) else None
        if known is None or (known > bound if name in increasing else known < bound):
            said = "unknown" if known is None else f"{known:.10g}"
            return Reason(reserving(name), f"threshold {bound:.10g}, {name} is {said}")
    return None


def crowded(ledger: HostLedger, *, alone: bool) -> Reason | None:
    """Why the host takes no other job, or none that wants it `alone`, whatever it needs."""
    if ledger.exclusive is not None:
        return Reason(LOCKED, f"job {ledger.exclusive[0]} on {ledger.host}")
    if alone and ledger.held:
        count = len(ledger.held)
        return Reason(NOT_EMPTY, f"{count} {'jobs run' if count > 1 else 'job runs'} on {ledger.host}")
    return None


def _slots(need: HostNeed, ledger: HostLedger, rules: FitRules) -> Reason | None:
    free = ledger.free_slots
    if free is None:
        return None
    text = ONE_SLOT if need.slots == 1 else SLOTS
    if free < need.slots:
        return Reason(text, f"{need.slots} wanted, {free} of {ledger.max_slots} free on {ledger.host}")
    if rules.cores_per_gpu and not need.wants_gpus:
        idle = ledger.idle()
        kept = rules.cores_per_gpu * idle
        if free - kept < need.slots:
            for_gpus = f"{kept} of them kept for {idle} free GPU{'s' if idle > 1 else ''}"
            detail = f"{need.slots} wanted, {free} free on {ledger.host}, {for_gpus}"
            return Reason(text, detail)
    return None


def _amounts(need: HostNeed, host: HostSnapshot, values: HostValues) -> Reason | None:
    for name, amount in need.amounts.items():
        if name not in values:
            return Reason(reserving(name), f"{amount:.10g} wanted, {host.name} has no {name}")
        left = values[name]
        known = float(left) if isinstance(left, float | int) else None
        if known is None or known < amount:
            return Shortage(name, amount, known, None).reason(host.name)
    return None


def _counters(need: HostNeed, host: HostSnapshot, values: HostValues) -> Reason | None:
    """A counter can be claimed where it is mapped only."""
    for kind, count in need.devices:
        if kind.claim in GPU_COUNTERS and kind.claim not in values:
            return Reason(reserving(kind.name), f"{count} wanted, {host.name} has no {kind.name}")
    return None
