"""Which GPUs of a host a job gets: `choose`, from those that the ledger says are claimable. It takes nothing.

The order among those that would do:
1. GPUs that are linked with each other (or of one model) before a mixture; of several such groups the smallest that has
   room.
2. The GPU with the fewest jobs, one that nobody holds first; for a part of a GPU (share=, gpack=yes) the fullest, so
   whole GPUs stay free.
3. GPUs whose compute mode need not be changed.
4. The lowest index.

2 to 4 are the order of `HostDevices.claimable`. Three others choose, too: `place.fast_path`, from
`HostDevices.idle_alike`, where all GPUs of a host are alike; `scarce_placement`, which may take another GPU for a part
of one; and a job that takes the place planned for it keeps the GPUs of the plan, where `Future.refit`
(backfill.future_ledgers) replaces those that are not free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from gsched.base.coded_text import AnyText, coded, listed
from gsched.model.hosts.host import Gpu
from gsched.model.ledgers.allocation import SHARING, HeldGpu
from gsched.model.ledgers.devices import (
    MIG_CLAIMS,
    MODE_BY_OPTION,
    SETTABLE_MODES,
    GpuPart,
    held_of,
    needs_change,
    suits,
    whole_gpus,
)
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.policy.requirement.demand import DeviceKind, Devices
from gsched.policy.requirement.reasons import Shortage
from gsched.resreq.parsing.gpu import model_matches

ANY_DEVICE = ("ngpus_shared", "ngpus_excl_p", "ngpus_excl_t")
"""How a GPU is claimed that nobody asked for, in the order in which it is tried."""

MOST_PROBLEMS = 4
"""So many reasons for which GPUs are not offered stand in the reason of a job that waits."""

_NOTHING_ELSE = DeviceKind("")[1:]
"""All of a kind but the claim, when nothing is asked of the devices."""


def choose(ledger: HostLedger, wanted: Sequence[Devices]) -> tuple[HeldGpu, ...] | Shortage:
    """Devices for all claims, lowest index first; or the first claim that cannot be met."""
    if len(wanted) == 1 and not ledger.islands:
        kind, count = wanted[0]
        if is_plain(kind):
            free = ledger.claimable(kind.claim) if ledger.gpus_known else []
            if len(free) >= count:
                return held_whole(free[:count], kind.claim)
    chosen: dict[str, HeldGpu] = {}
    if len(wanted) > 1:
        # The narrow claims first: a plain `ngpus` would otherwise take a device that only a mode claim can use, and
        # one by -gpu, for which modes are set, that of a counter.
        wanted = sorted(wanted, key=lambda each: (len(candidates(ledger, each.kind)), each.kind.claim == "ngpus", each))
    for kind, count in wanted:
        if not ledger.gpus_known:
            return Shortage(kind.name, count, None, None, kind.wish)
        free = candidates(ledger, kind)
        if chosen:
            free = [gpu for gpu in free if gpu.uuid not in chosen]
        picked = _pick(ledger, kind, free, count)
        if picked is None:
            there = _there(ledger, kind)
            closed = not_offered(ledger, kind.claim)
            return Shortage(kind.name, count, _most(ledger, kind, free), there, kind.wish, closed)
        for gpu in picked:
            chosen[gpu.uuid] = held_of(gpu, kind.claim, kind.share, kind.gmem_mib)
    held = tuple(chosen.values())
    return held if len(held) < 2 else tuple(sorted(held, key=_index_of))


def choose_any(ledger: HostLedger) -> tuple[HeldGpu, ...] | Shortage:
    """One GPU for a job that asked for none (auto=1); nothing on a host without any, or with none that is whole."""
    if ledger.gpus_known and all(gpu.mig for gpu in whole_gpus(ledger.gpus)):
        return ()
    for claim in ANY_DEVICE:
        found = choose(ledger, (Devices(DeviceKind(claim), 1),))
        if not isinstance(found, Shortage):
            return found
    there = ledger.devices_in_mode("ngpus") if ledger.gpus_known else None
    return Shortage("ngpus", 1, 0 if ledger.gpus_known else None, there)


def candidates(ledger: HostLedger, kind: DeviceKind) -> list[Gpu]:
    """The devices of a kind that one more job may claim, in the order in which they are given."""
    free = ledger.claimable(kind.claim, kind.share, kind.gmem_mib)
    if kind.model:
        free = [gpu for gpu in free if model_matches(kind.model, gpu.model, gpu.memory_mib or 0)]
    if kind.mig:
        free = [gpu for gpu in free if isinstance(gpu, GpuPart) and gpu.is_of(kind.mig)]
    if kind.packed:
        free.sort(key=lambda gpu: (-ledger.load_of(gpu.uuid), needs_change(gpu, kind.claim), gpu.index))
    return free


def is_plain(kind: DeviceKind) -> bool:
    """Whether any devices that nobody holds will do: none are shared, and nothing else is asked of them."""
    return kind[1:] == _NOTHING_ELSE and kind.claim not in SHARING


def obtainable(ledger: HostLedger, kind: DeviceKind) -> int:
    """The most devices of the kind that one job could get on the host now; 0 while they are unknown."""
    if is_plain(kind):
        return ledger.idle(kind.claim)
    return _most(ledger, kind, candidates(ledger, kind)) if ledger.gpus_known else 0


def obtainable_any(ledger: HostLedger) -> int:
    """Whether a job that asked for no device (auto=1) gets what it is to get, 1 or 0."""
    return 0 if isinstance(choose_any(ledger), Shortage) else 1


def fresh(ledger: HostLedger, kind: DeviceKind) -> int:
    """How many of the devices that a job could claim nobody holds."""
    return sum(gpu.uuid not in ledger.holders for gpu in candidates(ledger, kind))


def share_left(ledger: HostLedger, kind: DeviceKind) -> float:
    """What would be left of the device that a part of a GPU would be taken of, 0 to 1; 1 where there is none."""
    for gpu in candidates(ledger, kind):
        return max(0.0, 1.0 - ledger.load_of(gpu.uuid) - kind.share)
    return 1.0


def _most(ledger: HostLedger, kind: DeviceKind, free: Sequence[Gpu]) -> int:
    if kind.tile:
        return next((count for count in range(len(free), 0, -1) if _pick(ledger, kind, free, count)), 0)
    if kind.linked:
        return max(map(len, _groups(ledger, free)), default=0) if _knows_links(free) else min(1, len(free))
    return len(free)


def _there(ledger: HostLedger, kind: DeviceKind) -> int:
    """How many devices of the host are of the kind, held or not."""
    devices: Sequence[Gpu]
    if kind.claim in MIG_CLAIMS:
        parts = (gpu for gpu in ledger.gpus.values() if isinstance(gpu, GpuPart))
        devices = [gpu for gpu in parts if gpu.is_of(kind.mig)]
    elif not kind.model and not kind.gmem_mib:
        return ledger.devices_for(kind.claim)
    else:
        devices = list(whole_gpus(ledger.gpus))
    large = (gpu for gpu in devices if (gpu.usable_mib or 0) >= kind.gmem_mib)
    return sum(not kind.model or model_matches(kind.model, gpu.model, gpu.memory_mib or 0) for gpu in large)


def not_offered(ledger: HostLedger, claim: str) -> AnyText:
    """The GPUs that nobody holds and that are not offered, with why: each problem once, MOST_PROBLEMS at most."""
    indexes: dict[AnyText, list[int]] = {}
    for gpu in whole_gpus(ledger.gpus):
        if gpu.uuid not in ledger.holders and (why := gpu.problem or _kept_in_mode(gpu, claim)):
            indexes.setdefault(why, []).append(gpu.index)
    shown = [
        coded("gpu.not_offered", first, coded("gpu.and_more", len(more)) if more else "", problem)
        for problem, (first, *more) in list(indexes.items())[:MOST_PROBLEMS]
    ]
    rest = sum(map(len, list(indexes.values())[MOST_PROBLEMS:]))
    return listed(shown + ([coded("gpu.more_not_offered", rest)] if rest else []))


def _kept_in_mode(gpu: Gpu, claim: str) -> AnyText:
    """Who is on a GPU in another mode than the claim's, which no agent changes below a process; empty for nobody."""
    if claim not in MODE_BY_OPTION or gpu.mode not in SETTABLE_MODES or suits(gpu, claim) or not gpu.processes:
        return ""
    first, more = gpu.processes[0], len(gpu.processes) - 1
    return coded("gpu.kept_in_mode", str(gpu.mode), first.described, coded("gpu.and_more", more) if more else "")


