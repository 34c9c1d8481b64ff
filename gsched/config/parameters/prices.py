"""GPU_HOUR_PRICE and KWH_PRICE of lsb.params: what a cluster's GPUs and its electricity cost, `2.50 EUR`.

One currency holds for both. Programs read them from gparams in the same form.
"""

from __future__ import annotations

import re

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings, show
from gsched.config.grammar.values import KeyValues
from gsched.model.efficiency.cost import Prices

GPU_HOUR, KWH = "GPU_HOUR_PRICE", "KWH_PRICE"
MOST = 1e9
_FORM = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([A-Za-z]{1,8})", re.ASCII)


def read_prices(settings: KeyValues, findings: Findings) -> Prices:
    """Both, as the sections say; what is wrong goes to `findings`, at its line."""
    of_gpu, of_energy = settings.take(GPU_HOUR, read_price, None), settings.take(KWH, read_price, None)
    at = settings.place(KWH)
    if of_gpu is not None and of_energy is not None and at is not None and of_gpu[1] != of_energy[1]:
        findings.error(at, f"{KWH} is in {of_energy[1]} and {GPU_HOUR} in {of_gpu[1]}: one currency holds for both")
    return Prices(
        gpu_hour=None if of_gpu is None else of_gpu[0],
        kwh=None if of_energy is None else of_energy[0],
        currency=next((each[1] for each in (of_gpu, of_energy) if each is not None), ""),
    )


def read_price(text: str) -> tuple[float, str]:
    """Amount and currency. Raises BadRequest."""
    found = _FORM.fullmatch(text.strip())
    if found is None or float(found[1]) > MOST:
        raise BadRequest(f"'{show(text)}' is not an amount with its currency, such as 2.50 EUR")
    return float(found[1]), found[2]


def written_price(amount: float | None, currency: str) -> str | None:
    """As `read_price` reads it; None where there is none."""
    return None if amount is None else f"{amount:.6f}".rstrip("0").rstrip(".") + f" {currency}"
