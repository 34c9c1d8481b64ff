"""Orders on their way from the engine into the agents' streams: in their order, some at a time. Lives in the gRPC loop.

A cycle may start thousands of jobs, and an order takes 0.1 ms to make: nobody who asks something shall wait for all of
them. An order whose content must be read first waits for that, and with it what comes later for the same agent; others
go on. It must never let an order pass another one of the same agent, and never drop one because the store is away.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from gsched.base.errors import GschedError
from gsched.core.instruction import Instruction
from gsched.master.agents.order_contents import OrderContents
from gsched.model.event import AnyEvent

AT_A_TIME = 50
AHEAD = 16
"""So many orders of one agent have their contents read at a time."""

Needed = Callable[[Instruction], Sequence[str]]
"""Names of the blobs that an order holds, as things are now."""
Give = Callable[[Sequence[Instruction], Mapping[str, bytes]], list[tuple[Instruction, str]]]
"""Puts orders with these contents into their streams; returns those that cannot be sent, each with the reason."""
GiveUp = Callable[[Instruction, str, Sequence[AnyEvent]], None]
"""Is told of an order that cannot be sent, why, and the events that came with it."""
HeldOrder = tuple[Instruction, Sequence[AnyEvent]]

log = logging.getLogger(__name__)


class OrderDelivery:
    """`call_soon` has the loop call a function when it has turned to others."""

    def __init__(
        self,
        give: Give,
        give_up: GiveUp,
        call_soon: Callable[[Callable[[], None]], object],
        needed: Needed,
        contents: OrderContents,
    ) -> None:
        self._give = give
        self._give_up = give_up
        self._call_soon = call_soon
        self._needed = needed
        self._contents = contents
        self._waiting: deque[tuple[Sequence[Instruction], Sequence[AnyEvent]]] = deque()
        self._held: dict[str, deque[HeldOrder]] = {}
        """Host -> its orders from the first on that waits for what is read."""
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, instructions: Sequence[Instruction], events: Sequence[AnyEvent]) -> None:
        """Send these after all that were taken before; the first ones at once where nothing waits."""
        are_waiting = bool(self._waiting)
        for start in range(0, len(instructions), AT_A_TIME):
            self._waiting.append((instructions[start : start + AT_A_TIME], events))
        if self._waiting and not are_waiting:
            self._send_some()

    def close(self) -> None:
        """Send nothing more: the next master's agents are told by their hello."""
        for task in self._tasks:
            task.cancel()
        self._contents.close()

    def _send_some(self) -> None:
        instructions, events = self._waiting[0]
        ready: list[Instruction] = []
        contents: dict[str, bytes] = {}
        try:
            for instruction in instructions:
                found = None
                if instruction.host not in self._held:
                    found = self._contents.at_hand(self._needed(instruction))
                if found is None:
                    self._hold(instruction, events)
                else:
                    ready.append(instruction)
                    contents |= found
            self._send(ready, contents, events)
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._call_soon(self._send_some)

    def _send(
        self, instructions: Sequence[Instruction], contents: Mapping[str, bytes], events: Sequence[AnyEvent]
    ) -> None:
        for instruction, why in self._give(instructions, contents):
            self._give_up(instruction, why, events)

    def _hold(self, instruction: Instruction, events: Sequence[AnyEvent]) -> None:
        queue = self._held.get(instruction.host)
        if queue is not None:
            queue.append((instruction, events))
            return
        self._held[instruction.host] = deque([(instruction, events)])
        task = asyncio.create_task(self._send_held(instruction.host))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_held(self, host: str) -> None:
        """Until nothing of this host waits any more."""
        queue = self._held[host]
        while queue:
            ahead = list(islice(queue, AHEAD))
            read = await asyncio.gather(*(self._read(instruction) for instruction, _ in ahead))
            for (instruction, events), found in zip(ahead, read, strict=True):
                try:
                    await self._send_one(instruction, events, found)
                except Exception:  # a fault with one must not hold up the others
                    log.exception("%s was not sent", instruction)
                queue.popleft()
        del self._held[host]

    async def _send_one(
        self, instruction: Instruction, events: Sequence[AnyEvent], found: Mapping[str, bytes] | str
    ) -> None:
        # Meanwhile the job may have become another one, or the agent have come back.
        while not isinstance(found, str) and not found.keys() >= set(self._needed(instruction)):
            found = await self._read(instruction)
        if isinstance(found, str):
            self._give_up(instruction, found, events)
        else:
            self._send([instruction], found, events)

    async def _read(self, instruction: Instruction) -> Mapping[str, bytes] | str:
        """The contents of the order, or why there are none."""
        try:
            return await self._contents.get(self._needed(instruction))
        except Exception as error:
            log.error("%s cannot be sent: %s", instruction, error, exc_info=not isinstance(error, GschedError))
            return str(error)
