"""Orders on their way from the engine into the agents' streams: in their order, some at a time. Lives in the gRPC loop.

A cycle may start thousands of jobs, and an order takes 0.1 ms to make: nobody who asks something shall wait for all of
them. It must never let an order pass another one of the same agent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from gsched.core.instruction import Instruction
from gsched.model.event import AnyEvent

AT_A_TIME = 50

Give = Callable[[Sequence[Instruction]], list[tuple[Instruction, str]]]
"""Puts orders into their streams; returns those that cannot be sent, each with the reason."""
GiveUp = Callable[[Instruction, str, Sequence[AnyEvent]], None]
"""Is told of an order that cannot be sent, why, and the events that came with it."""


class OrderDelivery:
    """`call_soon` has the loop call a function when it has turned to others."""

    def __init__(self, give: Give, give_up: GiveUp, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._give = give
        self._give_up = give_up
        self._call_soon = call_soon
        self._waiting: deque[tuple[Sequence[Instruction], Sequence[AnyEvent]]] = deque()

    def take(self, instructions: Sequence[Instruction], events: Sequence[AnyEvent]) -> None:
        """Send these after all that were taken before; the first ones at once where nothing waits."""
        are_waiting = bool(self._waiting)
        for start in range(0, len(instructions), AT_A_TIME):
            self._waiting.append((instructions[start : start + AT_A_TIME], events))
        if self._waiting and not are_waiting:
            self._send_some()

    def _send_some(self) -> None:
        instructions, events = self._waiting[0]
        try:
            for instruction, why in self._give(instructions):
                self._give_up(instruction, why, events)
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._call_soon(self._send_some)
