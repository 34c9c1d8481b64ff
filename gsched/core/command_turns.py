"""Commands that look at many jobs are carried out in turns, between which the engine does what others want.

A turn is bounded by counted steps, never by a clock, so that the same commands have the same turns on every machine.
What a turn has brought about is committed with it; a command that is broken off by the end of the process has done its
first turns, and given again does the rest.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from gsched.core.command import Command
from gsched.core.decision import Decision

UNLIMITED = 1 << 62
LOOK = 1
"""Steps of looking at a job: a step takes some 2 µs."""
EVENT = 20
"""Steps of an event: it is applied, encoded, stored and shown."""
SUBMISSION = 7
"""Steps, at the most, of each job of a submission that is made in one turn: to spread it costs more commits."""
MOVE = 300
"""Steps of finding another place in a queue's order."""
MOVE_LINE = 3
"""The same for each kind of jobs that wait."""
JUDGEMENT = 100
"""Steps of judging what a job asks for."""
ALIKE = 8
"""The same of a job that is like one before but for texts of its own."""
DEPENDENCY = 1_000
"""The same where it names other jobs, and is refused."""
_CHARACTERS_OF_CONDITIONS = 8
_READING = 250
_A_CHARACTER = 4

Work = Generator[None, None, Any]
"""Yields when its turn is over; returns the reply."""


class Turn:
    """When it is, what comes of it, and how much may still be done. One object for all turns of a command."""

    def __init__(self) -> None:
        self.decision: Decision
        self.count = 0
        """The first one is 1."""
        self._left = 0

    def begin(self, decision: Decision, steps: int) -> None:
        """The next turn, of so many steps."""
        self.decision, self._left = decision, steps
        self.count += 1

    @property
    def now(self) -> float:
        """The time of its decision, UTC seconds."""
        return self.decision.now

    def spend(self, steps: int = LOOK) -> None:
        """So much has been done, beside the events."""
        self._left -= steps
        self.decision.steps += steps

    def has_room(self, steps: int) -> bool:
        """Whether so much more can be done in it."""
        return self._left - EVENT * len(self.decision.events) >= steps

    @property
    def left(self) -> int:
        """Steps that may still be done in it, perhaps none."""
        return max(0, self._left - EVENT * len(self.decision.events))

    @property
    def is_over(self) -> bool:
        """Whether the rest is for another turn."""
        return self._left < EVENT * len(self.decision.events)


def weight(conditions: str) -> int:
    """Steps of going through all that a job depends on."""
    return len(conditions) // _CHARACTERS_OF_CONDITIONS


def reading(requirement: str) -> int:
    """Steps of reading a requirement that was not asked for before, here and in the next cycle."""
    return _READING + _A_CHARACTER * len(requirement) if requirement else 0


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A command that goes on in another turn."""

    command: Command
    turn: Turn
    work: Work
