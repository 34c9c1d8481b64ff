"""What of a device is one attempt's at one moment."""

from __future__ import annotations

from gsched.model.gpus.gpu_use import DeviceReadings, ProcessUse

UNLISTED_MIB = 1024.0
"""So much memory in use on a device without a process is somebody's: the driver does not list who is there."""


class UseSample(DeviceReadings, frozen=True, kw_only=True):
    """The readings are those of a device that the attempt has for itself, else what of them the driver tells apart.
    None: unknown.
    """

    sm_peak: float | None = None
    """The most that one of its processes used since the look before."""
    mem_mib: float | None = None
    """Of its processes."""
    device_mib: float | None = None
    """In use, by whomever."""
    own: tuple[ProcessUse, ...] | None = None
    """Its processes on the device; None: nobody knows which they are."""

    @property
    def most_used(self) -> float | None:
        """Percent: the most use that anything tells of."""
        return max((each for each in (self.sm_percent, self.sm_peak) if each is not None), default=None)

    @property
    def has_no_process(self) -> bool:
        """No process of the attempt is on the device, and nothing speaks against that."""
        return self.own == () and (self.device_mib is None or self.device_mib < UNLISTED_MIB)
