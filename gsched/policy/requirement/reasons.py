"""Why a job waits, in LSF's texts with our numbers: per host a reason, then the commonest first with its count.

Texts: pending reasons of LSF 10.1 (bjobs -p). The numbers are ours: they say what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gsched.model.reason import PendingReason

WAITING = "New job is waiting for scheduling"
SUSPENDED = "The job was suspended by the user while pending"
NAMED_HOSTS = 4
"""Hosts that a reason names."""


def reserving(resource: str) -> str:
    """LSF's text for a reservation that cannot be met."""
    return f"Job's requirements for reserving resource ({resource}) not satisfied"


class Reason(NamedTuple):
    """One host's (or queue's) reason: LSF's text, and the numbers behind it."""

    text: str
    detail: str = ""
    candidate: bool = True
    """Whether the host is one that the job could ever use."""

    def pending(self) -> PendingReason:
        """As a reason that is no host's."""
        return PendingReason(self.text, detail=self.detail)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A reservation that cannot be met: `free` and `there` are None while the value is unknown."""

    resource: str
    wanted: float
    free: float | None
    there: float | None
    wish: str = ""
    """What else is asked of it."""
    closed: str = ""
    """GPUs that nobody holds and nobody gets, with why."""

    def reason(self, host: str) -> Reason:
        text = reserving(self.resource)
        wanted = f"{self.wanted:.10g}" + (f" of {self.wish}" if self.wish else "") + " wanted"
        if self.free is None:
            return Reason(text, f"{wanted}, {self.resource} is unknown on {host}")
        closed = f", {self.closed}" if self.closed else ""
        if self.there == 0 and self.wish:
            return Reason(text, f"{wanted}, {host} has no such GPU{closed}")
        of = "" if self.there is None else f" of {self.there:.10g}"
        return Reason(text, f"{wanted}, {self.free:.10g}{of} free on {host}{closed}")


NO_HOST = Reason("No host is configured for the job's queue")

_NUMBERS = re.compile(r"(.+) \(([^()]*[0-9][^()]*)\)")


def split(text: str) -> Reason:
    """A reason whose numbers stand in parentheses at its end."""
    found = _NUMBERS.fullmatch(text)
    return Reason(text) if found is None else Reason(found.group(1), found.group(2))


def of_alternative(name: str, reasons: Iterable[PendingReason]) -> Iterator[PendingReason]:
    """The reasons against an alternative of a requirement that is not its first, by name; hosts that the job could not
    use anyway are told of with the first.
    """
    told = list(reasons)
    for each in [reason for reason in told if reason.candidate] or told[:1]:
        hosts = f": {each.hosts} host{'' if each.hosts == 1 else 's'}" if each.hosts else ""
        yield PendingReason(f"{name}: {each.text}{hosts}", detail=each.detail)


def not_yet(name: str, delay_s: float) -> PendingReason:
    """That an alternative does not count yet."""
    return PendingReason(f"{name} will be tried {delay_s:.0f} seconds after submission")


def ranked(reasons: Iterable[PendingReason]) -> tuple[PendingReason, ...]:
    """The reasons in the order in which they are told: those of no host first, candidates before others, the
    commonest first, ties by text. Never empty.
    """
    found = sorted(reasons, key=lambda each: (each.hosts > 0, not each.candidate, -each.hosts, each.text))
    return tuple(found) or (NO_HOST.pending(),)
