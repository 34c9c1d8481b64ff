"""Orders to agents leave in their order, others have their turn in between, and a store that is away loses none."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import pytest

from gsched.base.errors import Internal, NotFound, Unavailable
from gsched.core.instruction import ConfigureAgent, Instruction, StartJob
from gsched.master.agents.order_contents import KEPT, KEPT_BYTES, READS, OrderContents
from gsched.master.agents.order_delivery import AT_A_TIME, OrderDelivery
from gsched.store.safeguards.failure import StoreFull


def numbered(first: int, count: int) -> list[Instruction]:
    return [ConfigureAgent(f"h{number}") for number in range(first, first + count)]


def start(host: str, number: int) -> StartJob:
    return StartJob(host, number, 1)


class Store:
    """Content of a blob is its name, unless something else is said of it. Blobs may be made to hang."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.failures: deque[Exception] = deque()
        self.reads: list[str] = []
        self.threads: set[int] = set()
        self.large: set[str] = set()

    def get_blob(self, name: str) -> bytes:
        self.threads.add(threading.get_ident())
        self.reads.append(name)
        assert self.answers.wait(60)
        if self.failures:
            raise self.failures.popleft()
        return name.encode() * (KEPT_BYTES if name in self.large else 1)


class Loop:
    """What is called later, and what was sent in which turn. The script of job 7 is blob `7`."""

    def __init__(self, store: Store | None = None) -> None:
        self.later: deque[Callable[[], None]] = deque()
        self.turns: list[list[Instruction]] = []
        self.sent: list[tuple[Instruction, bytes]] = []
        self.failed: list[tuple[Instruction, str, Sequence[object]]] = []
        self.pauses = 0
        self.names: dict[int, str] = {}
        self.contents = OrderContents((store or Store()).get_blob, self._pause)
        self.orders = OrderDelivery(
            self._give, lambda *failed: self.failed.append(failed), self.later.append, self._needed, self.contents
        )

    def _needed(self, instruction: Instruction) -> Sequence[str]:
        if not isinstance(instruction, StartJob):
            return ()
        return [self.names.get(instruction.job_id, str(instruction.job_id))]

    def _give(
        self, instructions: Sequence[Instruction], contents: Mapping[str, bytes]
    ) -> list[tuple[Instruction, str]]:
        self.turns.append(list(instructions))
        if any(each.host == "broken" for each in instructions):
            raise RuntimeError("a fault")
        for each in instructions:
            self.sent.append((each, b"".join(contents[name] for name in self._needed(each))))
        return [(each, "too large") for each in instructions if each.host == "h3"]

    async def _pause(self) -> None:
        self.pauses += 1

    def run(self) -> None:
        while self.later:
            self.later.popleft()()

    async def sends(self, count: int) -> list[Instruction]:
        """What was sent, when there is so much of it."""
        while len(self.sent) + len(self.failed) < count:
            await asyncio.sleep(0)
        return [each for each, _ in self.sent]


