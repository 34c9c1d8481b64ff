"""What all elims of a host say, as one table. Pure: time is an argument.

The newest word about a resource wins, whoever said it. A value that has not been said again for two intervals of its
resource is unknown: it is never shown, and never replaced by 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gsched.base.coded_text import CodedText, coded
from gsched.model.hosts.resource import GPU_COUNTERS, LOAD_INDICES
from gsched.probe.elims.elim_format import UNKNOWN, ElimFormatError, Report, parse_number, quote

DEFAULT_INTERVAL_S = 60.0
"""Interval of a resource that gives none."""

MAX_NOTES = 50
"""Most notes about names and values; a program that invents names does not fill the memory."""

STALE_INTERVALS = 2


class ElimResource(NamedTuple):
    """What an elim may report: how often it is expected (0: DEFAULT_INTERVAL_S) and whether it is a String resource."""

    interval_s: float = DEFAULT_INTERVAL_S
    is_string: bool = False

    @property
    def lifetime_s(self) -> float:
        """How long one value is good for."""
        return STALE_INTERVALS * (self.interval_s if self.interval_s > 0 else DEFAULT_INTERVAL_S)


class _Value(NamedTuple):
    value: float | str | None
    good_until: float
    elim: str


BUILTIN: dict[str, ElimResource] = {
    index.name: ElimResource(float(index.interval_s or DEFAULT_INTERVAL_S)) for index in LOAD_INDICES
}
"""The load indices that an elim may override; none is ever less than 0. Source: elim(8), overriding built-in load
indices.
"""


class ElimTable:
    """Newest values by resource, and notes about what could not be used."""

    def __init__(self, wanted: Mapping[str, ElimResource]) -> None:
        self._wanted = dict(wanted)
        self._values: dict[str, _Value] = {}
        self._notes: dict[tuple[str, str], CodedText] = {}

    def take(self, elim: str, reports: Iterable[Report], now: float) -> None:
        """Enter what the elim called `elim` reported at `now` (seconds of a monotonic clock)."""
        for report in reports:
            for name, word in report:
                resource = self._wanted.get(name) or BUILTIN.get(name)
                if resource is not None:
                    self._enter(elim, name, word, resource, now)
                elif name not in GPU_COUNTERS:  # elim.gpu always reports four of them, mapped or not
                    self._note(elim, name, coded("elim.no_resource", elim, quote(name)))

    def forget(self, elim: str) -> None:
        """Drop what `elim` said last: it is known to be wrong, or not cared for any more."""
        self._values = {name: value for name, value in self._values.items() if value.elim != elim}

    def forget_notes(self, elim: str) -> None:
        """Drop the notes about `elim`."""
        self._notes = {key: text for key, text in self._notes.items() if key[0] != elim}

    def values(self, now: float) -> dict[str, float | str]:
        """Known values of the wanted resources."""
        return {
            name: entry.value
            for name, entry in self._values.items()
            if name in self._wanted and entry.value is not None and now < entry.good_until
        }

    def overrides(self, now: float) -> dict[str, float]:
        """Known values of built-in load indices that an elim reports in place of gsched."""
        return {
            name: entry.value
            for name, entry in self._values.items()
            if name not in self._wanted and isinstance(entry.value, float) and now < entry.good_until
        }

    def next_expiry(self, now: float) -> float | None:
        """When the next value becomes unknown, None if none will."""
        times = [entry.good_until for entry in self._values.values() if now < entry.good_until]
        return min(times, default=None)

    def notes(self) -> tuple[CodedText, ...]:
        """One line per name or value that could not be used."""
        return tuple(self._notes.values())

    def _enter(self, elim: str, name: str, word: str, resource: ElimResource, now: float) -> None:
        value: float | str | None
        try:
            value = None if word == UNKNOWN else _string(word) if resource.is_string else parse_number(word)
            if name not in self._wanted and isinstance(value, float) and value < 0:
                raise ElimFormatError(coded("elim.below_zero", quote(word)))
        except ElimFormatError as problem:
            self._note(elim, name, coded("elim.bad_value", elim, name, problem.said))
            return
        self._values[name] = _Value(value, now + resource.lifetime_s, elim)
        self._notes.pop((elim, name), None)

    def _note(self, elim: str, name: str, text: CodedText) -> None:
        if (elim, name) in self._notes or len(self._notes) < MAX_NOTES:
            self._notes[elim, name] = text


def _string(word: str) -> str:
    if not word.isprintable():
        raise ElimFormatError(coded("elim.not_printable", quote(word)))
    return word
