"""The nodes below /dev/dri that belong to a PCI device: a second way to a GPU, beside its /dev/nvidiaN.

Source: sysfs, /sys/bus/pci/devices/ID/drm/NAME/dev (the kernel's Documentation/ABI/testing/sysfs-bus-pci, sysfs rules).
Reads files only; what is not there has no nodes.
"""

from __future__ import annotations

from pathlib import Path

DEVICES = Path("/sys/bus/pci/devices")


def render_nodes(pci_bus_id: str, devices: Path = DEVICES) -> list[tuple[int, int]]:
    """(major, minor) of each; `pci_bus_id` as NVML writes it (eight digits of domain) or as sysfs does (four)."""
    domain, _, rest = pci_bus_id.lower().partition(":")
    if not rest:
        return []
    found = []
    for path in sorted(devices.glob(f"{domain.lstrip('0').rjust(4, '0')}:{rest}/drm/*/dev")):
        try:
            major, _, minor = path.read_text().strip().partition(":")
            found.append((int(major), int(minor)))
        except (OSError, ValueError):
            continue
    return found
