"""What an agent's log says of its contact with the master: each thing once."""

from __future__ import annotations

import logging

import grpc
import pytest

from gsched.agent.master_link import REFUSED_S, MasterLink
from gsched.base.machine.service import ServiceManager


@pytest.fixture
def contact(caplog: pytest.LogCaptureFixture) -> MasterLink:
    caplog.set_level(logging.INFO, "gsched.agent.master_link")
    return MasterLink("h1", ServiceManager())


def test_an_absent_master_is_told_of_once_until_it_is_back(
    contact: MasterLink, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        contact.begin()
        contact.failed(grpc.StatusCode.UNAVAILABLE, "connection\nrefused")
        contact.failed(grpc.StatusCode.UNAVAILABLE, "nobody says where it is")
    contact.begin()
    contact.heard()
    contact.heard()
    contact.failed(grpc.StatusCode.UNAVAILABLE, "it has gone")  # the end of a session
    contact.begin()
    contact.failed(grpc.StatusCode.UNAVAILABLE, "it is away")
    assert [record.getMessage() for record in caplog.records] == [
        "no session with the master: connection refused",
        "the master has heard the hello of h1",
        "no session with the master: it is away",
    ]


def test_a_refusal_is_told_once_and_another_one_too(contact: MasterLink, caplog: pytest.LogCaptureFixture) -> None:
    for text in ("no", "no", "never", "never"):
        contact.begin()
        contact.failed(grpc.StatusCode.PERMISSION_DENIED, text)
        contact.failed(grpc.StatusCode.UNAVAILABLE, "closed")
    assert [record.levelname + " " + record.getMessage() for record in caplog.records] == [
        "ERROR the master refuses this agent: no",
        "ERROR the master refuses this agent: never",
    ]


def test_the_next_try_comes_soon_but_not_after_a_refusal(contact: MasterLink) -> None:
    pauses = [contact.pause_s() for _ in range(10)]
    assert pauses[0] < 0.2 and max(pauses) < 1.0
    contact.refused("no")
    assert contact.pause_s() == REFUSED_S
    contact.begin()
    contact.heard()
    assert contact.pause_s() < 0.2
