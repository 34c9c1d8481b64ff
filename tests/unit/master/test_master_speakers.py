"""Who speaks for a host when two say that they are it."""

from __future__ import annotations

import pytest

from gsched.master.agents.connected_agents import MOST_REFUSALS, SAY_AGAIN_S, ConnectedAgent, Refusals
from gsched.wire.address import address_of

FIRST = ConnectedAgent("journal1", "boot1", "10.0.0.1", 1_700_000_000.0)


@pytest.mark.parametrize(
    ("newcomer", "is_same"),
    [
        (("journal1", "boot1", "10.0.0.1"), True),  # its agent was restarted
        (("journal1", "boot2", "10.0.0.1"), True),  # it was booted again
        (("journal1", "boot1", "10.0.0.9"), True),  # it was given another address
        (("journal1", "boot2", "10.0.0.9"), False),  # a copy of its disks, in another machine
        (("journal2", "boot1", "10.0.0.1"), False),  # a second agent on the machine
        (("journal2", "boot2", "10.0.0.2"), False),
        (("", "boot2", "10.0.0.2"), True),  # does not tell
    ],
)
def test_only_the_same_agent_takes_its_place(newcomer: tuple[str, str, str], is_same: bool) -> None:
    assert FIRST.is_same(ConnectedAgent(*newcomer, 1_700_000_100.0)) is is_same


def test_what_a_second_agent_is_told_names_the_first() -> None:
    text = str(FIRST.refuses("h1"))
    assert "host h1 already has an agent" in text and "10.0.0.1" in text and "same host name" in text


@pytest.mark.parametrize(
    ("peer", "address"),
    [("ipv4:10.0.0.7:45678", "10.0.0.7"), ("ipv6:[fe80::1]:45678", "fe80::1"), ("unix:", ""), ("unix:/run/x", "")],
)
def test_an_address_has_no_port(peer: str, address: str) -> None:
    assert address_of(peer) == address


def test_the_log_is_not_filled_by_an_agent_that_asks_again() -> None:
    refusals = Refusals()
    assert refusals.is_news("ipv4:10.0.0.7:1", "no", 0.0)
    assert not refusals.is_news("ipv4:10.0.0.7:2", "no", 2.0)
    assert refusals.is_news("ipv4:10.0.0.8:1", "no", 2.0)
    assert refusals.is_news("ipv4:10.0.0.7:3", "never", 3.0)
    assert refusals.is_news("ipv4:10.0.0.7:4", "no", SAY_AGAIN_S)
    for number in range(5 * MOST_REFUSALS):
        refusals.is_news("ipv4:10.0.0.7:5", f"no {number}", SAY_AGAIN_S)
    assert len(refusals._said) <= MOST_REFUSALS
