"""What of a device is one attempt's; where the driver does not tell it apart from others', it is unknown. Pure."""

from __future__ import annotations

from collections.abc import Collection

from gsched.agent.gpu_use.use_sample import UseSample
from gsched.model.gpus.gpu_use import DeviceReadings, DeviceUse, ProcessUse


def share_of(use: DeviceUse, own: Collection[int], *, is_alone: bool, are_hidden: bool) -> UseSample:
    """The attempt's share of what the driver says of the device.

    `own`: processes that are the attempt's. `is_alone`: no other attempt holds the device. `are_hidden`: the driver
    does not list the processes that are there, as in a container.
    """
    listed = None if are_hidden else use.processes
    mine = [each for each in listed or () if each.pid in own]
    if not is_alone or len(mine) < len(listed or ()):
        return _beside_others(listed, mine)
    own_mib = _sum_mib(mine)
    return UseSample(
        **{name: getattr(use, name) for name in DeviceReadings.__struct_fields__},
        sm_peak=_peak(mine),
        mem_mib=own_mib if mine and own_mib is not None else 0.0 if listed == () else use.used_mib,
        device_mib=use.used_mib,
        own=None if listed is None else tuple(mine),
    )


def _beside_others(listed: tuple[ProcessUse, ...] | None, mine: list[ProcessUse]) -> UseSample:
    """What the driver tells by process; power and traffic it tells of the whole device alone."""
    if listed is None:
        return UseSample()
    shares = [each.sm_percent for each in mine if each.sm_percent is not None]
    is_told = len(shares) == len(mine)
    return UseSample(
        sm_percent=min(100.0, sum(shares)) if is_told else None,
        sm_peak=_peak(mine),
        mem_mib=_sum_mib(mine),
        own=tuple(mine),
    )


def _peak(processes: list[ProcessUse]) -> float | None:
    return max((each.sm_peak for each in processes if each.sm_peak is not None), default=None)


def _sum_mib(processes: list[ProcessUse]) -> float | None:
    sizes = [each.used_mib for each in processes if each.used_mib is not None]
    return sum(sizes) if len(sizes) == len(processes) else None


HIDDEN_AFTER = 2
"""So often running must a device compute without any process before its list is not believed."""


class HiddenProcesses:
    """Devices whose processes the driver does not list: they compute, and nobody is there."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        """UUID -> how often running it computed without a process."""

    def are_on(self, use: DeviceUse) -> bool:
        """Judges by this look and those before it. A device still counts what a process did that has just gone, so one
        look alone makes only itself doubtful.
        """
        if use.processes:
            self._seen.pop(use.uuid, None)
            return False
        looks = self._seen.get(use.uuid, 0)
        if use.sm_percent:
            self._seen[use.uuid] = looks + 1
            return True
        if looks < HIDDEN_AFTER:
            self._seen.pop(use.uuid, None)
            return False
        return True
