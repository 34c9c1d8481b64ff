"""Which devices: chosen for a set of claims from what the ledger says is claimable. It takes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from gsched.model.allocation import HeldGpu
from gsched.model.ledger import HostLedger
from gsched.policy.explain import Shortage


def choose(ledger: HostLedger, claims: Mapping[str, int]) -> tuple[HeldGpu, ...] | Shortage:
    """Devices for all claims, least shared first, then lowest index; or the first claim that cannot be met."""
    chosen: list[HeldGpu] = []
    taken: set[str] = set()
    # The narrow claims first: a plain `ngpus` would otherwise take a device that only a mode claim can use.
    for claim, wanted in sorted(claims.items(), key=lambda item: (item[0] == "ngpus", item[0])):
        if not ledger.gpus_known:
            return Shortage(claim, wanted, None, None)
        free = [gpu for gpu in ledger.claimable(claim) if gpu.uuid not in taken]
        if len(free) < wanted:
            return Shortage(claim, wanted, len(free), ledger.devices_in_mode(claim))
        for gpu in free[:wanted]:
            taken.add(gpu.uuid)
            chosen.append(HeldGpu(uuid=gpu.uuid, index=gpu.index, claim=claim, pci_bus_id=gpu.pci_bus_id))
    return tuple(sorted(chosen, key=lambda gpu: gpu.index))


def choose_any(ledger: HostLedger) -> tuple[HeldGpu, ...] | Shortage:
    """One device for a job that asked for none (auto=1); nothing on a host without devices."""
    if ledger.gpus_known and not ledger.gpus:
        return ()
    for claim in ("ngpus_shared", "ngpus_excl_p", "ngpus_excl_t"):
        found = choose(ledger, {claim: 1})
        if not isinstance(found, Shortage):
            return found
    return Shortage("ngpus", 1, 0 if ledger.gpus_known else None, len(ledger.gpus) if ledger.gpus_known else None)
