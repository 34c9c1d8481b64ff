"""The threads beside an interactive job's terminal end without a word when its command is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gsched.cli.session.call import Cancelled
from gsched.cli.submit.interactive import Keyboard, TerminalSession
from gsched.cli.submit.time_left import TimeLeft

HANG_S = 60.0


class BrokenOff:
    """A client whose calls are cancelled, as all are after Ctrl-C."""

    def __init__(self) -> None:
        self.terminal = self
        self.is_asked = threading.Event()

    def _answer(self, *_: object, **__: object) -> Iterator[object]:
        self.is_asked.set()
        raise Cancelled

    type = attach = jobs = _answer


@pytest.fixture
def uncaught(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What threads end with that somebody would see as a traceback."""
    seen: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args.exc_type.__name__))
    return seen


def ended(name: str) -> None:
    for each in threading.enumerate():
        if each.name == name:
            each.join(HANG_S)
            assert not each.is_alive()


def test_the_keyboard_of_a_call_that_was_cancelled_ends_without_a_word(uncaught: list[str]) -> None:
    client = BrokenOff()
    call, session = SimpleNamespace(stdin_is_tty=False), SimpleNamespace(client=client)
    with Keyboard(cast(Any, call), cast(Any, session), 1, 1, has_input=False, is_raw=False):
        assert client.is_asked.wait(HANG_S)
        ended("gsched-keyboard")
    assert uncaught == []


def test_the_presence_at_a_terminal_of_a_call_that_was_cancelled_ends_without_a_word(uncaught: list[str]) -> None:
    client, cancelled = BrokenOff(), threading.Event()
    cancelled.set()
    call = SimpleNamespace(stdin_is_tty=False, own_streams=True, cancelled=cancelled)
    sitting = TerminalSession(cast(Any, call), cast(Any, SimpleNamespace(client=client)), 1, "I", has_input=False)
    sitting.be_there()
    assert client.is_asked.is_set() and uncaught == []


def test_the_warning_of_a_call_that_was_cancelled_ends_without_a_word(uncaught: list[str]) -> None:
    client = BrokenOff()
    with TimeLeft(cast(Any, client), 1, print):
        assert client.is_asked.wait(HANG_S)
        ended("gsched-time-left")
    assert uncaught == []
