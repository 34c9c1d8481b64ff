"""Orders to agents leave in their order, and others have their turn in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import pytest

from gsched.core.instruction import ConfigureAgent, Instruction
from gsched.master.agents.order_delivery import AT_A_TIME, OrderDelivery


def numbered(first: int, count: int) -> list[Instruction]:
    return [ConfigureAgent(f"h{number}") for number in range(first, first + count)]


class Loop:
    """What is called later, and what was sent in which turn."""

    def __init__(self) -> None:
        self.later: deque[Callable[[], None]] = deque()
        self.turns: list[list[Instruction]] = []
        self.failed: list[tuple[Instruction, str, Sequence[object]]] = []
        self.orders = OrderDelivery(self._give, lambda *failed: self.failed.append(failed), self.later.append)

    def _give(self, instructions: Sequence[Instruction]) -> list[tuple[Instruction, str]]:
        self.turns.append(list(instructions))
        if any(each.host == "broken" for each in instructions):
            raise RuntimeError("a fault")
        return [(each, "too large") for each in instructions if each.host == "h3"]

    def run(self) -> None:
        while self.later:
            self.later.popleft()()


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
