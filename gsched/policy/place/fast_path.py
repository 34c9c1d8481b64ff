"""The short way to a place, for jobs of whose kind there are many: one host, whole GPUs that are alike, no limits.

The fast path gives a job what `Placer.place` would give it, in few steps: it counts in a scratch what is left of a
host, and the ledgers themselves are written when somebody else looks at them. Wherever anything more has a say (limits,
plans for others on the host, shared devices, affinity[], several hosts, amounts that are given back early) it passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.scheduling.snapshot import Bucket
from gsched.policy.devices import gpu_choice
from gsched.policy.match.columns_cycle import CycleColumns
from gsched.policy.match.columns_rank import Ranking
from gsched.policy.place.placement_guard import PlaceGuard
from gsched.policy.requirement.demand import HostNeed


class FastPath:
    """The short way for the jobs of one class in one queue."""

    __slots__ = ("effective", "ends_at", "is_by_user", "take")

    def __init__(
        self, field: CycleColumns, ranking: Ranking, guard: PlaceGuard, effective: str, bucket: Bucket
    ) -> None:
        """`bucket`: one of the class."""
        self.take = taker(field, ranking, guard)
        """The next job's part, by its number; the part counts as taken then. None: ask the long way."""
        self.effective = effective
        """See Placement."""
        self.ends_at = guard.ends_at(bucket)
        """Latest end of a job of the bucket that starts now, UTC seconds; infinite when nobody knows."""
        self.is_by_user = guard.is_end_by_user(bucket)
        """Whether that of another bucket's may be another one."""

    @staticmethod
    def may_take(need: HostNeed) -> bool:
        """Whether a job that needs this may go the short way."""
        is_plain = need == HostNeed(need.slots, need.amounts, need.devices, auto_gpu=False, exclusive=False)
        return is_plain and len(need.devices) < 2 and all(gpu_choice.is_plain(kind) for kind, _ in need.devices)


def taker(field: CycleColumns, ranking: Ranking, guard: PlaceGuard) -> Callable[[int], HostAllocation | None]:
    """What takes for the fast path. Called for each job of a mass dispatch, so what it needs is looked up here."""
    columns, scratches, best = field.columns, field.scratches, _chooser(field, ranking, guard)
    need = ranking.match.asked.need
    slots, amounts, enter = need.slots, dict(need.amounts), columns.ledger.take_later
    claim, count = "", 0
    for kind, wanted in need.devices:
        claim, count = kind.claim, wanted
    shape = -1
    note: Callable[[int, Mapping[str, float]], None] | None = None
    """As of that shape of the columns."""

    def take(job_id: int) -> HostAllocation | None:
        nonlocal shape, note
        row = best()
        if row is None:
            return None
        scratch = scratches.get(row) or field.scratch(row)
        if scratch is None:
            return None
        free = scratch.free
        if len(free) < count:
            return None
        held = gpu_choice.held_whole(free[:count], claim) if count else ()
        del free[:count]
        part = HostAllocation(host=scratch.host, slots=slots, gpus=held, amounts=amounts)
        reserved = scratch.reserved
        for name, amount in amounts.items():
            reserved[name] = reserved.get(name, 0.0) + amount
        enter((job_id, -1), part)
        if field.recent:
            field.took(row)
        if note is None or columns.shape != shape:
            note = columns.taking(part)
            shape = columns.shape
        note(row, reserved)
        return part

    return take


def _chooser(field: CycleColumns, ranking: Ranking, guard: PlaceGuard) -> Callable[[], int | None]:
    """What gives the row of the best host; None where somebody else must be asked."""
    names, tried, match = field.columns.names, field.columns.tried, ranking.match

    def best() -> int | None:
        while True:
            single = ranking.single
            row = ranking.best() if single is None else single()
            if row is None or (guard.guarded and names[row] in guard.guarded):
                return None
            if row not in tried or match.selects(row):
                return row
            ranking.drop(row)

    return best
