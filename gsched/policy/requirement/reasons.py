"""Why a job waits, as codes with numbers: per host a reason, then the commonest first with its count.

The words, of bjobs -p of LSF 10.1, are in `base.sentences`. The numbers are ours: they say what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gsched.base.coded_text import AnyText, CodedText, coded, order_of
from gsched.model.jobs.reason import PendingReason

NAMED_HOSTS = 4
"""Hosts that a reason names."""


def reserving(resource: str) -> CodedText:
    """LSF's reason for a reservation that cannot be met."""
    return coded("pending.reserving", resource)


class Reason(NamedTuple):
    """One host's (or queue's) reason: LSF's text, and the numbers behind it."""

    text: AnyText
    detail: AnyText = ""
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
    closed: AnyText = ""
    """GPUs that nobody holds and nobody gets, with why."""

    def reason(self, host: str) -> Reason:
        text = reserving(self.resource)
        wanted = coded("numbers.of_wish", self.wanted, self.wish) if self.wish else coded("numbers.amount", self.wanted)
        if self.free is None:
            return Reason(text, coded("numbers.unknown", wanted, self.resource, host))
        closed = coded("numbers.and", self.closed) if self.closed else ""
        if self.there == 0 and self.wish:
            return Reason(text, coded("numbers.no_such_gpu", wanted, host, closed))
        free = self.free if self.there is None else coded("numbers.of", self.free, self.there)
        return Reason(text, coded("numbers.free", wanted, _amount(free), host, closed))


def _amount(amount: float | CodedText) -> CodedText:
    return amount if isinstance(amount, CodedText) else coded("numbers.amount", amount)


NO_HOST = Reason(coded("pending.no_host"))


def of_alternative(name: str, reasons: Iterable[PendingReason]) -> Iterator[PendingReason]:
    """The reasons against an alternative of a requirement that is not its first, by name; hosts that the job could not
    use anyway are told of with the first.
    """
    told = list(reasons)
    for each in [reason for reason in told if reason.candidate] or told[:1]:
        hosts = coded("numbers.one_host" if each.hosts == 1 else "numbers.hosts", each.hosts) if each.hosts else ""
        yield PendingReason(coded("pending.of_alternative", name, each.text, hosts), detail=each.detail)


def not_yet(name: str, delay_s: float) -> PendingReason:
    """The reason that an alternative does not count yet."""
    return PendingReason(coded("pending.alternative_later", name, delay_s))


def ranked(reasons: Iterable[PendingReason]) -> tuple[PendingReason, ...]:
    """The reasons in the order in which they are told: those of no host first, candidates before others, the
    commonest first, ties by code. Never empty.
    """
    found = sorted(reasons, key=lambda each: (each.hosts > 0, not each.candidate, -each.hosts, order_of(each.text)))
    return tuple(found) or (NO_HOST.pending(),)
