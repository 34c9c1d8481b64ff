"""GPUs of hosts as tiles: who has each, what it does, and why it takes no jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

import msgspec

from gsched.base.coded_text import sentence
from gsched.base.ids import parse_attempt_name, show_job
from gsched.cli.render.hosts.gpu_tables import is_just_closed, trouble_of
from gsched.model.gpus.gpu_closure import GpuClosure
from gsched.model.views.view import GpuView, HostView


class TileKind(StrEnum):
    """What strikes first; the value is a key of the catalogue and a class of the style sheet."""

    FREE = "free"
    MINE = "mine"
    OTHERS = "others"
    SHARED = "shared"
    CLOSED = "closed"
    FAILED = "failed"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"
    """Nobody can say whether it may be used: its mode is not known, or prohibits it."""


class Holder(msgspec.Struct, frozen=True):
    """A job that holds a GPU; `user` is empty where the job is not known (any more)."""

    job_id: int
    label: str
    user: str


class GpuTile(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. None is unknown."""

    host: str
    index: int
    uuid: str
    model: str
    kind: TileKind
    holders: tuple[Holder, ...] = ()
    use: int | None = None
    """Percent of the time in which it computed."""
    used_mib: int | None = None
    memory_mib: int | None = None
    temperature_c: int | None = None
    power_w: int | None = None
    mode: str = ""
    problem: str = ""
    closure: GpuClosure | None = None
    foreign_pids: tuple[int, ...] = ()
    parts: int = 0
    """By MIG."""

    @property
    def memory_percent(self) -> int | None:
        """Of its memory that is in use."""
        if self.used_mib is None or not self.memory_mib:
            return None
        return min(100, round(100 * self.used_mib / self.memory_mib))

    @property
    def users(self) -> list[str]:
        """Whose jobs hold it, each once."""
        return list(dict.fromkeys(holder.user for holder in self.holders if holder.user))


UserOf = Callable[[int], str]
"""A job's number -> its user; empty where it is not known."""


def tiles_of(host: HostView, me: str, user_of: UserOf) -> list[GpuTile]:
    """The host's GPUs by index; `me`: whose GPUs are "mine"."""
    views = sorted(host.gpus, key=lambda view: view.gpu.index)
    return [_tile(host.name, view, me, user_of) for view in views]


def _tile(host: str, view: GpuView, me: str, user_of: UserOf) -> GpuTile:
    gpu = view.gpu
    holders = tuple(_holders(view.holders, user_of))
    return GpuTile(
        host=host,
        index=gpu.index,
        uuid=gpu.uuid,
        model=gpu.model,
        kind=_kind(view, holders, me),
        holders=holders,
        use=gpu.utilization_percent,
        used_mib=gpu.used_mib,
        memory_mib=gpu.memory_mib,
        temperature_c=gpu.temperature_c,
        power_w=gpu.power_w,
        mode=gpu.mode or "",
        problem="" if is_just_closed(gpu) else sentence(gpu.problem),
        closure=view.closure,
        foreign_pids=gpu.foreign_pids,
        parts=len(gpu.mig_devices) if gpu.mig else 0,
    )


def _holders(attempts: Iterable[str], user_of: UserOf) -> Iterator[Holder]:
    for name in attempts:
        try:
            job_id, _ = parse_attempt_name(name)
        except ValueError:
            continue
        yield Holder(job_id, show_job(job_id), user_of(job_id))


def _kind(view: GpuView, holders: tuple[Holder, ...], me: str) -> TileKind:
    trouble = trouble_of(view)
    if trouble is not None:
        return TileKind(trouble.value)
    if holders:
        if len(holders) > 1:
            return TileKind.SHARED
        return TileKind.MINE if holders[0].user == me else TileKind.OTHERS
    return TileKind.UNKNOWN if view.gpu.is_barred else TileKind.FREE


def counts_of(tiles: Iterable[GpuTile]) -> dict[TileKind, int]:
    """How many there are of each kind, those of which there are some."""
    found = dict.fromkeys(TileKind, 0)
    for tile in tiles:
        found[tile.kind] += 1
    return {kind: count for kind, count in found.items() if count}
