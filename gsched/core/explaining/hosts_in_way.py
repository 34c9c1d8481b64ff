"""Hosts that do not take a job, by reason, and who is in the way on each: jobs, closed GPUs, processes of strangers.

A reason is told by its code; what lacks is found in the reason's parameters. It changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gsched.base.coded_text import AnyText, CodedText
from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.devices import GpuPart
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.scheduling.snapshot import Bucket, Running, Snapshot
from gsched.model.views.explanation import RefusingHost, RefusingHosts, ResourceHolder, UnofferedGpu
from gsched.policy.future.future_ledgers import Future
from gsched.policy.match.host_refusals import host_refusals
from gsched.policy.requirement.reasons import Reason

MOST_HOSTS = 256
"""Hosts that are looked at one by one; of larger clusters the first by name that the queue may use."""
MOST_SHOWN = 16
"""Hosts that are told of for one reason."""
MOST_HOLDERS = 8
"""Jobs that are told of on one host."""
_RESERVING = "pending.reserving"
_SLOTS = frozenset(
    {"pending.no_slot", "pending.too_few_slots", "pending.locked", "pending.not_empty", "pending.affinity"}
)
"""Reasons for which whoever holds slots is in the way."""
_Lacks = str
"""Resource that lacks; `slots`; empty: none that anybody holds."""


def refusing_hosts(
    snapshot: Snapshot, now: float, bucket: Bucket, told: Sequence[PendingReason]
) -> tuple[RefusingHosts, ...]:
    """The hosts by reason, with numbers and holders. `told`: the reasons of a cycle; what only a cycle knows (planned
    starts, hosts beyond MOST_HOSTS) is taken from them. Raises RequirementError.
    """
    found: dict[tuple[AnyText, bool], list[tuple[str, Reason]]] = {}
    for host, reason in host_refusals(snapshot, now, bucket, _looked_at(snapshot, bucket)):
        if reason is not None:
            found.setdefault((reason.text, reason.candidate), []).append((host, reason))
    future = Future(snapshot, now)
    counts = {(each.text, each.candidate): each for each in told if each.hosts}
    groups = [
        RefusingHosts(
            text=text,
            candidate=candidate,
            count=max(len(hosts), counts[text, candidate].hosts if (text, candidate) in counts else 0),
            hosts=tuple(_refusing(future, host, reason) for host, reason in hosts[:MOST_SHOWN]),
        )
        for (text, candidate), hosts in found.items()
    ]
    groups += [_of_cycle(each) for key, each in counts.items() if key not in found]
    return tuple(sorted(groups, key=lambda each: (not each.candidate, -each.count)))


def _looked_at(snapshot: Snapshot, bucket: Bucket) -> list[str]:
    own = snapshot.queues[bucket.queue].hosts
    usable = [name for name in sorted(snapshot.hosts) if own is None or name in own]
    others = [name for name in sorted(snapshot.hosts) if own is not None and name not in own]
    asked = set(bucket.requirement.asked_hosts)
    usable.sort(key=lambda name: name not in asked)
    return (usable + others)[:MOST_HOSTS]


def _of_cycle(reason: PendingReason) -> RefusingHosts:
    hosts = tuple(RefusingHost(host=name, detail=reason.detail) for name in reason.names)
    return RefusingHosts(text=reason.text, count=reason.hosts, candidate=reason.candidate, hosts=hosts)


def _refusing(future: Future, host: str, reason: Reason) -> RefusingHost:
    snapshot, lacks = future.snapshot, _lacking(reason.text)
    ledger = snapshot.ledger.host(host)
    if not lacks:
        return RefusingHost(host=host, detail=reason.detail)
    holders = [
        _holder(snapshot.running.get(key[0]), key[0], part, lacks, future)
        for key, part in ledger.held.items()
        if _holds(part, lacks)
    ]
    holders.sort(key=lambda each: (-each.gpus if _is_gpu(lacks) else -each.slots, -each.amount, each.job_id))
    return RefusingHost(
        host=host,
        detail=reason.detail,
        holders=tuple(holders[:MOST_HOLDERS]),
        more_holders=max(0, len(holders) - MOST_HOLDERS),
        gpus=tuple(_unoffered(ledger)) if _is_gpu(lacks) else (),
    )


def _lacking(text: AnyText) -> _Lacks:
    if not isinstance(text, CodedText):
        return ""
    if text.code == _RESERVING:
        return str(text.values[0])
    return "slots" if text.code in _SLOTS else ""


def _is_gpu(lacks: _Lacks) -> bool:
    return lacks.startswith(("ngpus", "gpu", "mig"))


def _holds(part: HostAllocation, lacks: _Lacks) -> bool:
    if _is_gpu(lacks):
        return bool(part.gpus)
    return part.slots > 0 or part.exclusive if lacks == "slots" else bool(part.amounts.get(lacks))


def _holder(
    running: Running | None, job_id: int, part: HostAllocation, lacks: _Lacks, future: Future
) -> ResourceHolder:
    """`running`: None for an attempt that no job of the state accounts for."""
    end = ExpectedEnd(None) if running is None else expected_end(running, future)
    return ResourceHolder(
        job_id=job_id,
        user="" if running is None else running.bucket.user,
        state="" if running is None else running.state,
        slots=part.slots,
        gpus=len(part.gpus),
        amount=part.amounts.get(lacks, 0.0),
        ends_at=end.at,
        is_limit=end.is_limit,
        is_ending=end.is_ending,
        gives_gpus=end.gives_gpus,
    )


class ExpectedEnd(NamedTuple):
    """When plans expect a started job to end, UTC seconds; None: nobody knows. The rest: see ResourceHolder."""

    at: float | None
    is_limit: bool = False
    is_ending: bool = False
    gives_gpus: int = 0


def expected_end(running: Running, future: Future) -> ExpectedEnd:
    at = future.end_of_running(running)
    if math.isinf(at) or _grows(running):
        return ExpectedEnd(None)
    is_limit = running.ends_at < math.inf and not running.is_ending
    return ExpectedEnd(at, is_limit, running.is_ending, _gives_back(running))


def _gives_back(running: Running) -> int:
    return max(0, _gpus(running.allocation) - _gpus(running.keeps)) if running.keeps is not None else 0


def _grows(running: Running) -> bool:
    """Whether its attempt ends only in order to go on at once with more GPUs."""
    return running.keeps is not None and _gpus(running.keeps) > _gpus(running.allocation)


def _gpus(holding: Allocation) -> int:
    return sum(len(part.gpus) for part in holding.parts)


def _unoffered(ledger: HostLedger) -> Iterator[UnofferedGpu]:
    for gpu in sorted(ledger.gpus.values(), key=lambda each: each.index):
        if not isinstance(gpu, GpuPart) and (gpu.problem or gpu.foreign_pids):
            yield UnofferedGpu(index=gpu.index, uuid=gpu.uuid, problem=gpu.problem, foreign_pids=gpu.foreign_pids)
