"""A value that is found out anew after a while, and not before."""

from __future__ import annotations

from gsched.base.clock import RecentValue


def test_it_is_found_once_in_a_while() -> None:
    now, found = 100.0, []

    def find() -> int:
        found.append(now)
        return len(found)

    value = RecentValue(find, 30.0, lambda: now)
    assert [value(), value()] == [1, 1]
    now = 129.0
    assert value() == 1
    now = 130.0
    assert [value(), value()] == [2, 2]
    assert found == [100.0, 130.0]
