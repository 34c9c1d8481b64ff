"""What an attempt holds: slots and GPUs on hosts, and the text form `host:gpus=0,1;` that LSF posts."""

from __future__ import annotations

import msgspec


class HeldGpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU of an allocation. `claim` is the counter it was claimed as (ngpus_excl_p, ngpus_shared …)."""

    uuid: str
    index: int
    claim: str
    pci_bus_id: str = ""


class HostAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """Slots, GPUs and numeric resources held on one host."""

    host: str
    slots: int
    gpus: tuple[HeldGpu, ...] = ()
    amounts: dict[str, float] = {}
    """Consumable resources that are not GPUs (mem, licences …) -> amount held."""


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
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
