"""How long finished jobs of each kind ran, and what that says of the next ones: part of the state, kept by events.

It is an estimate for planning and ends no job. What is kept is bounded, in kinds and for each of them, and replaying
the same events gives the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from gsched.model.jobs.job import AttemptResult
from gsched.model.scheduling.run_kind import RunKind

NEWEST = 20
"""Run times that are kept of a kind."""
LEAST_KNOWN = 5
"""With fewer run times of a kind nothing is said about it."""
MOST_KINDS = 2000
"""Beyond them the kind of which no job has ended for the longest time is forgotten."""
SHORTEST_S = 1.0
"""Every run time counts as at least so long."""
_STEADY = 0.8
"""An estimate is lowered when the run times say less than this part of it: else plans would move with every end."""
_RUN_LIMIT = "TERM_RUNLIMIT"
"""LSF's keyword of a job that ran for as long as its limit allowed: at least so long do others, too."""


class KnownTimes(msgspec.Struct, array_like=True):
    """Run times of the finished jobs of one kind."""

    user: str
    queue: str
    application: str
    slots: int
    wants: str
    newest_s: list[float]
    """In the order in which the jobs ended."""
    usual_s: float | None = None
    """The estimate."""

    @property
    def kind(self) -> RunKind:
        return RunKind(self.user, self.queue, self.application, self.slots, self.wants)

    def note(self, run_s: float) -> None:
        """One more job has ended."""
        self.newest_s = [*self.newest_s[1 - NEWEST :], round(max(run_s, SHORTEST_S), 3)]
        if len(self.newest_s) < LEAST_KNOWN:
            return
        found = sorted(self.newest_s)[math.ceil(0.9 * len(self.newest_s)) - 1]
        if self.usual_s is None or not _STEADY * self.usual_s <= found <= self.usual_s:
            self.usual_s = found


class RunTimes:
    """Run times of finished jobs, by kind."""

    def __init__(self, known: Iterable[KnownTimes] = ()) -> None:
        self._known = {each.kind: each for each in known}
        """Those of which a job has ended most recently come last."""
        self.usual: dict[RunKind, float] = {
            kind: each.usual_s for kind, each in self._known.items() if each.usual_s is not None
        }
        """Kind -> the 90th percentile of its run times, in seconds; only where enough is known."""
        self.moved: set[RunKind] = set()
        """Kinds of which jobs are now expected to end at another time, or at all; whoever plans with it empties it."""

    def note(self, kind: RunKind, run_s: float) -> None:
        """A job of the kind has ended after so many seconds."""
        known = self._known.pop(kind, None) or KnownTimes(*kind, newest_s=[])
        known.note(run_s)
        self._known[kind] = known
        if known.usual_s is not None and known.usual_s != self.usual.get(kind):
            self.usual[kind] = known.usual_s
            self.moved.add(kind)
        if len(self._known) > MOST_KINDS:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self.usual.pop(oldest, None)

    def stored(self) -> list[KnownTimes]:
        """Everything, for a checkpoint; whoever asks reads it at once."""
        return list(self._known.values())


def ran_s(result: AttemptResult, started_at: float | None, *, was_asked: bool) -> float | None:
    """How long a job ran that has ended; None where that says nothing about others: somebody asked for its end, or
    nobody knows how it ended. Its run limit tells the least that it would have run for.
    """
    if started_at is None or not result.started or was_asked or result.host_down:
        return None
    if result.term_reason not in ("", _RUN_LIMIT) or (result.exit_code is None and result.signal is None):
        return None
    return result.run_s or max(0.0, result.ended_at - started_at)
