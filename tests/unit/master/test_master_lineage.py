"""What agents are told of the store, and what it means when one knows of another store or a later one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.agent.store_memory import StoreMemory
from gsched.base.errors import Conflict
from gsched.core.state.cluster_state import ClusterState
from gsched.master.store_lineage import AHEAD, BLOCK, FirstNumber, StoreLineage, to_message
from gsched.model.event import ConfigApplied
from gsched.store.eventlog import EventLog
from gsched.store.mark import StoreMark, remembered
from gsched.store.safeguards.continuity import StoreLost
from gsched.wire.v1 import agent_pb2

OLD = to_message(StoreMark(cluster_id="an older one", seq=7, next_job_id=1001))


class Master:
    """A store with an event, a state, and what is told of both."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self.store = EventLog(folder / "gsched.db")
        self.store.append([ConfigApplied(at=1.0, digest="d", by="")])
        self.state = ClusterState()
        self.disowned: list[str] = []
        self.lineage = StoreLineage(self.store, self.state, self.disowned.append)

    def mark(self, **changes: int | str) -> agent_pb2.StoreMark:
        values = {"cluster_id": self.store.cluster_id, "generation": 1, "seq": 1, "next_job_id": 1001}
        return agent_pb2.StoreMark(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Master]:
    made = Master(tmp_path / "state")
    yield made
    made.store.close()


def test_agents_know_of_numbers_before_they_are_given_out(master: Master) -> None:
    assert not master.lineage.has_news()  # nobody has been told anything
    told = master.lineage.message()
    assert (told.cluster_id, told.generation, told.seq, told.next_job_id) == (master.store.cluster_id, 1, 1, BLOCK + 1)
    master.state.next_job_id = BLOCK + 1 - AHEAD
    assert not master.lineage.has_news()
    master.state.next_job_id += 1
    assert master.lineage.has_news()
    assert master.lineage.message().next_job_id == 2 * BLOCK + 1
    assert not master.lineage.has_news()


def test_an_agent_that_knows_this_store_raises_no_number(master: Master) -> None:
    assert master.lineage.numbers_from("h", master.mark()) == 1
    assert master.lineage.numbers_from("h", agent_pb2.StoreMark()) == 1  # one of before there were marks


def test_an_agent_that_knows_more_raises_them(master: Master) -> None:
    for known in (master.mark(seq=2), master.mark(generation=2), OLD):
        assert master.lineage.numbers_from("h", known) == 1001
    assert not master.lineage.is_foreign(master.mark())
    assert master.lineage.is_foreign(OLD) and master.lineage.is_foreign(master.mark(generation=2))


def test_a_new_store_is_given_up_for_an_agent_that_knows_an_older_one(master: Master) -> None:
    text = master.lineage.contradicts("h", OLD)
    assert master.disowned == [text]
    assert f"{master.store.place} was made anew, but the agent of h knows of an older one (7 events" in text
    assert "`gadmin newstore`" in text
    master.store.append([ConfigApplied(at=2.0, digest="e", by="")])
    master.store.close()
    with pytest.raises(StoreLost, match=r"is not the one that STORE\.mark knows \(7 events, job numbers below 1001\)"):
        EventLog(master.store.place)
    master.store = EventLog(master.store.place, renew=True)
    assert (master.store.cluster_id, master.store.generation) == ("an older one", 2)


def test_a_store_that_is_used_is_not_given_up_for_anybodys_word(master: Master) -> None:
    assert master.lineage.contradicts("h", master.mark()) == ""
    assert master.lineage.contradicts("h", agent_pb2.StoreMark()) == ""
    master.state.next_job_id = 2
    assert master.lineage.contradicts("h", OLD) == ""
    assert master.disowned == []


async def _is_free(first: FirstNumber) -> bool:
    """Whether a submission goes on at once."""
    waiting = asyncio.ensure_future(first.wait())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    is_free = waiting.done()
    waiting.cancel()
    return is_free


def test_the_first_number_of_a_new_store_waits_for_what_all_agents_know() -> None:
    async def story() -> None:
        first = FirstNumber(("a", "b"), patience_s=3600)
        assert not await _is_free(first)
        first.came("a")
        assert not await _is_free(first)
        waiting = asyncio.ensure_future(first.wait())
        first.came("b")
        await waiting
        assert await _is_free(first)

    asyncio.run(story())


def test_hosts_that_are_not_there_are_not_waited_for_without_end() -> None:
    async def story() -> None:
        first = FirstNumber(("a", "never installed"), patience_s=0.01)
        with pytest.raises(Conflict, match=r"^the store of this cluster is new, and no host has said hello yet: "):
            await first.wait()
        first.came("a")
        await first.wait()

    asyncio.run(story())


def test_a_store_in_use_waits_too_but_not_for_hosts_that_are_all_away(master: Master) -> None:
    """It may be an older copy, of which the agents know more."""
    assert asyncio.run(_is_free(master.lineage.first_number)), "no host but this machine's own"
    master.state.next_job_id = 2

    async def story() -> None:
        used = StoreLineage(master.store, master.state, master.disowned.append, ("a", "b")).first_number
        assert not await _is_free(used)
        first = FirstNumber(("a",), is_new=False, patience_s=0.01)
        await first.wait()
        assert await _is_free(first)
        used.came("a")
        assert not await _is_free(used)
        used.came("b")
        assert await _is_free(used)

    asyncio.run(story())


def test_an_agent_remembers_what_it_was_told(tmp_path: Path) -> None:
    memory = StoreMemory(tmp_path)
    assert memory.message() == agent_pb2.StoreMark(generation=1, next_job_id=1)
    memory.take(agent_pb2.StoreMark())  # a master of before there were marks
    assert remembered(tmp_path) is None
    memory.take(OLD)
    assert StoreMemory(tmp_path).message() == OLD
    memory.take(to_message(StoreMark(cluster_id="an older one", seq=8, next_job_id=1001)))
    # An older copy of the store, with the mark of its time, is known by this, though daemons are killed.
    known = remembered(tmp_path)
    assert known is not None and known.seq == 8
    assert StoreMemory(tmp_path).message().seq == 8
    (tmp_path / "store").write_text(
        '{"cluster_id":"an older one","seq":8,"next_job_id":1001}\n'
    )  # by an earlier version
    memory.take(to_message(StoreMark(cluster_id="an older one", seq=9, next_job_id=1001)))
    known = remembered(tmp_path)
    assert known is not None and known.seq == 9
    (tmp_path / "store").unlink()
    memory.take(to_message(StoreMark(cluster_id="an older one", seq=10, next_job_id=1001)))
    known = remembered(tmp_path)
    assert known is not None and known.seq == 10
