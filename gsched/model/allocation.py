"""What an attempt holds: slots and GPUs on hosts, and the text form `host:gpus=0,1;` that LSF posts."""

from __future__ import annotations

import msgspec


class HeldGpu(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One GPU of an allocation. `claim` is the counter it was claimed as (ngpus_excl_p, ngpus_shared …), or for -gpu
    one of SHARED_CLAIM, ALONE_CLAIM, PROCESS_CLAIM.
    """

    uuid: str
    index: int
    claim: str
    pci_bus_id: str = ""
    share: float = 1.0
    """Part of the GPU, above 0; 1 when no part was asked for."""
    gmem_mib: float = 0.0
    """Memory of the GPU that is set aside for the job."""


SHARED_CLAIM, ALONE_CLAIM, PROCESS_CLAIM = "gpu_shared", "gpu_jexcl", "gpu_excl"
"""Claims by -gpu: mode=shared, mode=shared with j_exclusive=yes, mode=exclusive_process."""

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


class HostAllocation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Slots, GPUs and numeric resources held on one host."""

    host: str
    slots: int
    gpus: tuple[HeldGpu, ...] = ()
    amounts: dict[str, float] = {}
    """Consumable resources that are not GPUs (mem, licences …) -> amount held."""
    exclusive: bool = False
    """-x: nothing else may be held on the host meanwhile."""
    bindings: tuple[CpuBinding, ...] = ()
    """Processor units, one binding for each part of the requirement; none without affinity[]."""

    @property
    def cpus(self) -> list[int]:
        """CPUs that no other job with affinity[] may have; one that is named twice is held twice."""
        return [cpu for binding in self.bindings for cpu in binding.held]


class Allocation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that one attempt holds, first execution host first."""

    hosts: tuple[HostAllocation, ...]

    @property
    def first_host(self) -> str:
        return self.hosts[0].host

    @property
    def slots(self) -> int:
        return sum(part.slots for part in self.hosts)

    def gpu_message(self) -> str:
        """The external message `h1:gpus=0,1;h2:gpus=0;`; empty when no GPU is held."""
        parts = [
            f"{part.host}:gpus={','.join(str(gpu.index) for gpu in part.gpus)};" for part in self.hosts if part.gpus
        ]
        return "".join(parts)
