"""Two known ways to place tasks with GPUs, to compare ours with in the same run: best fit, and the paper's FGD.

They are for measuring only; the scheduler never uses them.
"""

from __future__ import annotations

import numpy as np

from gsched.policy.devices.gpu_packing import Mix
from gsched.policy.devices.node_states import WHOLE, NodeColumns, NodeFloats, NodeInts, States


class BestFit:
    """The node with the least CPU and GPU left, each as a part of the largest node's; there, the fullest GPU."""

    refresh_after = 0

    def __init__(self, mix: Mix) -> None:
        """The mix does not count."""
        self._largest = (1, 1)

    def prepare(self, columns: NodeColumns) -> None:
        """Only the sizes count."""
        self._largest = max(int(columns.cpu.max(initial=0)), 1), columns.gpus.shape[1] * WHOLE

    def worth(self, states: States) -> NodeFloats:
        """Nothing: the state before does not count."""
        return np.zeros(len(states.cpu), np.float64)

    def cost(self, worth: NodeFloats, after: States, left: NodeInts) -> NodeFloats:
        """What would be left."""
        cost: NodeFloats = after.cpu / self._largest[0] + after.gpus.sum(axis=1) / self._largest[1] + 1e-9 * left
        return cost


class FragmentationGradient:
    """The least increase of expected fragmentation, after "Beware of Fragmentation" (USENIX ATC 2023).

    A node's fragmentation for a kind of task is all of its free GPU where such a task does not fit, and otherwise the
    GPUs too small for it. As the free GPU is the same for all kinds, that is to lose the least of what stays usable.
    Of equal costs (the paper leaves them to chance) the best fit is taken: that is better than the first node.
    """

    refresh_after = 0

    def __init__(self, mix: Mix) -> None:
        self._shapes, self._weights = mix.shapes, mix.weights
        self._fit = BestFit(mix)
        self._cpu = np.array([shape.cpu for shape in self._shapes])
        self._memory = np.array([shape.memory for shape in self._shapes])
        shares, self._share = np.unique([shape.share for shape in self._shapes], return_inverse=True)
        free = np.arange(WHOLE + 1)[:, None]
        self._usable = np.where(free >= shares[None, :], free, 0) / WHOLE
        self._whole = np.array([shape.gpus if shape.share == WHOLE else 0 for shape in self._shapes])
        self._permitted = np.zeros((0, len(self._shapes)), np.bool_)

    def prepare(self, columns: NodeColumns) -> None:
        """Which kinds each GPU model may hold."""
        allowed = [[not shape.models or model in shape.models for shape in self._shapes] for model in columns.models]
        self._permitted = np.array(allowed, np.bool_)
        self._fit.prepare(columns)

    def worth(self, states: States) -> NodeFloats:
        """The expected usable GPU."""
        usable: NodeFloats = self._usable[states.gpus].sum(axis=1)[:, self._share]
        fits = (states.cpu[:, None] >= self._cpu) & (states.memory[:, None] >= self._memory)
        fits &= self._permitted[states.model]
        fits &= (states.gpus >= WHOLE).sum(axis=1)[:, None] >= self._whole
        worth: NodeFloats = (usable * fits) @ self._weights
        return worth

    def cost(self, worth: NodeFloats, after: States, left: NodeInts) -> NodeFloats:
        """The usable GPU that is lost."""
        return worth - self.worth(after) + 1e-9 * self._fit.cost(worth, after, left)
