"""The short way to a place, for jobs of whose kind there are many: one host, whole GPUs that are alike, no limits.

A lane gives a job what `Placer.place` would give it, in few steps: it counts on a shelf what is left of a host, and the
books themselves are written when somebody else looks at them. Wherever anything more has a say (limits, plans for
others on the host, shared devices, affinity[], several hosts, amounts that are given back early) it passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gsched.model.allocation import HeldGpu, HostAllocation
from gsched.policy import gpus
from gsched.policy.columns_cycle import CycleColumns
from gsched.policy.columns_rank import Ranking
from gsched.policy.demand import HostNeed
from gsched.policy.place_guard import PlaceGuard


class Lane:
    """The short way for the jobs of one class in one queue."""

    __slots__ = (
        "_amounts",
        "_claim",
        "_columns",
        "_count",
        "_field",
        "_guard",
        "_is_live",
        "_ledger",
        "_note",
        "_ranking",
        "_shape",
        "_slots",
        "effective",
        "ends_at",
    )

    def __init__(
        self, field: CycleColumns, ranking: Ranking, guard: PlaceGuard, effective: str, ends_at: float
    ) -> None:
        need = ranking.match.asked.need
        self._field = field
        self._columns = field.columns
        self._ledger = field.columns.ledger
        self._ranking = ranking
        self._guard = guard
        self._slots = need.slots
        self._amounts = dict(need.amounts)
        self._claim, self._count = "", 0
        for kind, count in need.devices:
            self._claim, self._count = kind.claim, count
        self._shape = -1
        """Of the columns, when what depends on it was found out last."""
        self._is_live = True
        self._note: Callable[[int, Mapping[str, float]], None] | None = None
        self.effective = effective
        """See Placement."""
        self.ends_at = ends_at
        """Latest end of a job that starts now, UTC seconds; infinite when nobody knows."""

    @staticmethod
    def may_take(need: HostNeed) -> bool:
        """Whether a job that needs this may go the short way."""
        is_plain = need == HostNeed(need.slots, need.amounts, need.devices, auto_gpu=False, exclusive=False)
        return is_plain and len(need.devices) < 2 and all(gpus.is_plain(kind) for kind, _ in need.devices)

    def take(self, job_id: int) -> HostAllocation | None:
        """The next job's part, which counts as taken then; None: ask the long way."""
        columns, field = self._columns, self._field
        row = self._best()
        if row is None:
            return None
        shelf = field.shelves.get(row) or field.shelf(row)
        if shelf is None:
            return None
        free, count, amounts = shelf.free, self._count, self._amounts
        held: tuple[HeldGpu, ...] = ()
        if count:
            if len(free) < count:
                return None
            held = gpus.held_whole(free[:count], self._claim)
            del free[:count]
        part = HostAllocation(host=shelf.host, slots=self._slots, gpus=held, amounts=amounts)
        reserved = shelf.reserved
        for name, amount in amounts.items():
            reserved[name] = reserved.get(name, 0.0) + amount
        self._ledger.take_later((job_id, -1), part)
        if field.recent:
            field.took(row)
        if self._note is None or columns.shape != self._shape:
            self._note = columns.taking(part)
            self._shape, self._is_live = columns.shape, self._ranking.match.is_live
        self._note(row, reserved)
        return part

    def _best(self) -> int | None:
        ranking, columns, guarded = self._ranking, self._columns, self._guard.guarded
        while True:
            row = ranking.best()
            if row is None or (guarded and columns.names[row] in guarded):
                return None
            is_live = self._is_live or columns.shape != self._shape
            if not is_live or row not in columns.tried or ranking.selects(row):
                return row
            ranking.drop(row)
