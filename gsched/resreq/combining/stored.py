"""The values of requirements that are held as text; each distinct text is read once in a process.

Events, checkpoints and specs hold the combined requirement as text, now as ever: it is what people are shown, and
jobs with equal texts form a class (a string keeps its hash, a tree of values would count it each time). The value
belongs to the text and is kept here. Who combines requirements as values prints the text from the value and keeps the
value with it, so nobody reads that text again; after a restart the first who asks reads it, once for all jobs that
have it. It never knows a job, and never keeps an error.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from gsched.resreq.ast import AnyRequirement
from gsched.resreq.parsing.gpu import GpuRequirement, parse_gpu
from gsched.resreq.parsing.syntax import parse_combined_any

MOST_STORED = 16_384
"""Texts of each kind whose value is kept: a workflow may ask for another amount of memory with each job."""

StoredValue = TypeVar("StoredValue")


class StoredValues(Generic[StoredValue]):
    """Values by their text, the oldest given up first. Threads may share it: each step is one of the table itself."""

    def __init__(self, read: Callable[[str], StoredValue]) -> None:
        self._read = read
        self._values: OrderedDict[str, StoredValue] = OrderedDict()

    def of(self, text: str) -> StoredValue:
        """The value of the text. Raises RequirementError for a text that cannot be read."""
        found = self._values.get(text)
        return self.keep(text, self._read(text)) if found is None else found

    def keep(self, text: str, value: StoredValue) -> StoredValue:
        """Keep the value that the text was printed from, so that it is not read; gives the value back."""
        self._values[text] = value
        if len(self._values) > MOST_STORED:
            self._values.popitem(last=False)
        return value


COMBINED: StoredValues[AnyRequirement] = StoredValues(parse_combined_any)
"""Of combined requirements (gsched.resreq.combining.combine)."""
COMBINED_GPU: StoredValues[GpuRequirement | None] = StoredValues(parse_gpu)
"""Of -gpu requirements with all levels merged in."""
