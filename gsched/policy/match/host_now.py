"""One host as conditions look at it: values, ledger, and the devices that tasks would get there. It takes nothing.

The ledger need not be that of the cycle: planning and preemption ask with ledgers as they would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gsched.model.hosts.resource import BUILTIN, GPU_COUNTERS
from gsched.model.ledgers.allocation import CpuBinding, HeldGpu
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import HostSnapshot, HostValues, Snapshot
from gsched.policy.devices import cpu_affinity, gpu_choice
from gsched.policy.requirement.demand import HostNeed
from gsched.policy.requirement.reasons import Reason, Shortage


@dataclass(frozen=True, slots=True)
class FitRules:
    """What of a cycle's snapshot decides beside host, ledger and job."""

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


class HostNow:
    """A host, its ledger, its live values. What it would give of devices is chosen once, when it is first asked for."""

    __slots__ = ("_binding", "_gpus", "host", "host_ledger", "values")

    def __init__(self, host: HostSnapshot, host_ledger: HostLedger, values: HostValues | None = None) -> None:
        self.host = host
        self.host_ledger = host_ledger
        self.values = live_values(host, host_ledger) if values is None else values
        self._gpus: tuple[HeldGpu, ...] | Shortage | None = None
        self._binding: CpuBinding | Reason | None = None

    def gpus(self, need: HostNeed) -> tuple[HeldGpu, ...] | Shortage:
        """The devices that meet the need, always asked of the same; or which are missing."""
        if self._gpus is None:
            self._gpus = gpus_for(need, self.host_ledger)
        return self._gpus

    def binding(self, need: HostNeed) -> CpuBinding | Reason | None:
        """The processor units that meet it, near these devices; None where none are asked for."""
        if self._binding is None:
            held = self.gpus(need)
            self._binding = binding_for(need, self.host_ledger, () if isinstance(held, Shortage) else held)
        return self._binding


def gpus_for(need: HostNeed, host_ledger: HostLedger) -> tuple[HeldGpu, ...] | Shortage:
    """Devices that meet the need, or which are missing."""
    if need.devices:
        return gpu_choice.choose(host_ledger, need.devices)
    return gpu_choice.choose_any(host_ledger) if need.auto_gpu else ()


def binding_for(need: HostNeed, host_ledger: HostLedger, gpus: tuple[HeldGpu, ...]) -> CpuBinding | Reason | None:
    """Processor units that meet the need, near the devices, or why there are none; None where none are asked for."""
    if need.affinity is None:
        return None
    nodes = (host_ledger.gpus[gpu.uuid].numa for gpu in gpus if gpu.uuid in host_ledger.gpus)
    near = frozenset(node for node in nodes if node is not None)
    return cpu_affinity.choose(host_ledger, need.affinity, need.slots, near)
