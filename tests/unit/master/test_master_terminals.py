"""A job of which nobody sees the output is ended; one whose command comes back in time is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from gsched.base.errors import ResourceExhausted
from gsched.master.rpc import interactive_terminals
from gsched.master.rpc.interactive_terminals import TerminalAttendance
from gsched.master.views.board import Board
from gsched.model.event import JobSubmitted
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import JobView

SPEC = JobSpec(command="bash", user="ann", queue="normal", interactive="Is")


class House:
    """One interactive job, 7, and those who were ended."""

    def __init__(self) -> None:
        self.state = "RUN"
        self.killed: list[int] = []
        self.problem: Exception | None = None
        self.attendance = TerminalAttendance(cast("Board", self), self.kill)

    def job(self, job_id: int) -> JobView | None:
        return JobView(job_id=7, spec=SPEC, state=self.state, submitted_at=0.0) if job_id == 7 else None

    async def kill(self, job: JobView) -> None:
        self.killed.append(job.job_id)
        if self.problem is not None:
            raise self.problem


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[House], Awaitable[None]]], House]:
    monkeypatch.setattr(interactive_terminals, "AWAY_S", 0.02)
    monkeypatch.setattr(interactive_terminals, "RESTART_AWAY_S", 0.02)

    def run(story: Callable[[House], Awaitable[None]]) -> House:
        async def main() -> House:
            house = House()
            await asyncio.wait_for(story(house), 60)
            return house

        return asyncio.run(main())

    return run


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def beyond() -> None:
    """Longer than a command may be away."""
    await asyncio.sleep(0.06)


def test_a_command_that_never_comes_or_does_not_come_back(live) -> None:
    async def submitted(house: House) -> None:
        house.attendance.publish([JobSubmitted(at=0.0, job_id=7, spec=SPEC)])
        await until(lambda: house.killed)

    async def restarted(house: House) -> None:
        house.attendance.begin([7])
        await until(lambda: house.killed)

    for story in (submitted, restarted):
        assert set(live(story).killed) == {7}


def test_while_somebody_is_there_nothing_happens(live) -> None:
    async def story(house: House) -> None:
        house.attendance.publish([JobSubmitted(at=0.0, job_id=7, spec=SPEC)])
        house.attendance.arrive(7)
        house.attendance.arrive(7)
        house.attendance.leave(7)
        await beyond()
        assert not house.killed
        house.attendance.leave(7)
        await until(lambda: house.killed)

    live(story)


def test_one_that_comes_back_in_time(live) -> None:
    async def story(house: House) -> None:
        house.attendance.arrive(7)
        house.attendance.leave(7)
        house.attendance.arrive(7)
        await beyond()

    assert live(story).killed == []


def test_what_has_ended_is_left_alone_and_what_could_not_be_ended_is_tried_again(live) -> None:
    async def ended(house: House) -> None:
        house.state = "DONE"
        house.attendance.begin([7, 8])
        await beyond()

    async def refused(house: House) -> None:
        house.problem = ResourceExhausted("the disk is full")
        house.attendance.begin([7])
        await until(lambda: len(house.killed) > 1)

    assert live(ended).killed == []
    live(refused)
