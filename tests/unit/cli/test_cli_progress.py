"""gsub -K and gwait show progress on a terminal, over one line that is gone in the end, and nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from gsched.cli.session.call import Call
from gsched.cli.submit import progress_shown as progress
from gsched.cli.submit.progress_shown import progress_shown
from gsched.model.views.view import ArrayView
from gsched.wire.calls.client import Client


class Terminal(Call):
    """A caller whose standard error is a terminal, or not."""

    def __init__(self, *, is_tty: bool = True, term: str = "xterm", columns: int = 80) -> None:
        terminals = (False, False, is_tty)
        super().__init__(["gsub"], cwd="/", env={"TERM": term}, uid=0, gid=0, terminals=terminals, columns=columns)
        self.shown = b""
        self.has_shown = threading.Event()

    def _put(self, stream: int, data: bytes) -> None:
        assert stream == 2
        self.shown += data
        if data.replace(b"\r\x1b[K", b""):
            self.has_shown.set()


class Counts:
    """The master's answers, the last one again and again."""

    def __init__(self, *answers: dict[str, int]) -> None:
        self.answers = list(answers)
        self.is_asked = threading.Event()

    def arrays(self, job_ids: Any) -> list[ArrayView]:
        counts = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if len(self.answers) == 1:
            self.is_asked.set()
        return [ArrayView(job_id=5, name="", user="", counts=counts)] if counts else []


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.001)
    monkeypatch.setattr(progress, "MOST_S", 0.001)


def show(call: Terminal, counts: Counts, until: Callable[[], object]) -> str:
    with progress_shown(call, cast("Client", counts), (5,)):
        until()
    return call.shown.decode()


def test_it_is_written_over_and_gone_in_the_end() -> None:
    call, counts = Terminal(), Counts({"RUN": 1, "PEND": 3}, {"DONE": 1, "RUN": 1, "PEND": 2})
    shown = show(call, counts, lambda: counts.is_asked.wait(60) and call.has_shown.wait(60))
    lines = shown.split("\r\x1b[K")
    assert lines[0] == "" and lines[-1] == "" and "\n" not in shown
    assert lines[1] == "[                    ] 0/4, 1 running"


def test_it_is_as_wide_as_the_terminal() -> None:
    call = Terminal(columns=20)
    lines = show(call, Counts({"RUN": 4}), lambda: call.has_shown.wait(60)).split("\r\x1b[K")
    assert call.has_shown.is_set() and max(map(len, lines)) == 19


@pytest.mark.parametrize("call", [Terminal(is_tty=False), Terminal(term="dumb"), Terminal(term="")])
def test_elsewhere_there_is_nothing(call: Terminal) -> None:
    assert show(call, Counts({"RUN": 1}), lambda: None) == "" and threading.active_count() >= 1


def test_of_a_single_job_there_is_nothing() -> None:
    call, counts = Terminal(), Counts({})
    assert show(call, counts, lambda: None) == ""
