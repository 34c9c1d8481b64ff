"""A decision in the making: when it is made and on what, and what comes of it.

Events are applied to the state at once; instructions and a reply are for after the commit. Whatever decides takes this
one context; nothing else tells it the time, the state or the configuration. It is of one moment: it never outlives the
command, the turn or the cycle that it was made for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gsched.core.instruction import Instruction
from gsched.core.resources.observed_hosts import Observation
from gsched.core.state.cluster_state import ClusterState
from gsched.core.state.transitions import IllegalEvent
from gsched.model.config import ClusterConfig
from gsched.model.event import AnyEvent
from gsched.model.ledgers.host_ledger import AttemptKey


class Decision:
    """Collects events while a command is decided. `record` applies at once, so that later decisions see the effect."""

    __slots__ = (
        *(
            "config",
            "dropped",
            "events",
            "instructions",
            "is_torn",
            "now",
            "observed",
            "over",
            "parts",
            "reply",
            "rest",
            "state",
            "steps",
        ),
    )

    def __init__(
        self, state: ClusterState, config: ClusterConfig, now: float, observed: Callable[[str], Observation]
    ) -> None:
        """`now` is UTC seconds; `observed`: what a host's agent has said."""
        self.state = state
        self.config = config
        self.now = now
        self.observed = observed
        self.over: set[tuple[str, AttemptKey]] = set()
        """(host, attempt): nothing of the attempt is left there, as its agent has just said."""
        self.events: list[AnyEvent] = []
        self.instructions: list[Instruction] = []
        self.dropped: list[str] = []
        """Blobs that nothing refers to any more, by their ids."""
        self.reply: Any = None
        self.rest: Any = None
        """An Unfinished (gsched.core.command_turns) when this is not all that the command brings about; else None."""
        self.parts: list[tuple[int, Any]] = []
        """Of a command that is carried out in turns: (place, answer) for each job that this turn was done with."""
        self.steps = 0
        """How much was looked at, beside what the events have cost."""
        self.is_torn = False
        """An event was applied in part: the state is not what its events say."""

    def record(self, event: AnyEvent) -> None:
        """Apply the event and remember it for the commit. Raises machine.IllegalEvent, and then nothing happened."""
        try:
            self.state.apply(event)
        except IllegalEvent:
            raise
        except BaseException:
            self.is_torn = True
            raise
        self.events.append(event)

    def instruct(self, instruction: Instruction) -> None:
        """To be sent once the events are durable."""
        self.instructions.append(instruction)
