"""One user who sends rubbish without pause fills no log."""

from __future__ import annotations

import logging

import pytest

from gsched.door.complaints import Complaints


def test_a_flood_of_rubbish_is_a_line_a_second_of_each_user(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    complaints = Complaints(logging.getLogger("door"), clock=lambda: now)
    for _ in range(1000):
        complaints.say(7, "sent rubbish")
    complaints.say(8, "sent other rubbish")
    now += 1.0
    complaints.say(7, "sent rubbish")
    assert caplog.messages == [
        "uid 7 sent rubbish",
        "uid 8 sent other rubbish",
        "uid 7 sent rubbish (and 999 more like it)",
    ]


def test_who_was_complained_of_is_forgotten() -> None:
    now = 0.0
    complaints = Complaints(logging.getLogger("door"), clock=lambda: now)
    for uid in range(1000):
        now += 2.0
        complaints.say(uid, "sent rubbish")
    assert len(complaints._said) < 3
