"""A store with jobs that ended on some days, and checkpoints behind them: what goes from it is told by its tables."""

from __future__ import annotations

from typing import Any

from store_samples import job_row, noted, submitted
from stores import StoreAtHand

from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import AnyEvent, HostClosed, JobForgotten
from gsched.store.retention.removable_jobs import FIRST
from tests.support.manual_clock import ManualClock

BEGIN = 1_700_000_000.0
DAY_S = 86_400.0
STATE = ClusterState().dump()


def at_day(day: float) -> float:
    return BEGIN + day * DAY_S


def life(number: int, day: float, *, forgotten: bool = True) -> tuple[list[AnyEvent], Any]:
    """Three events of a job that ended on that day, and its row."""
    at = at_day(day)
    events: list[AnyEvent] = [submitted(number, at), noted(number, at=at)]
    events += [JobForgotten(at=at + 60.0, job_id=number)] if forgotten else []
    return events, job_row(number, state="DONE", submitted_at=at, finished_at=at)


class Filled:
    """A store with a job each day, and a checkpoint behind it."""

    def __init__(self, store: StoreAtHand) -> None:
        self.store = store
        self.clock = ManualClock(BEGIN)
        self.log = store.open(clock=self.clock)

    def live(self, number: int, day: float, **options: Any) -> None:
        events, row = life(number, day, **options)
        self.log.append([*events, HostClosed(at=at_day(day), host="a", by="root")], [row], next_job_id=number + 1)

    def checkpoint(self, day: float) -> None:
        self.clock.advance(at_day(day) - self.clock.now())
        self.log.save_checkpoint(self.log.last_seq, STATE)

    def move_on(self, *days: float) -> None:
        """Something happens on these days, and there is a checkpoint behind it."""
        for day in days:
            self.log.append([HostClosed(at=at_day(day), host="a", by="root")])
            self.checkpoint(day)

    def numbers(self, table: str) -> list[int]:
        return [row[0] for row in self.store.rows(f"SELECT DISTINCT job_id FROM {table} WHERE job_id > 0 ORDER BY 1")]

    def remove(self, day: float, most: int = 2, **options: Any) -> int:
        """All that ended before that day, in slices."""
        count, after = 0, FIRST
        while True:
            removed = self.log.removal.remove_finished_jobs(0.0, at_day(day), most, after=after, **options)
            count += removed.jobs
            if removed.last is None:
                return count
            after = removed.last


def filled_with_a_week(store: StoreAtHand) -> Filled:
    """Jobs 1 to 7, one each day; with APART of gsched.store.checkpoint_retention at 1 all checkpoints stay."""
    made = Filled(store)
    for number in range(1, 8):
        made.live(number, number)
        made.checkpoint(number + 0.5)
    return made
