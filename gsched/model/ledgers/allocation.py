"""What an attempt holds: slots and GPUs on hosts, and the text form `host:gpus=0,1;` that LSF posts."""

from __future__ import annotations

import msgspec


class HeldGpu(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One GPU of an allocation. `claim` is the counter it was claimed as (ngpus_excl_p, ngpus_shared …), or for -gpu
    one of SHARED_CLAIM, ALONE_CLAIM, PROCESS_CLAIM; with mig= one of MIG_CLAIM, MIG_ALONE_CLAIM.
    """

    uuid: str
    index: int
    claim: str
    pci_bus_id: str = ""
    share: float = 1.0
    """Part of the GPU, above 0; 1 when no part was asked for."""
    gmem_mib: float = 0.0
    """Memory of the GPU that is set aside for the job."""
    parent: str = ""
    """UUID of the GPU that it is a part of by MIG; `index` and `pci_bus_id` are that GPU's then. Empty: a whole GPU."""
    profile: str = ""
    """What MIG calls the part, `1c.3g.20gb`."""

    @property
    def board(self) -> str:
        """UUID of the GPU that it is, or is a part of."""
        return self.parent or self.uuid


SHARED_CLAIM, ALONE_CLAIM, PROCESS_CLAIM = "gpu_shared", "gpu_jexcl", "gpu_excl"
"""Claims by -gpu: mode=shared, mode=shared with j_exclusive=yes, mode=exclusive_process."""

MIG_CLAIM, MIG_ALONE_CLAIM = "mig_shared", "mig_jexcl"
"""Claims of a part of a GPU by MIG (mig=), with j_exclusive=no and yes. No counter counts them."""

SHARING = frozenset({"ngpus_shared", SHARED_CLAIM, MIG_CLAIM})
"""Claims that stand others of their kind beside them on a device."""

COUNTER_OF_CLAIM = {SHARED_CLAIM: "ngpus_shared", ALONE_CLAIM: "ngpus_shared", PROCESS_CLAIM: "ngpus_excl_p"}
"""The counter in which a GPU that is claimed by -gpu shows as reserved; a counter's own claims show in itself."""


class TaskCpus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The CPUs of one task of a job with affinity[]."""

    cpus: tuple[int, ...]
    """Threads of the units that were chosen for it."""
    bound: tuple[int, ...] = ()
    """CPUs that it is bound to, by cpubind; those in `cpus` are among them."""
    nodes: tuple[int, ...] = ()
    """NUMA nodes of these."""
    units: tuple[str, ...] = ()
    """The units by their place, `/NUMA/SOCKET/CORE/CPU`, cut at the kind of unit."""


class CpuBinding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Processor units of some tasks of a job on one host, chosen by one `affinity[...]`."""

    affinity: str
    """The section as it is printed."""
    held: tuple[int, ...]
    """CPUs that no other job with affinity[] may have meanwhile, ascending: those of the tasks, and what `exclusive=`
    adds."""
    tasks: tuple[TaskCpus, ...]


class AmountStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What of an amount is held from `after_s` seconds after the dispatch on."""

    after_s: float
    amount: float


class AmountSchedule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How an amount is given back before the job ends: steps that go down; the first is what is held from 0 s on."""

    resource: str
    steps: tuple[AmountStep, ...]

    def amount(self, now: float, since: float) -> float:
        """What is held at `now` of what was taken at `since` (UTC seconds)."""
        amount = self.steps[0].amount
        for step in self.steps:
            if since + step.after_s > now:
                break
            amount = step.amount
        return amount


class HostAllocation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Slots, GPUs and numeric resources held on one host."""

    host: str
    slots: int
    gpus: tuple[HeldGpu, ...] = ()
    amounts: dict[str, float] = {}
    """Consumable resources that are not GPUs (mem, licences …) -> amount held."""
    exclusive: bool = False
    """-x or cu[excl]: nothing else may be held on the host meanwhile."""
    bindings: tuple[CpuBinding, ...] = ()
    """Processor units, one binding for each part of the requirement; none without affinity[]."""
    courses: tuple[AmountSchedule, ...] = ()
    """Of the amounts that are given back before the job ends; the others are held to the end."""

    @property
    def cpus(self) -> list[int]:
        """CPUs that no other job with affinity[] may have; one that is named twice is held twice."""
        return [cpu for binding in self.bindings for cpu in binding.held]

    @property
    def whole_gpus(self) -> int:
        """How many of its GPUs are no parts of GPUs by MIG."""
        return sum(not gpu.parent for gpu in self.gpus)

    def as_of(self, now: float, since: float) -> HostAllocation:
        """What of it is held at `now` if it was taken at `since` (both UTC seconds); `amounts` alone may differ."""
        if not self.courses:
            return self
        due = {course.resource: course.amount(now, since) for course in self.courses}
        if all(self.amounts.get(name) == amount for name, amount in due.items()):
            return self
        return msgspec.structs.replace(self, amounts={**self.amounts, **due})

    def changes(self, since: float) -> list[float]:
        """When something of it is given back before the end, UTC seconds, ascending, if it is taken at `since`."""
        # Reckoned as in AmountSchedule.amount, to the last bit: a change that is due has happened.
        return sorted({since + step.after_s for course in self.courses for step in course.steps[1:]})


class Allocation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that one attempt holds, first execution host first."""

    hosts: tuple[HostAllocation, ...]
    kept: tuple[HostAllocation, ...] = ()
    """Hosts where it runs nothing and nobody else may either, without slots: the rest of its units with cu[excl]."""

    @property
    def parts(self) -> tuple[HostAllocation, ...]:
        """All that stands in the ledgers of hosts; `hosts` are those that the job runs on."""
        return self.hosts + self.kept if self.kept else self.hosts

    def as_of(self, now: float, since: float) -> Allocation:
        """What of it is held at `now`, see HostAllocation."""
        if not any(part.courses for part in self.hosts):
            return self
        parts = tuple(part.as_of(now, since) for part in self.hosts)
        return msgspec.structs.replace(self, hosts=parts) if parts != self.hosts else self

    def without_gpus(self) -> Allocation:
        """What of it is held while the job is moved off its GPUs."""
        return msgspec.structs.replace(self, hosts=tuple(msgspec.structs.replace(part, gpus=()) for part in self.hosts))

    @property
    def first_host(self) -> str:
        return self.hosts[0].host

    @property
    def slots(self) -> int:
        return sum(part.slots for part in self.hosts)

    def gpu_message(self) -> str:
        """The external message `h1:gpus=0,1;h2:gpus=0;`; empty when no GPU is held."""
        return "".join(f"{part.host}:gpus={_indexes(part.gpus)};" for part in self.hosts if part.gpus)


def with_gpus(allocation: Allocation, gpus: tuple[HeldGpu, ...]) -> Allocation:
    """An allocation on one host with these GPUs instead of its own."""
    part = msgspec.structs.replace(allocation.hosts[0], gpus=gpus)
    return msgspec.structs.replace(allocation, hosts=(part,))


def _indexes(gpus: tuple[HeldGpu, ...]) -> str:
    """One for each GPU, however many parts of it by MIG there are."""
    return ",".join(dict.fromkeys(str(gpu.index) for gpu in gpus))


def courses_together(first: HostAllocation, second: HostAllocation) -> tuple[AmountSchedule, ...]:
    """The courses of a part that holds what two parts of one host hold, which begin at the same time."""
    names = dict.fromkeys(course.resource for course in (*first.courses, *second.courses))
    return tuple(_sum(_course(first, name), _course(second, name)) for name in names)


def _course(part: HostAllocation, name: str) -> AmountSchedule:
    found = (course for course in part.courses if course.resource == name)
    whole = AmountSchedule(resource=name, steps=(AmountStep(after_s=0.0, amount=part.amounts.get(name, 0.0)),))
    return next(found, whole)


def _sum(first: AmountSchedule, second: AmountSchedule) -> AmountSchedule:
    times = sorted({step.after_s for step in (*first.steps, *second.steps)})
    steps = tuple(AmountStep(after_s=at, amount=first.amount(at, 0.0) + second.amount(at, 0.0)) for at in times)
    return AmountSchedule(resource=first.resource, steps=steps)