def _pick(ledger: HostLedger, kind: DeviceKind, free: Sequence[Gpu], count: int) -> Sequence[Gpu] | None:
    if len(free) < count:
        return None
    if kind.tile:
        return _tiled(ledger, free, count, kind.tile)
    if kind.linked and count > 1 and not _knows_links(free):
        return None
    if not ledger.islands or (count == 1 and ledger.holders.get(free[0].uuid)):
        return free[:count]
    groups = [group for group in _groups(ledger, free) if len(group) >= count]
    if groups:
        # Of those where it fits the smallest; `free` is in order, and so are the groups.
        return min(groups, key=len)[:count]
    return None if kind.linked else free[:count]


def _knows_links(gpus: Iterable[Gpu]) -> bool:
    return any(gpu.links for gpu in gpus)


def _groups(ledger: HostLedger, free: Iterable[Gpu]) -> list[list[Gpu]]:
    groups: dict[int, list[Gpu]] = {}
    for gpu in free:
        groups.setdefault(ledger.islands.get(gpu.uuid, -1), []).append(gpu)
    return list(groups.values())


def _tiled(ledger: HostLedger, free: Sequence[Gpu], count: int, tile: str) -> Sequence[Gpu] | None:
    """At most `tile` devices of each socket, or evenly; None where nobody knows the sockets."""
    sockets: dict[int, list[Gpu]] = {gpu.numa: [] for gpu in ledger.gpus.values() if gpu.numa is not None}
    if not sockets:
        return None
    for gpu in free:
        if gpu.numa is not None:
            sockets[gpu.numa].append(gpu)
    if tile != "!":
        most = int(tile)
    elif count % len(sockets):
        return None
    else:
        most = count // len(sockets)
    picked = [gpu for _, members in sorted(sockets.items()) for gpu in members[:most]]
    return picked[:count] if len(picked) >= count else None


_index_of = attrgetter("index")


def held_whole(devices: list[Gpu], claim: str) -> tuple[HeldGpu, ...]:
    """The GPUs as claimed, all of each; lowest index first."""
    if len(devices) > 1:
        devices.sort(key=_index_of)
    return tuple([HeldGpu(uuid=gpu.uuid, index=gpu.index, claim=claim, pci_bus_id=gpu.pci_bus_id) for gpu in devices])
