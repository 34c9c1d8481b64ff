"""What a GPU sends and receives, by NVML's counters: NVLink over all links, and PCIe.

Read-only. Runs in the process of `nvml`. A counter of 32 bits runs over several times in one interval, and
is therefore no counter here. Source of fields and units: NVIDIA's NVML API reference.
"""

from __future__ import annotations

from typing import Any

from gsched.probe.nvidia.nvml_read import GpuReader

_ALL_LINKS = 0xFFFFFFFF
_FIELDS = {
    "nvlink_tx_mib": ("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", _ALL_LINKS, 1 << 10),
    "nvlink_rx_mib": ("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", _ALL_LINKS, 1 << 10),
    "pcie_tx_mib": ("NVML_FI_DEV_PCIE_COUNT_TX_BYTES", 0, 1 << 20),
    "pcie_rx_mib": ("NVML_FI_DEV_PCIE_COUNT_RX_BYTES", 0, 1 << 20),
}
"""Name -> NVML's field, its scope, and how many of its units are a MiB."""
_WIDE = {2: "ulVal", 3: "ullVal"}
"""nvmlValueType_t of 64 bits -> where the value stands."""
_MOST = 1 << 62


def read_traffic(api: Any, read: GpuReader) -> dict[str, float]:
    """MiB since the driver was loaded; what it does not tell is missing."""
    asked = [(name, field, scope, unit) for name, (field, scope, unit) in _FIELDS.items() if hasattr(api, field)]
    values = read("nvmlDeviceGetFieldValues", [(getattr(api, field), scope) for _, field, scope, _ in asked])
    found: dict[str, float] = {}
    for (name, _, _, unit), value in zip(asked, values or (), strict=False):
        member = _WIDE.get(value.valueType) if value.nvmlReturn == api.NVML_SUCCESS else None
        number = None if member is None else int(getattr(value.value, member))
        if number is not None and 0 <= number <= _MOST:
            found[name] = number / unit
    return found
