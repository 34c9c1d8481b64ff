"""Why the clocks of a GPU are lower than they could be: the bits that NVML tells, and their names.

Source: nvmlClocksEventReason of NVIDIA's NVML API reference; names as nvidia-smi(1) has them.
"""

from __future__ import annotations

NAMES = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
POWER = 0x4 | 0x80
"""Too little power."""
HEAT = 0x20 | 0x40
"""Too warm."""
THROTTLING = POWER | HEAT | 0x8
"""What keeps a GPU slower than its work asks for; the other reasons are somebody's wish, or that there is no work."""
MOST = (1 << 63) - 1


def names_of(reasons: int) -> tuple[str, ...]:
    """Names of the bits, in order; of one that nobody knows its number."""
    bits = (1 << place for place in range(reasons.bit_length()))
    return tuple(NAMES.get(bit, f"{bit:#x}") for bit in bits if reasons & bit)
