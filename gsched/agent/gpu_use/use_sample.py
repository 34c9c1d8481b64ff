"""What of a device is one attempt's at one moment."""

from __future__ import annotations

import msgspec

UNLISTED_MIB = 1024.0
"""So much memory in use on a device without a process is somebody's: the driver does not list who is there."""


class UseSample(msgspec.Struct, frozen=True, kw_only=True):
    """None: unknown."""

    sm_percent: float | None = None
    sm_peak: float | None = None
    """The most that one of its processes used since the look before."""
    traffic_percent: float | None = None
    mem_mib: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    energy_j: float | None = None
    """The device's counter, as long as the attempt has it for itself."""
    throttle: int | None = None
    """Why the clocks of a device that it has for itself are low; the same holds for what follows."""
    counters: dict[str, float] = {}
    rates: dict[str, float] = {}
    profile: dict[str, float] = {}
    device_mib: float | None = None
    """In use, by whomever."""
    processes: int | None = None
    """Of the attempt, on the device."""

    @property
    def most_used(self) -> float | None:
        """Percent: the most use that anything tells of."""
        return max((each for each in (self.sm_percent, self.sm_peak) if each is not None), default=None)

    @property
    def has_no_process(self) -> bool:
        """No process of the attempt is on the device, and nothing speaks against that."""
        return self.processes == 0 and (self.device_mib is None or self.device_mib < UNLISTED_MIB)
