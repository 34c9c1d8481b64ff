"""What a signal does to a job: one answer for the command that tells it and for the engine that does it."""

from __future__ import annotations

import signal

import pytest

from gsched.model.jobs.job_signal import SignalEffect, effect_of, is_signal


@pytest.mark.parametrize(
    ("number", "effect"),
    [
        (signal.SIGSTOP, SignalEffect.STOP),
        (signal.SIGTSTP, SignalEffect.STOP),
        (signal.SIGCONT, SignalEffect.RESUME),
        (signal.SIGINT, SignalEffect.END),
        (signal.SIGTERM, SignalEffect.END),
        (signal.SIGKILL, SignalEffect.END),
        (signal.SIGUSR1, SignalEffect.PASS_ON),
        (signal.SIGHUP, SignalEffect.PASS_ON),
        (signal.SIGRTMAX, SignalEffect.PASS_ON),
    ],
)
def test_each_signal_has_one_effect(number: int, effect: SignalEffect) -> None:
    assert is_signal(int(number)) and effect_of(int(number)) is effect


@pytest.mark.parametrize("number", [-9, 0, signal.SIGRTMAX + 1])
def test_other_numbers_are_no_signals(number: int) -> None:
    assert not is_signal(number)
