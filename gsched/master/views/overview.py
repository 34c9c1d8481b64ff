"""What is counted over many jobs or hosts when somebody asks: job groups, advance reservations, reasons, fragmentation.

Everything comes from published views; the engine is never asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gsched.base.coded_text import AnyText, coded, order_of
from gsched.base.errors import NotFound
from gsched.core.records.entities import JobGroup, StoredReservation
from gsched.master.views.array_views import ArrayCopy
from gsched.master.views.board import Board
from gsched.master.views.queue_views import job_slots
from gsched.master.views.withheld_slots import Withheld
from gsched.model.config import ClusterConfig
from gsched.model.hosts.host import ComputeMode, HostState
from gsched.model.jobs.job import FINISHED, PENDING, STARTED
from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import SHARING
from gsched.model.views.room_view import FragmentView, PendingSummary, ReasonCount, ReservationView
from gsched.model.views.view import GpuView, HostView, JobGroupView, JobView


def group_views(
    groups: Mapping[str, JobGroup],
    arrays: Iterable[ArrayCopy],
    jobs: Iterable[JobView],
    names: Iterable[str],
    kept: Iterable[Withheld] = (),
) -> list[JobGroupView]:
    """All job groups by name, or the named ones, with the jobs in them and below. Raises NotFound."""
    counts: dict[str, dict[str, int]] = {name: {} for name in groups}
    slots: dict[str, dict[str, int]] = {name: {} for name in groups}
    for job in jobs:
        if job.spec.group:
            _count(counts, job.spec.group, job.state, 1)
            if job.state not in FINISHED:
                _count(slots, job.spec.group, job.state, job_slots(job))
    for array in arrays:
        spec, state = array.template.spec, array.template.state
        if spec.group and array.count:
            _count(counts, spec.group, state, array.count)
            _count(slots, spec.group, state, array.count * spec.slots)
    for each in kept:
        _count(slots, each.bucket.job_group, _RSV, each.slots)
    wanted = list(names) or sorted(groups)
    for name in wanted:
        if name not in groups:
            raise NotFound(f"No job group {name} found")
    return [
        JobGroupView(
            name=name,
            counts=counts[name],
            job_limit=groups[name].job_limit,
            owner=groups[name].owner,
            rsv=slots[name].pop(_RSV, 0),
            slots=slots[name],
        )
        for name in wanted
    ]


_RSV = "RSV"


def _count(counts: dict[str, dict[str, int]], group: str, state: str, number: int) -> None:
    while group and group != "/":
        if group in counts:
            counts[group][state] = counts[group].get(state, 0) + number
        group = group.rpartition("/")[0]


def reservation_views(
    stored: Mapping[str, StoredReservation], jobs: Iterable[JobView], names: Iterable[str], now: float
) -> list[ReservationView]:
    """All advance reservations by their start, or the named ones. Raises NotFound."""
    used: dict[str, dict[str, int]] = {}
    for job in jobs:
        if job.spec.reservation and job.state in STARTED and job.allocation is not None:
            table = used.setdefault(job.spec.reservation, {})
            for part in job.allocation.hosts:
                table[part.host] = table.get(part.host, 0) + part.slots
    wanted = list(names) or sorted(stored, key=lambda name: (stored[name].start, name))
    for name in wanted:
        if name not in stored:
            raise NotFound(f"{name}: there is no such advance reservation")
    return [_reservation(stored[name], used.get(name, {}), now) for name in wanted]


def _reservation(stored: StoredReservation, used: dict[str, int], now: float) -> ReservationView:
    return ReservationView(
        name=stored.name,
        users=stored.users,
        start=stored.start,
        end=stored.end,
        slots=stored.slots,
        gpus=stored.gpus,
        used=used,
        active=stored.start <= now < stored.end,
    )


def pending_summary(board: Board, now: float) -> PendingSummary:
    """What all pending jobs wait for, most frequent first. A job counts once for each of its reasons."""
    jobs: dict[AnyText, int] = {}
    hosts: dict[AnyText, int] = {}
    total = 0
    for reasons, number in _waiting(board):
        total += number
        for reason in reasons:
            if reason.hosts:
                hosts[reason.text] = hosts.get(reason.text, 0) + reason.hosts * number
            else:
                jobs[reason.text] = jobs.get(reason.text, 0) + number
        if any(reason.hosts for reason in reasons):
            jobs[HOST_BASED] = jobs.get(HOST_BASED, 0) + number
    counts = [ReasonCount(text=text, count=number) for text, number in _frequent(jobs)]
    counts += [ReasonCount(text=text, count=number, is_host_based=True) for text, number in _frequent(hosts)]
    return PendingSummary(jobs=total, published_at=now, reasons=tuple(counts))


HOST_BASED = coded("pending.host_based")
"""LSF's name for all reasons that are those of hosts, where jobs are counted."""


