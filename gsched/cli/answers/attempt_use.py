"""What each attempt of a job made of its GPUs, from the job's stored events: for `ghist -l -gpu -json`.

An event or a curve that cannot be read leaves a hole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from gsched.model import event as events
from gsched.model.gpus.gpu_curve import GpuCurve, unpack
from gsched.model.jobs.job import Usage
from gsched.model.views.view import JobHistory


@dataclass(slots=True)
class AttemptUse:
    """What one attempt used, and what it held."""

    attempt: int
    usage: Usage | None = None
    """None: it has not ended, or nobody knows how it did."""
    devices: int = 0
    """That it held."""
    curves: dict[tuple[str, str], GpuCurve] = field(default_factory=dict)
    """By host and UUID."""


def attempts_of(stored: JobHistory) -> list[AttemptUse]:
    """The attempts of the job that were dispatched, in order."""
    found: dict[int, AttemptUse] = {}
    for event in _events(stored):
        match event:
            case events.JobDispatched():
                _of(found, event.attempt).devices = sum(len(part.gpus) for part in event.allocation.hosts)
            case events.JobGpuCurves():
                _of(found, event.attempt).curves.update(_curves(event))
            case events.JobRequeued(result=result) if result is not None:
                _of(found, event.attempt).usage = result.usage
            case events.JobFinished() if event.attempt:
                _of(found, event.attempt).usage = event.result.usage
            case events.StaleResultRecorded():
                _of(found, event.attempt).usage = event.result.usage
            case events.JobPartEnded():
                one = _of(found, event.attempt)
                if one.usage is not None:
                    one.usage = one.usage.with_late(event.host, event.late_cpu_s, event.usage.gpus)
    return [found[attempt] for attempt in sorted(found)]


def _of(found: dict[int, AttemptUse], attempt: int) -> AttemptUse:
    return found.setdefault(attempt, AttemptUse(attempt))


def _events(stored: JobHistory) -> Iterator[events.AnyEvent]:
    for record in stored.events:
        try:
            yield events.decode_event(record.payload.encode())
        except (msgspec.MsgspecError, ValueError):
            continue


def _curves(event: events.JobGpuCurves) -> dict[tuple[str, str], GpuCurve]:
    try:
        return {(event.host, curve.uuid): curve for curve in unpack(event.data)}
    except ValueError:
        return {}
