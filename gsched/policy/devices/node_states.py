"""What is free on nodes, as columns, and the different states among them: nodes in equal states are looked at once.

Only for gpu_packing. Knows no task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WHOLE = 1000
"""A whole GPU in thousandths: shares and what is free of a GPU are counted in these."""

NodeInts = NDArray[np.int64]
NodeFloats = NDArray[np.float64]

_FIRST_SIZE = 256


@dataclass(frozen=True, slots=True)
class Node:
    """What is free on one node: CPU in thousandths, memory in MiB, thousandths of each GPU (1000: nobody is on it)."""

    cpu: int
    memory: int
    model: str
    free: tuple[int, ...]

    def __post_init__(self) -> None:
        if not all(0 <= part <= WHOLE for part in self.free):
            raise ValueError(f"between 0 and {WHOLE} thousandths of a GPU can be free: {self}")


class NodeColumns:
    """The free resources of all nodes as columns. A node with fewer GPUs than the widest has GPUs with nothing free."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        width = max((len(node.free) for node in nodes), default=0) or 1
        self.cpu: NodeInts = np.array([node.cpu for node in nodes], np.int64)
        self.memory: NodeInts = np.array([node.memory for node in nodes], np.int64)
        self.models = tuple(sorted({node.model for node in nodes}))
        self.model: NodeInts = np.array([self.models.index(node.model) for node in nodes], np.int64)
        self.gpus: NodeInts = np.zeros((len(nodes), width), np.int64)
        for row, node in enumerate(nodes):
            self.gpus[row, : len(node.free)] = node.free

    def __len__(self) -> int:
        return len(self.cpu)

    def rows(self, rows: NodeInts) -> States:
        """The states of some nodes, copied."""
        return States(self.cpu[rows], self.memory[rows], self.model[rows], self.gpus[rows])


@dataclass(frozen=True, slots=True)
class States:
    """States of nodes, one per row: as they are, or as they would be after a placement."""

    cpu: NodeInts
    memory: NodeInts
    model: NodeInts
    gpus: NodeInts


class StateTable:
    """The states that nodes are or have been in, each once, by number. GPUs stand in ascending order: which of them is
    how free does not matter for what a task costs.
    """

    def __init__(self, width: int) -> None:
        """`width`: GPUs of the widest node."""
        self._numbers: dict[bytes, int] = {}
        self._rows: NodeInts = np.zeros((_FIRST_SIZE, 3 + width), np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, columns: NodeColumns, node: int) -> int:
        """The number of the state that a node is in now; a new state has the next one."""
        row = np.empty(self._rows.shape[1], np.int64)
        row[0], row[1], row[2] = columns.cpu[node], columns.memory[node], columns.model[node]
        row[3:] = np.sort(columns.gpus[node])
        key = row.tobytes()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            if number >= len(self._rows):
                self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
            self._rows[number] = row
        return number

    def states(self, numbers: NodeInts) -> States:
        """The states of these numbers, copied."""
        rows = self._rows[numbers]
        return States(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3:])
