"""Tests of what all elims of a host say together."""

from __future__ import annotations

import pytest

from gsched.base.coded_text import sentence
from gsched.master.agents.message_checks import check
from gsched.model.hosts.host import LoadReport
from gsched.probe.elims.elim_table import MAX_NOTES, ElimResource, ElimTable
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import agent_pb2

WANTED = {"temp": ElimResource(60.0), "fast": ElimResource(10.0), "rack": ElimResource(60.0, is_string=True)}


@pytest.fixture
def table() -> ElimTable:
    return ElimTable(WANTED)


def test_values_are_numbers_or_strings(table: ElimTable) -> None:
    table.take("elim.a", [(("temp", "21.5"), ("rack", "A7"))], 0.0)
    assert table.values(1.0) == {"temp": 21.5, "rack": "A7"}


def test_newest_wins_whoever_said_it(table: ElimTable) -> None:
    table.take("elim.a", [(("temp", "1"),)], 0.0)
    table.take("elim.b", [(("temp", "2"),)], 1.0)
    assert table.values(2.0) == {"temp": 2.0}
    table.take("elim.a", [(("temp", "3"),), (("temp", "4"),)], 3.0)
    assert table.values(4.0) == {"temp": 4.0}


def test_silence_of_two_intervals_makes_a_value_unknown(table: ElimTable) -> None:
    table.take("elim.a", [(("temp", "1"), ("fast", "2"))], 100.0)
    assert table.values(119.9) == {"temp": 1.0, "fast": 2.0}
    assert table.next_expiry(110.0) == 120.0
    assert table.values(120.0) == {"temp": 1.0}
    assert table.values(220.0) == {}
    assert table.next_expiry(220.0) is None


def test_dash_is_unknown(table: ElimTable) -> None:
    table.take("elim.a", [(("temp", "1"), ("rack", "A7"))], 0.0)
    table.take("elim.a", [(("temp", "-"), ("rack", "-"))], 1.0)
    assert table.values(2.0) == {}


def test_word_for_a_number_is_ignored_with_a_note_until_it_is_right(table: ElimTable) -> None:
    table.take("elim.a", [(("temp", "1"),)], 0.0)
    table.take("elim.a", [(("temp", "hot"),)], 1.0)
    assert table.values(2.0) == {"temp": 1.0}
    assert tuple(map(sentence, table.notes())) == ("elim.a: temp: 'hot' is no number, ignored",)
    table.take("elim.a", [(("temp", "2"),)], 3.0)
    assert table.notes() == ()


def test_unknown_name_is_noted_once(table: ElimTable) -> None:
    table.take("elim.a", [(("foo", "1"), ("temp", "1"))] * 3, 0.0)
    assert tuple(map(sentence, table.notes())) == ("elim.a: 'foo' is not a resource of this host, ignored",)
    assert table.values(1.0) == {"temp": 1.0}


def test_counters_that_are_not_mapped_need_no_note(table: ElimTable) -> None:
    table.take("elim.gpu", [(("ngpus", "4"), ("ngpus_excl_t", "0"))], 0.0)
    assert table.notes() == ()


def test_notes_are_bounded(table: ElimTable) -> None:
    table.take("elim.a", [((f"name{number}", "1"),) for number in range(1000)], 0.0)
    assert len(table.notes()) == MAX_NOTES


def test_built_in_indices_can_be_overridden(table: ElimTable) -> None:
    table.take("elim.a", [(("mem", "100"), ("tmp", "-"), ("temp", "1"))], 0.0)
    assert table.overrides(29.0) == {"mem": 100.0}
    assert table.values(29.0) == {"temp": 1.0}
    assert table.overrides(30.0) == {}


def test_a_built_in_index_is_never_less_than_0(table: ElimTable) -> None:
    """`mem -1`, as some say that they do not know: the master dropped all that it heard of the host's load."""
    table.take("elim", [(("mem", "-1"), ("ls", "-0"), ("temp", "-4"))], 0.0)
    assert table.overrides(1.0) == {"ls": 0.0}
    assert table.values(1.0) == {"temp": -4.0}, "what an external resource may be is the site's to say"
    assert tuple(map(sentence, table.notes())) == ("elim: mem: '-1' is less than 0, ignored",)
    message = agent_pb2.AgentMessage()
    fill(message.load, LoadReport(indices={**table.overrides(1.0)}, external=table.values(1.0), ncpus=1))
    check("h", message)  # the master takes it


def test_forgetting_one_elim_leaves_the_others(table: ElimTable) -> None:
    table.take("elim.a", [(("temp", "1"), ("foo", "1"))], 0.0)
    table.take("elim.b", [(("fast", "2"), ("bar", "1"))], 0.0)
    table.forget("elim.a")
    table.forget_notes("elim.a")
    assert table.values(1.0) == {"fast": 2.0}
    assert tuple(map(sentence, table.notes())) == ("elim.b: 'bar' is not a resource of this host, ignored",)


def test_resource_without_interval_has_a_default_one() -> None:
    assert ElimResource(0.0).lifetime_s == 120.0