def _waiting(board: Board) -> Iterator[tuple[tuple[PendingReason, ...], int]]:
    arrays, jobs = board.open_jobs()
    for array in arrays:
        if array.count:
            yield board.reasons_of_array(array), array.count
    for job in jobs:
        if job.state in PENDING:
            yield board.reasons_of(job), 1


def _frequent(counts: dict[AnyText, int]) -> list[tuple[AnyText, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], order_of(item[0])))


def fragments(hosts: Iterable[HostView], jobs: Iterable[JobView], config: ClusterConfig) -> list[FragmentView]:
    """Per host with GPUs: how many one more job could get there now, and what holds the others back."""
    parts: dict[tuple[str, str], float] = {}
    whole = 1.0 / max(1, config.params.gpu_shared_jobs)
    for job in jobs:
        if job.allocation is None or job.state in FINISHED:
            continue
        for part in job.allocation.hosts:
            for held in part.gpus:
                share = held.share if held.share < 1 else whole
                if held.claim not in SHARING:
                    share = 1.0
                key = (part.host, held.uuid)
                parts[key] = parts.get(key, 0.0) + share
    return [_fragment(host, parts, whole) for host in hosts if host.gpus]


_ROUNDING = 1e-6


def _fragment(host: HostView, parts: Mapping[tuple[str, str], float], whole: float) -> FragmentView:
    """`whole`: the part of a shared GPU that a job takes which names none."""
    offered = [each for each in host.gpus if _is_offered(each)]
    free = sum(not each.holders for each in offered)
    shared = [each for each in offered if _is_shared(each)]
    taken = [parts.get((host.name, each.gpu.uuid), 1.0) if each.holders else 0.0 for each in shared]
    partly = sum(0 < part < 1.0 - _ROUNDING for part in taken)
    usable = max(free, sum(part + whole <= 1.0 + _ROUNDING for part in taken))
    reasons = []
    if host.status not in (HostState.OK, HostState.CLOSED_FULL):
        usable, reasons = 0, [f"the host is {host.status}"]
    elif host.slots_free == 0:
        usable, reasons = 0, ["no job slot is free"]
    held = len(offered) - free
    if held:
        reasons.append(f"{held} held by jobs")
    split = sum(bool(each.gpu.mig) for each in host.gpus)
    if split:
        reasons.append(f"{split} split by MIG")
    if len(offered) + split < len(host.gpus):
        reasons.append(f"{len(host.gpus) - len(offered) - split} not offered")
    return FragmentView(
        host=host.name,
        gpus=len(host.gpus),
        free=free,
        partly_free=partly,
        slots_free=host.slots_free,
        mem_free_mib=host.load.get("mem"),
        usable=usable,
        blocked_by="; ".join(reasons),
    )


def _is_shared(view: GpuView) -> bool:
    """Whether several jobs may be on it, now or as soon as the first of them has it."""
    gpu = view.gpu
    return gpu.mode is ComputeMode.DEFAULT or (gpu.mode_settable and not view.holders)


def _is_offered(view: GpuView) -> bool:
    gpu = view.gpu
    return not gpu.problem and not gpu.mig and gpu.mode is not None and gpu.mode is not ComputeMode.PROHIBITED
