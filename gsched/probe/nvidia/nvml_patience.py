"""One GPU after the other, and no waiting for one whose driver calls hang: the others are looked at all the same.

A call into the driver cannot be called off, so a thread that hangs is left behind, and its GPU is not looked at again
before that thread has come back. When a second GPU hangs at the same look it is the driver that hangs: then this
hangs too, and whoever waits for the process must end it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class NvmlPatience(Generic[T]):
    """`look` reads one GPU by its index; each may take `limit_s` seconds."""

    def __init__(self, look: Callable[[int], T], limit_s: float) -> None:
        self._look = look
        self._limit_s = limit_s
        self._hanging: dict[int, threading.Thread] = {}

    def seen(self, indexes: Iterable[int]) -> dict[int, T]:
        """Index -> what was seen, without those that do not answer. Raises what `look` does."""
        self._hanging = {index: thread for index, thread in self._hanging.items() if thread.is_alive()}
        left = [index for index in indexes if index not in self._hanging]
        found: dict[int, T] = {}
        limit_s: float | None = self._limit_s
        while left:
            answers: queue.SimpleQueue[T | Exception] = queue.SimpleQueue()
            thread = threading.Thread(target=self._work, args=(list(left), answers), daemon=True)
            thread.start()
            try:
                while left:
                    answer = answers.get(timeout=limit_s)
                    if isinstance(answer, Exception):
                        raise answer
                    found[left.pop(0)] = answer
            except queue.Empty:
                self._hanging[left.pop(0)] = thread
                limit_s = None
        return found

    def _work(self, indexes: list[int], answers: queue.SimpleQueue[T | Exception]) -> None:
        for index in indexes:
            try:
                answers.put(self._look(index))
            except Exception as problem:
                answers.put(problem)
                return
            if self._hanging.get(index) is threading.current_thread():
                return  # the rest is another's by now
