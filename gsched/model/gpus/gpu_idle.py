"""GPUs that a job holds and does not use: the kinds of idleness, and what an agent tells of each GPU.

Unknown is not idle: where a driver cannot tell, nobody is convicted. Nothing is decided here about a job; what a queue
wants is in gsched.model.queues.gpu_idle_policy. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from gsched.base.coded_text import AnyText


class IdleKind(StrEnum):
    """How a GPU is idle. A value never changes once events are stored."""

    NO_PROCESS = "no_process"
    """No process of the job is on it."""
    HELD = "held"
    """Its memory is held, and it has not worked yet."""
    STOPPED = "stopped"
    """It has worked, and has been idle since."""
    FAKED = "faked"
    """It shows use without memory traffic and power: a program that only keeps it busy, or one that hangs in NCCL."""


class IdleLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Below which figures a GPU counts as idle, in percent."""

    util: float = 5.0
    """Share of the time in which it computed."""
    traffic: float = 1.0
    """Share of the time in which its memory was read or written."""
    power: float = 30.0
    """Of its power limit: one that shows use below that, and no traffic, does no work."""


class GpuIdleness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One GPU of an attempt. What is unknown is None."""

    host: str = ""
    index: int = 0
    uuid: str = ""
    kind: str = ""
    """An IdleKind; empty: it works, or nobody knows."""
    idle_s: float = 0.0
    """Seconds in which it was seen idle since it worked last: without those in which nobody looked, or in which the job
    was suspended."""
    since: float | None = None
    """When it was first seen so, UTC seconds."""
    is_known: bool = False
    """Whether the last look told enough to say anything."""
    util_max: float | None = None
    """The most that was seen while it was idle; of `faked` the least."""
    traffic_max: float | None = None
    power_max_w: float | None = None
    mem_mib: float | None = None
    """Of the job, as seen last."""


class AttemptIdleness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What an agent tells of the GPUs of an attempt on its host."""

    limits: IdleLimits = IdleLimits()
    """By which it was judged."""
    warned: int = 0
    """Number of the last warning that was carried out there."""
    gpus: tuple[GpuIdleness, ...] = ()


class JobIdleness(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All GPUs of a job together: it is idle for as long as all of them are."""

    kind: str
    idle_s: float
    since: float | None


_LEAST_TO_MOST = (IdleKind.FAKED, IdleKind.STOPPED, IdleKind.HELD, IdleKind.NO_PROCESS)
"""Of a job whose GPUs are idle in several ways the first one counts: it says most of what the job has done."""


def of_job(gpus: Sequence[GpuIdleness], devices: int) -> JobIdleness | None:
    """Idleness of a job that holds so many devices; None where one of them is unknown. `kind` is empty, and `idle_s` 0,
    as long as one of them works.
    """
    if not devices or len(gpus) < devices or not all(gpu.is_known for gpu in gpus):
        return None
    if not all(gpu.kind for gpu in gpus):
        return JobIdleness(kind="", idle_s=0.0, since=None)
    kinds = {gpu.kind for gpu in gpus}
    last = max((gpu.since for gpu in gpus if gpu.since is not None), default=None)
    kind = next((kind for kind in _LEAST_TO_MOST if kind in kinds), "")
    return JobIdleness(kind=kind, idle_s=min(gpu.idle_s for gpu in gpus), since=last)


class IdleWarning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a job was told because its GPUs are idle; it holds until they work, or the job is exempt."""

    number: int
    """Counts those of the job."""
    at: float
    """UTC seconds."""
    idle_s: float
    """Seconds of idleness then."""
    kind: str
    action: str
    """What follows (gpu_idle_policy.IdleAction), and how long after."""
    grace_s: float
    text: AnyText
    acted: str = ""
    """The action that has followed, or that could not; empty: none yet."""
    acted_text: AnyText = ""


GPU_IDLE = "TERM_GPU_IDLE"
"""Keyword (ours; LSF has none) for attempts that end because their GPUs are idle."""
IDLE_REQUEUE = "requeue.idle"
"""The code of why a job waits again whose GPUs were idle."""
