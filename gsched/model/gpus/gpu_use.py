"""What a job makes of its GPUs: what a driver tells of a device at one moment, and the summary of an attempt's use.

Unknown is not zero: what a driver could not tell is None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

TRAFFIC = ("nvlink_tx_mib", "nvlink_rx_mib", "pcie_tx_mib", "pcie_rx_mib")
"""MiB sent and received."""
ERRORS = ("ecc_errors", "ecc_corrected")
"""Memory errors that could not be corrected, and those that were."""
PROFILE = ("sm_active", "occupancy", "tensor", "dram")
"""By GPM, percent of the time since the last look: SMs with work, the places for warps that were taken, tensor cores,
and the memory's bandwidth.
"""


_MIG_DEVICE = "MIG-"


def is_mig_device(uuid: str) -> bool:
    """Whether it is that of a part of a GPU by MIG: NVML's begin so."""
    return uuid.startswith(_MIG_DEVICE)


class ProcessAccount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the driver's accounting says of a process on a device: of its whole life, also after its end."""

    began_at: float
    """UTC seconds."""
    sm_percent: float | None = None
    """Share of its life in which the device computed for it."""
    peak_mib: float | None = None
    """The most memory that it ever had."""
    life_s: float | None = None
    """How long it was there; None as long as it is."""


class ProcessUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process on a device."""

    pid: int
    sm_percent: float | None = None
    """Its share of the time in which the device computed, the mean since the last look."""
    sm_peak: float | None = None
    """The most of it at any time since then."""
    used_mib: float | None = None
    account: ProcessAccount | None = None
    """Where the device keeps accounts."""


class DeviceReadings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is told of a device as a whole at one moment."""

    sm_percent: float | None = None
    """Share of the last moments in which it computed."""
    traffic_percent: float | None = None
    """Share of the last moments in which its memory was read or written."""
    power_w: float | None = None
    power_limit_w: float | None = None
    """The most that it may draw."""
    energy_j: float | None = None
    """All that it has consumed since the driver was loaded."""
    throttle: int | None = None
    """Why its clocks are lower than they could be: bits of `gsched.model.gpus.clock_reasons`."""
    counters: dict[str, float] = {}
    """TRAFFIC and ERRORS since the driver was loaded, those of which it tells."""
    rates: dict[str, float] = {}
    """TRAFFIC per second since the last look, where the device has GPM."""
    profile: dict[str, float] = {}
    """PROFILE, where the device has GPM."""


class DeviceUse(DeviceReadings, frozen=True, kw_only=True, omit_defaults=True):
    """A device, or a part of one by MIG, as the driver sees it at one moment."""

    uuid: str
    used_mib: float | None = None
    processes: tuple[ProcessUse, ...] | None = None
    """None: the driver does not tell which there are."""
    ended: tuple[ProcessUse, ...] = ()
    """Processes that have ended since the last look, where the device keeps accounts."""
    parts: tuple[DeviceUse, ...] = ()
    """By MIG."""


MOST_SHARES = 8
"""Processes of one attempt on one device that are told of."""


class ProcessShare(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What one process of an attempt has made of a device; a program that runs many makes many."""

    pid: int
    name: str = ""
    """Of its program, as it was called; empty: unknown."""
    seconds: float = 0.0
    """How long it was there."""
    sm_mean: float | None = None
    """Percent of that time in which the device computed for it."""
    sm_max: float | None = None
    """The most that was seen."""
    mem_max_mib: float | None = None
    is_accounted: bool = False
    """By the driver's accounting, which tells of its whole life; otherwise by samples."""
    has_ended: bool = False


class GpuUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What one attempt has made of one device that it holds. Percentages of 100, means by time."""

    host: str = ""
    index: int = 0
    uuid: str = ""
    samples: int = 0
    covered_s: float = 0.0
    """Seconds that the samples stand for; what is missing of its run time nobody has looked at."""
    sm_mean: float | None = None
    sm_median: float | None = None
    sm_p95: float | None = None
    sm_min: float | None = None
    sm_max: float | None = None
    mem_mean_mib: float | None = None
    mem_max_mib: float | None = None
    traffic_mean: float | None = None
    traffic_min: float | None = None
    traffic_max: float | None = None
    power_mean_w: float | None = None
    energy_j: float | None = None
    energy_counted: bool = False
    """All of `energy_j` is by the device's own counter; otherwise some of it is power by time."""
    idle_s: float | None = None
    """Seconds in which it did not compute."""
    no_process_s: float | None = None
    """Seconds in which no process of the job was on it."""
    throttled_s: float | None = None
    """Seconds in which it was slower than its work asked for; of these those for power and those for heat."""
    throttled_power_s: float | None = None
    throttled_heat_s: float | None = None
    ecc_errors: float | None = None
    """Memory errors that came up meanwhile and could not be corrected, and those that were."""
    ecc_corrected: float | None = None
    nvlink_tx_mib: float | None = None
    nvlink_rx_mib: float | None = None
    pcie_tx_mib: float | None = None
    pcie_rx_mib: float | None = None
    sm_active_mean: float | None = None
    """By GPM, see PROFILE."""
    occupancy_mean: float | None = None
    tensor_mean: float | None = None
    dram_mean: float | None = None
    processes: tuple[ProcessShare, ...] = ()
    """Those of its processes that used it most, MOST_SHARES at most."""
    more_processes: int = 0
    """So many others were there."""

    @property
    def is_known(self) -> bool:
        """Whether anything is known of it."""
        return bool(self.samples) or self.energy_j is not None or any(each.is_accounted for each in self.processes)


class JobGpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """All devices of a job in one row. None where it is unknown of one of them: a part would pass for the whole."""

    util_percent: float | None = None
    mem_mean_mib: float | None = None
    """Of a device."""
    mem_max_mib: float | None = None
    """The most on one device."""
    energy_j: float | None = None
    idle_s: float | None = None
    """Summed over the devices."""


def of_job(uses: Sequence[GpuUsage], devices: int) -> JobGpuUse:
    """What a job that holds so many devices makes of them."""
    if not uses or len(uses) < devices:
        return JobGpuUse()
    return JobGpuUse(
        util_percent=_mean([use.sm_mean for use in uses]),
        mem_mean_mib=_mean([use.mem_mean_mib for use in uses]),
        mem_max_mib=_most([use.mem_max_mib for use in uses]),
        energy_j=_sum([use.energy_j for use in uses]),
        idle_s=_sum([use.idle_s for use in uses]),
    )


def _all(values: Sequence[float | None]) -> list[float]:
    """The values, or nothing when one of them is unknown."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _sum(values: Sequence[float | None]) -> float | None:
    known = _all(values)
    return sum(known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = _all(values)
    return sum(known) / len(known) if known else None


def _most(values: Sequence[float | None]) -> float | None:
    known = _all(values)
    return max(known) if known else None
