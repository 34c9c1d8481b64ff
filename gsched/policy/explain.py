"""Why a job waits, in LSF's texts with our numbers: per host a reason, then the commonest first with its count.

Texts: pending reasons of LSF 10.1 (bjobs -p). The numbers in parentheses are ours: they say what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

WAITING = "New job is waiting for scheduling"
SUSPENDED = "The job was suspended by the user while pending"


def waiting_to_retry(host: str) -> str:
    """The reason of a job whose last attempt could not be started on `host`, until it may be tried again."""
    where = f"; the last one failed on {host}" if host else ""
    return f"Job execution initialization failed: waiting before the next attempt to start it{where}"


def reserving(resource: str) -> str:
    """LSF's text for a reservation that cannot be met."""
    return f"Job's requirements for reserving resource ({resource}) not satisfied"


class Reason(NamedTuple):
    """One host's (or queue's) reason: LSF's text, and the numbers behind it."""

    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A reservation that cannot be met: `free` and `there` are None while the value is unknown."""

    resource: str
    wanted: float
    free: float | None
    there: float | None

    def reason(self, host: str) -> Reason:
        text = reserving(self.resource)
        if self.free is None:
            return Reason(text, f"{self.wanted:.10g} wanted, {self.resource} is unknown on {host}")
        of = "" if self.there is None else f" of {self.there:.10g}"
        return Reason(text, f"{self.wanted:.10g} wanted, {self.free:.10g}{of} free on {host}")


NO_HOST = Reason("No host is configured for the job's queue")


def summarise(reasons: Iterable[Reason]) -> tuple[str, ...]:
    """`TEXT: N hosts (numbers of the first)`, the commonest text first, ties by text. Never empty."""
    counts: dict[str, int] = {}
    details: dict[str, str] = {}
    for reason in reasons:
        counts[reason.text] = counts.get(reason.text, 0) + 1
        details.setdefault(reason.text, reason.detail)
    if not counts:
        return (NO_HOST.text,)
    lines = []
    for text, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        detail = f" ({details[text]})" if details[text] else ""
        lines.append(f"{text}: {count} host{'s' if count > 1 else ''}{detail}")
    return tuple(lines)
