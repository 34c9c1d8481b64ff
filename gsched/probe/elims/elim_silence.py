"""Which elims say nothing, and for how long. Pure: time is an argument.

An elim is silent when it runs and has completed no report for two intervals of what it reports; one that has never
reported, for two intervals of the most frequent resource of its host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gsched.base.coded_text import CodedText, coded, listed
from gsched.probe.elims.elim_format import Report, quote
from gsched.probe.elims.elim_table import ElimResource


class _Heard(NamedTuple):
    since: float
    """When it was started, or has reported last."""
    names: frozenset[str] | None
    """What it has reported of the wanted resources; None: nothing at all yet."""


class Silence:
    """The running elims of a host and when they were heard last. `wanted`: the resources of the host."""

    def __init__(self, wanted: Mapping[str, ElimResource]) -> None:
        self._wanted = dict(wanted)
        self._heard: dict[str, _Heard] = {}

    def started(self, elim: str, now: float) -> None:
        """Note that the elim runs and has not reported since."""
        self._heard[elim] = _Heard(now, None)

    def reported(self, elim: str, reports: Iterable[Report], now: float) -> None:
        """Enter what the elim called `elim` reported at `now` (seconds of a monotonic clock)."""
        before = self._heard.get(elim)
        names = {name for report in reports for name, _ in report if name in self._wanted}
        self._heard[elim] = _Heard(now, frozenset(names) | ((before and before.names) or frozenset()))

    def ended(self, elim: str) -> None:
        """Note that the elim does not run: then it is not silent."""
        self._heard.pop(elim, None)

    def notes(self, now: float, incomplete: Mapping[str, str]) -> tuple[CodedText, ...]:
        """A line for each silent elim; `incomplete`: by elim what it has begun to say."""
        return tuple(
            self._note(elim, incomplete.get(elim, "")) for elim in self._heard if now >= self._silent_from(elim)
        )

    def next_change(self, now: float) -> float | None:
        """When the next elim becomes silent, None if none will."""
        return min((at for elim in self._heard if (at := self._silent_from(elim)) > now), default=None)

    def _note(self, elim: str, begun: str) -> CodedText:
        names = self._heard[elim].names
        what = coded("elim.so_unknown", listed(sorted(names), "list.and")) if names else ""
        rest = coded("elim.incomplete", quote(begun)) if begun else ""
        code = "elim.silent_since_start" if names is None else "elim.silent"
        return coded(code, elim, self._patience_s(elim), what, rest)

    def _silent_from(self, elim: str) -> float:
        return self._heard[elim].since + self._patience_s(elim)

    def _patience_s(self, elim: str) -> float:
        names = self._heard[elim].names or self._wanted.keys()
        return min((self._wanted[name].lifetime_s for name in names), default=ElimResource().lifetime_s)
