"""The nodes below /dev/dri that belong to a PCI device: a second way to a GPU, beside its /dev/nvidiaN.

Source: sysfs, /sys/bus/pci/devices/ID/drm/NAME/dev (the kernel's Documentation/ABI/testing/sysfs-bus-pci, sysfs rules).
Reads files only; what is not there has no nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

DEVICES = Path("/sys/bus/pci/devices")
NVIDIA = "0x10de"
"""The vendor in a device's file `vendor`: NVIDIA's number (PCI-SIG)."""


def render_nodes(pci_bus_id: str, devices: Path = DEVICES) -> list[tuple[int, int]]:
    """(major, minor) of each; `pci_bus_id` as NVML writes it (eight digits of domain) or as sysfs does (four)."""
    domain, _, rest = pci_bus_id.lower().partition(":")
    if not rest:
        return []
    return _numbers(devices.glob(f"{domain.lstrip('0').rjust(4, '0')}:{rest}/drm/*/dev"))


def nodes_of_vendor(vendor: str = NVIDIA, devices: Path = DEVICES) -> list[tuple[int, int]]:
    """(major, minor) of each node of that vendor's devices, while nobody has asked the driver which there are."""
    return _numbers(path for path in devices.glob("*/drm/*/dev") if _text(path.parents[2] / "vendor") == vendor)


def _numbers(paths: Iterable[Path]) -> list[tuple[int, int]]:
    found = []
    for path in sorted(paths):
        major, _, minor = _text(path).partition(":")
        if major.isdecimal() and minor.isdecimal():
            found.append((int(major), int(minor)))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
