"""A step of a job as `srun` asks its host's agent for it, and as it is granted. Nothing here acts."""

from __future__ import annotations

import msgspec

from gsched.model.jobs.step_layout import StepShape, TaskPlace

MOST_PROGRAMS = 1000
"""Lines of one --multi-prog file."""


class StepProgram(msgspec.Struct, frozen=True):
    """A line of --multi-prog: which tasks run it."""

    ranks: tuple[tuple[int, int], ...]
    """First and last of each range; empty: all that no other line names."""
    words: tuple[str, ...]
    """%t and %o in them are filled in."""


class StepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The step that is wanted."""

    shape: StepShape
    programs: tuple[StepProgram, ...] = ()
    """Empty: the words of the launch."""
    reader: int = -1
    """The task that standard input goes to; -1: all."""
    is_at_once: bool = False
    """It is refused where it would have to wait."""
    address: str = ""
    """Of the host that it was asked for on."""
    pty: bool = False
    """Task 0 has a pseudo-terminal."""
    rows: int = 0
    columns: int = 0
    name: str = ""
    """Empty: that of the program."""


class StepGranted(msgspec.Struct, frozen=True):
    """What became of it."""

    number: int
    places: tuple[TaskPlace, ...]
