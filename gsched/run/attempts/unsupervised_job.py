"""A job whose supervisor was killed: the agent enforces its limits from then on.

Its processes are found by their mark, which costs a look at every process of the host; so they are looked at less
often than by a supervisor. CPU time of processes that were gone before is lost and does not count. It never ends a job
that keeps its limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gsched.base.clock import Clock
from gsched.run.order import AttemptLimits
from gsched.run.processes import process_tree
from gsched.run.supervisor import run_limits

LOOK_S = 1.0
"""Seconds between two looks at the least, and how exactly time that is spent suspended is told apart."""


@dataclass(frozen=True, slots=True)
class EndWarning:
    """-wa, -wt: `send` warns the job, `seconds` before its run limit or `terminate_at` (UTC seconds) ends it."""

    seconds: int
    terminate_at: float | None
    send: Callable[[], None]


class UnsupervisedJob:
    """Follows one job by timers of the running event loop. Run time is wall-clock time but for what it is suspended.

    `find` finds its processes; `is_suspended` tells whether they are stopped now;
    `on_helpless` hears, again and again, that they do not end by SIGKILL.
    """

    def __init__(  # noqa: PLR0913 - all that a supervisor would know
        self,
        wanted: AttemptLimits,
        interval_s: float,
        started_at: float,
        *,
        find: process_tree.Finder,
        is_suspended: Callable[[], bool],
        clock: Clock,
        on_helpless: Callable[[], None] = lambda: None,
        warning: EndWarning | None = None,
        is_contained: bool = False,
    ) -> None:
        """`warning`: None when there is none to give, any more. `is_contained`: it runs in containers."""
        self._warning = warning
        self._clock = clock
        self._on_helpless = on_helpless
        self._is_suspended = is_suspended
        self._began = started_at
        self._stopped_at: float | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._find = find
        self._wanted = wanted
        self._guard = run_limits.RunLimitGuard(
            wanted.run_limit_s, wanted.limits, interval_s, find, find, is_contained=is_contained
        )
        self._act()

    @property
    def term_reason(self) -> str:
        """The limit that the job has reached, as LSF's keyword; empty when none."""
        return self._guard.term_reason

    def renew(self, wanted: AttemptLimits) -> None:
        """Other limits."""
        run_limits.limit_cpu(self._find(), wanted.limits, self._wanted.limits)
        self._wanted = wanted
        self._guard = self._guard.renewed(wanted.run_limit_s, wanted.limits)
        self._act()

    def poke(self) -> None:
        """The job was suspended or resumed."""
        self._act()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _act(self) -> None:
        self.close()
        now = self._clock.now()
        if self._stopped_at is not None:
            self._began += now - self._stopped_at
        self._stopped_at = now if self._is_suspended() else None
        if self._stopped_at is not None:
            return  # its time stands still, and whoever resumes it pokes
        ran_s = max(now - self._began, 0.0)
        if self._warning is not None and self._warning_due(now, ran_s) <= ran_s:
            self._warning.send()
            self._warning = None
        if self._guard.due <= ran_s:
            self._guard.act(ran_s, 0.0)
            if self._guard.is_helpless(ran_s):
                self._on_helpless()
        due = min(self._guard.due, self._warning_due(now, ran_s))
        if due < float("inf"):
            pause_s = due - ran_s
            self._timer = self._loop.call_later(pause_s if self._guard.term_reason else max(pause_s, LOOK_S), self._act)

    def _warning_due(self, now: float, ran_s: float) -> float:
        """At which run time the job is to be warned; infinity for never."""
        if self._warning is None:
            return float("inf")
        ends = [float(self._wanted.run_limit_s)] if self._wanted.run_limit_s is not None else []
        if self._warning.terminate_at is not None:
            ends.append(self._warning.terminate_at - now + ran_s)
        return max(min(ends) - self._warning.seconds, 0.0) if ends else float("inf")
