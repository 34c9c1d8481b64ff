"""What a signal does to a job: one answer for the command that tells it and for the engine that does it."""

from __future__ import annotations

import signal

import pytest

from gsched.model.jobs.job_signal import SaveSignal, SignalEffect, effect_of, is_signal, read_save_signal


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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("TERM", SaveSignal("TERM", 60, False)),
        ("b:sigusr2@5", SaveSignal("USR2", 5, True)),
        ("15@5", SaveSignal("TERM", 5, False)),
        ("B:10", SaveSignal("USR1", 60, True)),
    ],
)
def test_the_signal_to_save_is_a_name_or_a_number_as_of_sbatch(text: str, found: SaveSignal) -> None:
    assert read_save_signal(text) == found


@pytest.mark.parametrize("text", ["", "9", "19@5", "SIG15", "33", "99", "0", "KILL", "SIGSTOP@1", "TERM@0", "B:"])
def test_what_is_no_signal_to_save(text: str) -> None:
    assert read_save_signal(text) is None
