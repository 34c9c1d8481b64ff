"""A command over many jobs that does not come to its end says what was done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake_master import FakeCall, FakeMaster

from gsched.base.errors import Unavailable
from gsched.cli.session.call import Cancelled
from gsched.model.views.view import Control
from gsched.wire.calls.client import Client
from gsched.wire.messages.control_action import ControlAction

NewCall = Callable[..., FakeCall]


def breaking(monkeypatch: pytest.MonkeyPatch, call: FakeCall, *, cancels: bool) -> None:
    """Commands are broken off after two jobs, one of which could not be killed."""

    def control(self: Client, what: ControlAction, *_: Any, done: list[Control], **__: Any) -> list[Control]:
        done += [Control(job_id=7), Control(job_id=8, error="Job has already finished")]
        if cancels:
            call.cancel()
            raise Cancelled
        raise Unavailable("the master broke off its answer")

    monkeypatch.setattr(Client, "control", control)


def test_ctrl_c_says_how_far_it_came(master: FakeMaster, call: NewCall, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = call("gkill", "0")
    breaking(monkeypatch, kill, cancels=True)
    assert kill.run() == 130
    assert kill.out == "Job <7> is being terminated\n"
    interrupted = "gkill: interrupted: 1 job has been done so far; the master goes on with the others\n"
    assert kill.err == f"Job <8>: Job has already finished\n{interrupted}"


def test_a_master_that_goes_away(master: FakeMaster, call: NewCall, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = call("gkill", "0")
    breaking(monkeypatch, kill, cancels=False)
    assert kill.run() == 255
    assert kill.out == "Job <7> is being terminated\n"
    lost = "the master broke off its answer; 1 job has been done so far, give the command again for the others"
    assert kill.err == f"Job <8>: Job has already finished\ngkill: {lost}\n"
