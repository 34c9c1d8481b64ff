"""What jobs cost by the time of their GPUs and by energy. None is unknown, or that nobody has set a price."""

from __future__ import annotations

import msgspec

J_PER_KWH = 3.6e6
_HOUR_S = 3600.0


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Prices of a cluster; None: it has none."""

    gpu_hour: float | None = None
    """GPU_HOUR_PRICE: of a GPU that is held for an hour; of a shared one the part that is held."""
    kwh: float | None = None
    """KWH_PRICE."""
    currency: str = ""

    @property
    def are_known(self) -> bool:
        return self.gpu_hour is not None or self.kwh is not None


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """In the currency of the prices."""

    gpu_time: float | None = None
    energy: float | None = None
    total: float | None = None
    """None where a part that has a price is unknown."""


def cost_of(prices: Prices, gpu_s: float, energy_j: float | None) -> Cost:
    """What so many seconds of GPUs, and so much energy, cost."""
    gpu_time = None if prices.gpu_hour is None else prices.gpu_hour * gpu_s / _HOUR_S
    energy = None if prices.kwh is None or energy_j is None else prices.kwh * energy_j / J_PER_KWH
    priced = [part for price, part in ((prices.gpu_hour, gpu_time), (prices.kwh, energy)) if price is not None]
    known = [part for part in priced if part is not None]
    return Cost(gpu_time=gpu_time, energy=energy, total=sum(known) if known and len(known) == len(priced) else None)
