"""What the attempts of a host have of it, from their start until the master has their results on disk.

Only notes what it is told. It gives nothing out and takes nothing back: the master does the one, `prolog_epilog` sees
to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec

from gsched.base.ids import attempt_name, parse_attempt_name
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.order import Order


def uuids_of(part: HostAllocation | None) -> frozenset[str]:
    """UUIDs of the GPUs of a part, of whole ones also where parts of them are held."""
    return frozenset(gpu.parent or gpu.uuid for gpu in part.gpus) if part is not None else frozenset()


class HeldResources:
    """The part that each known attempt has. `ended`: the attempts that have ended, always as it is now."""

    def __init__(self, ended: Collection[AttemptKey]) -> None:
        self._ended = ended
        self._parts: dict[AttemptKey, HostAllocation] = {}
        self._any_gpu: set[AttemptKey] = set()
        """Attempts that may use GPUs which they do not hold: GPU_UNREQUESTED says so."""
        self._unknown: set[AttemptKey] = set()
        """Attempts of which nobody here knows what GPUs they hold."""
        self._moved: dict[AttemptKey, HostAllocation] = {}
        """What those have again when they go on that are suspended and moved off their GPU."""
        self._unreturned: dict[AttemptKey, HostAllocation] = {}
        """Of attempts that have ended: what is not given back yet."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when `running` has changed."""

    def __contains__(self, key: AttemptKey) -> bool:
        """Whether the attempt is known; it may have ended."""
        return key in self._parts

    def __iter__(self) -> Iterator[AttemptKey]:
        """All that are known."""
        return iter(self._parts)

    def part(self, key: AttemptKey) -> HostAllocation | None:
        """What the attempt was given; None when it is not known."""
        return self._parts.get(key)

    def whole_part(self, key: AttemptKey) -> HostAllocation | None:
        """The same, with the GPU that it is moved off."""
        return self._moved.get(key) or self._parts.get(key)

    def move_off(self, key: AttemptKey) -> None:
        """It has no GPU for a while."""
        part = self._parts.get(key)
        if part is not None and part.gpus:
            self._moved[key] = part
            self._parts[key] = msgspec.structs.replace(part, gpus=())
            self.on_change()

    def move_back(self, key: AttemptKey) -> None:
        """It has its GPU again."""
        part = self._moved.pop(key, None)
        if part is not None and key in self._parts:
            self._parts[key] = part
            self.on_change()

    def take(self, key: AttemptKey, part: HostAllocation) -> None:
        """The attempt is about to start, or to be taken up."""
        self._parts[key] = part
        self.on_change()

    def may_use_any(self, key: AttemptKey) -> None:
        """The attempt may use GPUs which it does not hold."""
        self._any_gpu.add(key)

    def take_up(self, key: AttemptKey, order: Order, host: str) -> None:
        """One that an earlier agent left. Where its folder was removed the master may know what it holds."""
        self.take(key, order.holding or HostAllocation(host=host, slots=1))
        if order.any_gpu:
            self.may_use_any(key)
        if order.gpus_unknown:
            self._unknown.add(key)

    @property
    def unknown(self) -> list[str]:
        """Names of the attempts that run with GPUs of which nobody here knows which they are."""
        return [attempt_name(*key) for key in self._unknown if key in self.running]

    def begin_return(self, key: AttemptKey, part: HostAllocation) -> None:
        """The attempt has ended; its GPUs are still to be seen to."""
        self._unreturned[key] = part

    def end_return(self, key: AttemptKey) -> None:
        """Its GPUs may be offered again."""
        del self._unreturned[key]

    def forget(self, key: AttemptKey) -> None:
        """The master has its result on disk."""
        self._parts.pop(key, None)
        self._moved.pop(key, None)
        self._any_gpu.discard(key)
        self._unknown.discard(key)

    @property
    def running(self) -> dict[AttemptKey, HostAllocation]:
        """What those have that are not over."""
        return {key: part for key, part in self._parts.items() if key not in self._ended}

    @property
    def returning(self) -> Mapping[AttemptKey, HostAllocation]:
        """What those have that have ended and have not given it back yet."""
        return self._unreturned

    def all(self) -> Mapping[AttemptKey, HostAllocation]:
        """What the attempts have that have not ended, and those that have not given it back yet."""
        return {**self.running, **self._unreturned}

    def given_gmem(self) -> Mapping[tuple[str, str], float]:
        """(attempt, UUID) -> the gmem= in MiB that it has of that GPU, of those that have one."""
        return {
            (attempt_name(*key), gpu.uuid): gpu.gmem_mib
            for key, part in self._parts.items()
            for gpu in part.gpus
            if gpu.gmem_mib
        }

    def held_gpus(self, name: str) -> frozenset[str] | None:
        """UUIDs of the GPUs that the attempt holds; None for one that may use any, or of which that is not known."""
        key = parse_attempt_name(name)
        part = self._parts.get(key)
        return (
            None
            if part is None or key in self._any_gpu or key in self._unknown
            else frozenset(uuid for gpu in part.gpus for uuid in (gpu.uuid, gpu.board))
        )
