"""Which GPUs CUDA shows to a program, worked out from its environment as CUDA's programming guide tells.

Devices are counted in the order of their PCI addresses with CUDA_DEVICE_ORDER=PCI_BUS_ID, those alone that the program
can open; CUDA_VISIBLE_DEVICES picks of them by number or UUID, up to the first entry that is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def devices_of(
    environment: Mapping[str, str], addresses: Mapping[str, str], openable: Iterable[str] | None = None
) -> list[str]:
    """UUIDs of CUDA's devices 0, 1 … ; `addresses`: PCI address of each GPU of the host, by UUID."""
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID", "any other order is a matter of speed"
    opened = set(addresses if openable is None else openable)
    counted: Sequence[str] = sorted(opened, key=lambda uuid: addresses[uuid])
    visible: list[str] = []
    for entry in environment["CUDA_VISIBLE_DEVICES"].split(","):
        if entry.isdigit() and int(entry) < len(counted):
            uuid = counted[int(entry)]
        elif entry in opened:
            uuid = entry
        else:
            break
        assert uuid not in visible, "CUDA shows nothing at all when a device is named twice"
        visible.append(uuid)
    return visible
