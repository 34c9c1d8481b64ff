"""gwait asks again when something has happened that its last answer did not know of, and not too often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from gsched.cli.commands.submission import gwait
from gsched.cli.session.call import Call
from gsched.cli.session.session import Session
from gsched.model.views.view import ConditionView, EventRecord

EVENTS = 100


class Cluster:
    """A session and its client. Events come in commits of ten; the condition holds when all of them are there."""

    def __init__(self) -> None:
        self.client = self
        self.committed = 0
        self.asked = 0

    def condition(self, text: str) -> ConditionView:
        assert text == "ended(1)"
        self.asked += 1
        return ConditionView(holds=self.committed == EVENTS, is_final=False, text="", seq=self.committed, job_ids=(1,))

    def follow(self, after_seq: int, job_ids: Sequence[int], pause_s: float) -> Iterator[EventRecord]:
        assert (after_seq, job_ids) == (0, (1,))
        assert pause_s > 0
        yield EventRecord(seq=0, at=0.0, kind="", job_id=0, payload="")  # the follower is registered
        for seq in range(1, EVENTS + 1):
            self.committed = max(self.committed, (seq + 9) // 10 * 10)
            yield EventRecord(seq=seq, at=0.0, kind="job_started", job_id=1, payload="{}")
        raise AssertionError("it waits for events although the condition holds")


def test_it_asks_once_for_all_that_came_together() -> None:
    cluster = Cluster()
    call = Call(["gwait"], cwd="/", env={}, uid=0, gid=0, terminals=(False, False, False), columns=80)
    answer = gwait._wait(call, cast("Session", cluster), "ended(1)")
    assert (answer.holds, cluster.asked) == (True, 1 + EVENTS // 10)
