"""Signals that people send to jobs: which of them stop a job, continue it, end it, or are only passed on.

Said here alone, for the commands that tell what is being done and for the engine that does it. Never sends one.
"""

from __future__ import annotations

import re
import signal
from enum import Enum
from typing import NamedTuple

import msgspec


class SignalEffect(Enum):
    """What becomes of a job that gets the signal."""

    STOP = "stop"
    """Its state becomes USUSP or PSUSP, so it is more than passed on."""
    RESUME = "resume"
    """The same back."""
    END = "end"
    """It is passed on to a job that has started, and ends one that waits."""
    PASS_ON = "pass on"
    """Nothing that the scheduler knows of, and nothing to a job that waits."""


_EFFECTS = {
    signal.SIGSTOP: SignalEffect.STOP,
    signal.SIGTSTP: SignalEffect.STOP,
    signal.SIGCONT: SignalEffect.RESUME,
    signal.SIGINT: SignalEffect.END,
    signal.SIGTERM: SignalEffect.END,
    signal.SIGKILL: SignalEffect.END,
}


PASSED_ON = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2))
"""What `glaunch` passes on to its tasks when it gets it."""
MAIN, STEPS = "main", "steps"
"""Whom of a job a signal is for: its main process alone; each srun, which passes it on."""


def is_signal(number: int) -> bool:
    """Whether there is such a signal."""
    return 1 <= number <= signal.SIGRTMAX


NEVER_TO_SAVE = ("KILL", "STOP")
"""No process takes notice of them."""
MOST_SAVE_S = 65535
SAVE_S = 60
"""How long before, where nothing is said. Source: sbatch(1), --signal."""
_SAVE = re.compile(r"(B:)?(?:(?:SIG)?([A-Z]+[0-9+-]*)|([0-9]{1,2}))(?:@([0-9]{1,5}))?", re.ASCII)


class SaveSignal(NamedTuple):
    """The signal by which a job saves its state, and how many seconds before its end it comes."""

    name: str
    seconds: int
    main_only: bool


def read_save_signal(text: str) -> SaveSignal | None:
    """`[B:]SIGNAL[@SECONDS]`, of a name or, as of sbatch, a number: with B: it goes to the job's first process alone.
    None: it is not of that form.
    """
    found = _SAVE.fullmatch(text.strip().upper())
    if found is None:
        return None
    try:
        number = signal.Signals[f"SIG{found[2]}"] if found[2] else signal.Signals(int(found[3]))
    except (KeyError, ValueError):
        return None
    name = found[2] or number.name.removeprefix("SIG")
    seconds = SAVE_S if found[4] is None else int(found[4])
    if number.name.removeprefix("SIG") in NEVER_TO_SAVE or not 1 <= seconds <= MOST_SAVE_S:
        return None
    return SaveSignal(name, seconds, bool(found[1]))


def effect_of(number: int) -> SignalEffect:
    """What the signal does to a job."""
    return _EFFECTS.get(number, SignalEffect.PASS_ON)  # type: ignore[call-overload, no-any-return]


class OwedSignal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A signal that somebody has asked for, until all these hosts have told that they have sent it."""

    number: int
    signal: int
    hosts: tuple[str, ...]
    reason: str = ""
    target: str = ""
    step: int | None = None
