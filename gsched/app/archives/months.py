"""Months of an archive: they begin and end in UTC, so that a folder means the same wherever it is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from gsched.base.errors import BadRequest
from gsched.dialect.times import parse_moment

_MONTH = re.compile(r"(\d{4})[-/](\d\d?)/?", re.ASCII)


class Month(NamedTuple):
    """Of a year."""

    year: int
    month: int

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.month:02d}"

    @property
    def since(self) -> float:
        """When it begins, UTC seconds."""
        return datetime(self.year, self.month, 1, tzinfo=UTC).timestamp()

    @property
    def next(self) -> Month:
        """The month after it."""
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def until(self) -> float:
        """When it is over, UTC seconds."""
        return self.next.since


def month_of(at: float) -> Month:
    """The month of a time, UTC seconds."""
    then = datetime.fromtimestamp(at, UTC)
    return Month(then.year, then.month)


def month_before_which(text: str, now: float, zone: tzinfo) -> Month:
    """The first month that stays: `2026-10`, or the month of a date in any form that `gacct -C` takes, in the caller's
    zone. Raises BadRequest for what is no time, and for a month that is not over before it.
    """
    found = _MONTH.fullmatch(text.strip())
    moment = parse_moment(f"{found[1]}/{found[2]}/" if found is not None else text, now, zone)
    then = datetime.fromtimestamp(moment, zone)
    month = Month(then.year, then.month)
    if month.since > now:
        raise BadRequest(f"{text}: only months that are over are archived, and {month} has not begun (in UTC)")
    return month


def months(first: Month, before: Month) -> Iterator[Month]:
    """From `first` on, and before `before`."""
    while first < before:
        yield first
        first = first.next
