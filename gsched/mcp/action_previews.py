"""What an assistant wants done and has been shown to it, but is not done yet: each needs to be confirmed, once.

Time is an argument, in seconds of a clock that never goes back. Nothing here decides who may confirm.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from gsched.base.errors import BadRequest

PATIENCE_S = 600.0
"""How long an action may be confirmed."""
MOST_KEPT = 50
"""Actions that are remembered, the oldest go first."""


@dataclass(slots=True)
class _Action:
    told: str
    do: Callable[[], str]
    until: float
    outcome: str = ""


class ActionPreviews:
    """Actions by the secret word that confirms each."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._actions: dict[str, _Action] = {}

    def add(self, told: str, do: Callable[[], str]) -> str:
        """Remember what is to be done, and what is said of it; the word that confirms it."""
        while len(self._actions) >= MOST_KEPT:
            del self._actions[next(iter(self._actions))]
        word = secrets.token_hex(8)
        self._actions[word] = _Action(told, do, self._clock() + PATIENCE_S)
        return word

    def told(self, word: str) -> str:
        """What is said of an action that waits to be confirmed; empty where there is none."""
        action = self._actions.get(word)
        return action.told if action is not None and not action.outcome and self._clock() <= action.until else ""

    def confirm(self, word: str) -> str:
        """Do it; what came of it, also when it is asked for again. Raises BadRequest, and what the action raises."""
        action = self._actions.get(word)
        if action is None:
            raise BadRequest(f"{word[:40]!r} confirms nothing: ask for the action again")
        if not action.outcome:
            if self._clock() > action.until:
                raise BadRequest("this was not confirmed within ten minutes: ask for the action again")
            action.outcome = action.do()
        return action.outcome

    def drop(self, word: str) -> None:
        """Forget an action that the person does not want."""
        self._actions.pop(word, None)
