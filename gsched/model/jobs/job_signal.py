"""Signals that people send to jobs: which of them stop a job, continue it, end it, or are only passed on.

Said here alone, for the commands that tell what is being done and for the engine that does it. Never sends one.
"""

from __future__ import annotations

import signal
from enum import Enum


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


def is_signal(number: int) -> bool:
    """Whether there is such a signal."""
    return 1 <= number <= signal.SIGRTMAX


def effect_of(number: int) -> SignalEffect:
    """What the signal does to a job."""
    return _EFFECTS.get(number, SignalEffect.PASS_ON)  # type: ignore[call-overload, no-any-return]
