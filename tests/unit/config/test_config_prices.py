"""GPU_HOUR_PRICE and KWH_PRICE: amounts with a currency, and what is wrong with others."""

from __future__ import annotations

import pytest
from config_texts import check

from gsched.base.errors import BadRequest
from gsched.config.parameters.prices import read_price, written_price
from gsched.model.efficiency.cost import Prices


def checked(*lines: str):
    return check({"lsb.params": "\n".join(["Begin Parameters", *lines, "End Parameters", ""])})


def test_prices() -> None:
    found = checked("GPU_HOUR_PRICE = 2.50 EUR", "KWH_PRICE = 0.3EUR").config
    assert found is not None and found.params.prices == Prices(gpu_hour=2.5, kwh=0.3, currency="EUR")
    found = checked("KWH_PRICE = 0.30 USD").config
    assert found is not None and found.params.prices == Prices(kwh=0.3, currency="USD")
    found = checked().config
    assert found is not None and found.params.prices == Prices() and found.params.efficiency_min_run_s == 300.0


@pytest.mark.parametrize(
    "text", ["2.50", "EUR", "-1 EUR", "1e3 EUR", "2,50 EUR", "2.5 E UR", "nan EUR", "2.5 EUROPOUNDS", ""]
)
def test_what_is_no_price(text: str) -> None:
    with pytest.raises(BadRequest, match=r"is not an amount with its currency, such as 2\.50 EUR$"):
        read_price(text)
    wrong = checked("MAX_JOBID = 99999", f"GPU_HOUR_PRICE = {text}")
    assert wrong.config is None and any(":3: GPU_HOUR_PRICE" in str(each) for each in wrong.errors)


def test_one_currency_holds_for_both() -> None:
    wrong = checked("GPU_HOUR_PRICE = 2.50 EUR", "KWH_PRICE = 0.30 USD")
    (error,) = wrong.errors
    assert str(error).endswith(
        "lsb.params:3: KWH_PRICE is in USD and GPU_HOUR_PRICE in EUR: one currency holds for both"
    )


@pytest.mark.parametrize("text", ["2.5 EUR", "0 EUR", "1000000 JPY", "0.000001 CHF", "0.283 EUR"])
def test_what_is_written_is_read_again(text: str) -> None:
    assert written_price(*read_price(text)) == text
    assert written_price(None, "EUR") is None