def in_loop(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(bounded())


def test_a_wave_leaves_in_pieces_and_nothing_passes_it() -> None:
    loop, wave = Loop(), numbered(0, 2 * AT_A_TIME + 1)
    loop.orders.take(wave, ["wave"])  # type: ignore[list-item]
    assert loop.turns == [wave[:AT_A_TIME]], "the first ones at once"
    loop.orders.take(numbered(900, 1), [])
    assert len(loop.turns) == 1 and len(loop.later) == 1
    loop.run()
    assert [len(turn) for turn in loop.turns] == [AT_A_TIME, AT_A_TIME, 1, 1]
    assert [each for turn in loop.turns for each in turn] == wave + numbered(900, 1)
    assert loop.failed == [(wave[3], "too large", ["wave"])]
    loop.orders.take(numbered(1, 1), [])
    assert len(loop.turns) == 5 and not loop.later


def test_a_fault_holds_up_nothing() -> None:
    loop = Loop()
    loop.orders.take([], [])
    assert not loop.turns and not loop.later
    with pytest.raises(RuntimeError):
        loop.orders.take([ConfigureAgent("broken"), *numbered(0, AT_A_TIME)], [])
    loop.run()
    assert len(loop.turns) == 2
    loop.orders.take(numbered(5, 1), [])
    assert len(loop.turns) == 3


def test_a_store_that_hangs_holds_up_only_the_agents_whose_orders_need_it() -> None:
    async def story() -> None:
        store = Store()
        store.answers.clear()
        loop = Loop(store)
        held = [start("slow", 1), ConfigureAgent("slow"), start("slow", 2)]
        loop.orders.take([held[0], ConfigureAgent("other"), held[1]], [])
        assert loop.sent == [(ConfigureAgent("other"), b"")]
        loop.orders.take([held[2], ConfigureAgent("third")], [])
        assert [each.host for each, _ in loop.sent] == ["other", "third"]
        store.answers.set()
        assert (await loop.sends(5))[2:] == held
        assert dict(loop.sent)[held[2]] == b"2"
        assert threading.get_ident() not in store.threads
        loop.orders.take([start("slow", 1)], [])
        assert loop.sent[-1] == (start("slow", 1), b"1"), "at once: it is in memory, and nothing waits any more"
        assert not loop.failed and sorted(store.reads) == ["1", "2"]
        loop.orders.close()

    in_loop(story())


@pytest.mark.parametrize("away", [Unavailable("no answer"), StoreFull("another program has it")])
def test_an_order_is_sent_once_when_the_store_answers_again(away: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        store = Store()
        store.failures.extend([away] * 3)
        loop = Loop(store)
        loop.orders.take([start("a", 1)], [])
        assert await loop.sends(1) == [start("a", 1)]
        assert loop.pauses == 3 and not loop.failed
        loop.orders.close()

    in_loop(story())
    assert [record.message for record in caplog.records] == [
        f"orders to agents wait for the store: {away}",
        "the store can be read again",
    ]


@pytest.mark.parametrize("lost", [NotFound("no blob 1"), Internal("blob 1 is damaged"), RuntimeError("a fault")])
def test_what_the_store_has_lost_is_given_up_with_the_reason(lost: Exception) -> None:
    async def story() -> None:
        store = Store()
        store.failures.append(lost)
        loop = Loop(store)
        loop.orders.take([start("a", 1), ConfigureAgent("a")], ["dispatched"])  # type: ignore[list-item]
        assert await loop.sends(2) == [ConfigureAgent("a")]
        assert loop.failed == [(start("a", 1), str(lost), ["dispatched"])] and not loop.pauses
        loop.orders.close()

    in_loop(story())


def test_a_fault_with_a_held_order_holds_up_no_other() -> None:
    async def story() -> None:
        loop, found = Loop(), [start("broken", 1), start("broken", 2), start("a", 3)]
        loop.orders.take(found, [])
        while len(loop.turns) < 1 + len(found):
            await asyncio.sleep(0)
        # The first turn is that in which they were taken: none of them could be sent yet.
        assert loop.turns[0] == [] and sorted(map(str, found)) == sorted(str(*turn) for turn in loop.turns[1:])
        assert loop.sent == [(start("a", 3), b"3")]
        loop.orders.close()

    in_loop(story())


def test_orders_that_share_a_script_read_it_once_and_few_are_read_at_a_time() -> None:
    async def story() -> None:
        store = Store()
        store.answers.clear()
        loop = Loop(store)
        loop.names = dict.fromkeys(range(100, 200), "shared")
        orders = [start(f"h{number}", number) for number in range(100, 200)] + [start("one", n) for n in range(9)]
        loop.orders.take(orders, [])
        loop.run()
        while len(store.reads) < READS:
            await asyncio.sleep(0)
        assert len(store.threads) == READS == len(store.reads)
        store.answers.set()
        found = await loop.sends(len(orders))
        assert sorted(map(str, found)) == sorted(map(str, orders))
        assert store.reads.count("shared") == 1 and len(store.threads) == READS
        loop.orders.close()

    in_loop(story())


def test_a_job_that_has_got_another_script_meanwhile_gets_that_one() -> None:
    async def story() -> None:
        store = Store()
        store.answers.clear()
        loop = Loop(store)
        loop.orders.take([start("a", 1)], [])
        while not store.reads:
            await asyncio.sleep(0)
        loop.names[1] = "later"
        store.answers.set()
        await loop.sends(1)
        assert loop.sent == [(start("a", 1), b"later")]
        loop.orders.close()

    in_loop(story())


def test_memory_holds_a_bounded_number_of_small_ones() -> None:
    async def story() -> None:
        store = Store()
        store.large = {"large"}
        contents = OrderContents(store.get_blob)
        for number in range(KEPT + 1):
            await contents.get([str(number)])
        await contents.get(["large"])
        assert contents.at_hand(["0"]) is None and contents.at_hand(["large"]) is None
        assert contents.at_hand(["1", str(KEPT)]) == {"1": b"1", str(KEPT): str(KEPT).encode()}
        contents.close()

    in_loop(story())


def test_a_master_that_ends_waits_for_no_reading() -> None:
    async def story() -> None:
        store = Store()
        store.answers.clear()
        loop = Loop(store)
        loop.orders.take([start("a", 1)], [])
        while not store.reads:
            await asyncio.sleep(0)
        loop.orders.close()
        await asyncio.sleep(0)
        store.answers.set()
        assert not loop.sent and not loop.failed

    in_loop(story())
