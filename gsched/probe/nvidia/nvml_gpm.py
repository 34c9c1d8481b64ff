"""GPM, the counters that newer devices (Hopper on) have of their own work: means between two looks.

Read-only. Runs in the process of gsched.probe.nvidia.nvml. Source of metrics and units: NVIDIA's NVML API reference.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from gsched.probe.nvidia.nvml_read import GpuReader, value_of

_PROFILE = {
    "sm_active": "NVML_GPM_METRIC_SM_UTIL",
    "occupancy": "NVML_GPM_METRIC_SM_OCCUPANCY",
    "tensor": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "dram": "NVML_GPM_METRIC_DRAM_BW_UTIL",
}
"""Percent."""
_RATES = {
    "pcie_tx_mib": "NVML_GPM_METRIC_PCIE_TX_PER_SEC",
    "pcie_rx_mib": "NVML_GPM_METRIC_PCIE_RX_PER_SEC",
    "nvlink_tx_mib": "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC",
    "nvlink_rx_mib": "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC",
}
"""MiB per second."""
_BUSY = "NVML_GPM_METRIC_GRAPHICS_UTIL"
"""Percent of the time in which any program computed: what a whole GPU tells as its utilization."""
_MOST_MIB_S = 1e8


class GpmValues(msgspec.Struct, frozen=True, kw_only=True):
    """Means since the look before; what is not told is missing."""

    profile: dict[str, float] = {}
    rates: dict[str, float] = {}
    busy: float | None = None
    """Percent of the time in which it computed."""


class GpmReader:
    """Remembers the last look at each GPU, and at each part of one by MIG."""

    def __init__(self) -> None:
        self._can: dict[str, bool] = {}
        self._last: dict[str, Any] = {}
        """UUID -> the driver's sample."""

    def read(self, api: Any, read: GpuReader, uuid: str) -> GpmValues:
        """What has been since the last look at this GPU; nothing the first time, and where there is no GPM."""
        return self._since_last(api, uuid, _sample(api, read)) if self._is_able(read, uuid) else GpmValues()

    def read_part(self, api: Any, read: GpuReader, uuid: str, part: str, instance: int) -> GpmValues:
        """The same of a part by MIG: of its GPU instance, of which there must be no other part. `read` and `uuid` are
        the GPU's. Its traffic over links is not told apart.
        """
        if not self._is_able(read, uuid):
            return GpmValues()
        found = self._since_last(api, part, _sample(api, read, instance))
        return GpmValues(profile=found.profile, busy=found.busy)

    def _is_able(self, read: GpuReader, uuid: str) -> bool:
        if uuid not in self._can:
            support = read("nvmlGpmQueryDeviceSupport")
            self._can[uuid] = support is not None and bool(support.isSupportedDevice)
        return self._can[uuid]

    def _since_last(self, api: Any, uuid: str, sample: Any) -> GpmValues:
        before = self._last.pop(uuid, None)
        if sample is not None:
            self._last[uuid] = sample
        try:
            return _between(api, before, sample) if before is not None and sample is not None else GpmValues()
        finally:
            if before is not None:
                value_of(lambda: api.nvmlGpmSampleFree(before))


def _sample(api: Any, read: GpuReader, instance: int | None = None) -> Any:
    """Of the GPU, or of one GPU instance of it."""
    sample = value_of(api.nvmlGpmSampleAlloc)
    if sample is None:
        return None
    taken = read("nvmlGpmSampleGet", sample) if instance is None else read("nvmlGpmMigSampleGet", instance, sample)
    if taken is None:
        value_of(lambda: api.nvmlGpmSampleFree(sample))
        return None
    return sample


def _between(api: Any, before: Any, after: Any) -> GpmValues:
    names = {**_PROFILE, **_RATES, "busy": _BUSY}
    asked = [(name, getattr(api, metric)) for name, metric in names.items() if hasattr(api, metric)]
    question = api.c_nvmlGpmMetricsGet_t()
    question.version = api.NVML_GPM_METRICS_GET_VERSION
    question.numMetrics = len(asked)
    question.sample1, question.sample2 = before, after
    for place, (_, metric) in enumerate(asked):
        question.metrics[place].metricId = metric
    if value_of(lambda: api.nvmlGpmMetricsGet(question)) is None:
        return GpmValues()
    found: dict[str, float] = {}
    for place, (name, _) in enumerate(asked):
        metric = question.metrics[place]
        value, most = float(metric.value), _MOST_MIB_S if name in _RATES else 100.0
        if metric.nvmlReturn == api.NVML_SUCCESS and math.isfinite(value) and 0.0 <= value <= most:
            found[name] = value
    return GpmValues(
        profile={name: found[name] for name in _PROFILE if name in found},
        rates={name: found[name] for name in _RATES if name in found},
        busy=found.get("busy"),
    )
