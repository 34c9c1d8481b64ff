"""How CUDA counts GPUs under CUDA_DEVICE_ORDER=PCI_BUS_ID: by PCI address, which need not be NVML's order.

Source: CUDA's programming guide, environment variables. A number is only told where it is certain; a UUID always names
one GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gsched.model.hosts.host import GpuReport
from gsched.model.ledgers.allocation import HeldGpu

_ADDRESS = re.compile(r"([0-9a-f]{1,8}):([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", re.ASCII | re.IGNORECASE)

Address = tuple[int, ...]
"""Domain, bus, device, function."""


def pci_address(text: str) -> Address | None:
    """The address as numbers, with four or eight digits of domain; None for what is none."""
    found = _ADDRESS.fullmatch(text)
    return None if found is None else tuple(int(each, 16) for each in found.groups())


def in_cuda_order(gpus: Iterable[HeldGpu]) -> tuple[HeldGpu, ...]:
    """By PCI address, and in the order in which they come where there is none; parts of GPUs stay as they are."""
    held = tuple(gpus)
    found = {gpu.uuid: pci_address(gpu.pci_bus_id) for gpu in held}
    addresses = {uuid: address for uuid, address in found.items() if address is not None}
    if len(addresses) < len(held) or any(gpu.parent for gpu in held):
        return held
    return tuple(sorted(held, key=lambda gpu: addresses[gpu.uuid]))


def cuda_numbers(report: GpuReport | None) -> dict[str, int]:
    """UUID -> CUDA's number of each GPU of a host, for a program that can open all of them.

    Empty where that cannot be told: an address is missing, or CUDA may pass over a GPU, because it has failed, cannot
    be read or is split by MIG.
    """
    if report is None or not report.known:
        return {}
    places = {gpu.uuid: pci_address(gpu.pci_bus_id) for gpu in report.gpus}
    addresses = {uuid: address for uuid, address in places.items() if address is not None}
    if len(set(addresses.values())) < len(report.gpus):
        return {}
    if any(gpu.fault or gpu.mode is None or gpu.mig for gpu in report.gpus):
        return {}
    return {uuid: number for number, uuid in enumerate(sorted(addresses, key=lambda uuid: addresses[uuid]))}
