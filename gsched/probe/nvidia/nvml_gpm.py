"""GPM, the counters that newer devices (Hopper on) have of their own work: means between two looks.

Read-only. Runs in the process of gsched.probe.nvidia.nvml. Source of metrics and units: NVIDIA's NVML API reference.
"""

from __future__ import annotations

import math
from typing import Any

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
_MOST_MIB_S = 1e8


class GpmReader:
    """Remembers the last look at each GPU."""

    def __init__(self) -> None:
        self._can: dict[str, bool] = {}
        self._last: dict[str, Any] = {}
        """UUID -> the driver's sample."""

    def read(self, api: Any, read: GpuReader, uuid: str) -> tuple[dict[str, float], dict[str, float]]:
        """(profile, rates) since the last look at this GPU; empty the first time, and where there is no GPM."""
        if uuid not in self._can:
            support = read("nvmlGpmQueryDeviceSupport")
            self._can[uuid] = support is not None and bool(support.isSupportedDevice)
        if not self._can[uuid]:
            return {}, {}
        sample = _sample(api, read)
        before = self._last.pop(uuid, None)
        if sample is not None:
            self._last[uuid] = sample
        try:
            return _between(api, before, sample) if before is not None and sample is not None else ({}, {})
        finally:
            if before is not None:
                value_of(lambda: api.nvmlGpmSampleFree(before))


def _sample(api: Any, read: GpuReader) -> Any:
    sample = value_of(api.nvmlGpmSampleAlloc)
    if sample is None:
        return None
    if read("nvmlGpmSampleGet", sample) is None:
        value_of(lambda: api.nvmlGpmSampleFree(sample))
        return None
    return sample


def _between(api: Any, before: Any, after: Any) -> tuple[dict[str, float], dict[str, float]]:
    names = {**_PROFILE, **_RATES}
    asked = [(name, getattr(api, metric)) for name, metric in names.items() if hasattr(api, metric)]
    question = api.c_nvmlGpmMetricsGet_t()
    question.version = api.NVML_GPM_METRICS_GET_VERSION
    question.numMetrics = len(asked)
    question.sample1, question.sample2 = before, after
    for place, (_, metric) in enumerate(asked):
        question.metrics[place].metricId = metric
    if value_of(lambda: api.nvmlGpmMetricsGet(question)) is None:
        return {}, {}
    profile: dict[str, float] = {}
    rates: dict[str, float] = {}
    for place, (name, _) in enumerate(asked):
        found = question.metrics[place]
        value = float(found.value)
        into, most = (profile, 100.0) if name in _PROFILE else (rates, _MOST_MIB_S)
        if found.nvmlReturn == api.NVML_SUCCESS and math.isfinite(value) and 0.0 <= value <= most:
            into[name] = value
    return profile, rates
