"""The program that counts functions on four ways still goes them."""

from __future__ import annotations

import code_ways


def test_the_ways_lead_through_the_code() -> None:
    first, again = code_ways.requirement()
    assert first >= again > 100
    assert min(code_ways.gpu_report(), code_ways.kill(), code_ways.reconfiguration()) > 20
