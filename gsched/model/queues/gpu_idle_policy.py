"""GPU_IDLE of a queue: from when on its jobs count as idle, what they are told, and what becomes of them then.

    GPU_IDLE = window=30m util<5% memtraffic<1% power<30% grace=10m action=notify|requeue|kill exempt=... ok=yes|no

Texts are read in gsched.config.parameters.gpu_idle; what is measured is in gsched.model.gpus.gpu_idle. Pure.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from gsched.model.gpus.gpu_idle import IdleLimits


class IdleAction(StrEnum):
    """What is done when a job is still idle after the grace."""

    NOTIFY = "notify"
    """Nothing more."""
    REQUEUE = "requeue"
    KILL = "kill"


class ExemptKind(StrEnum):
    """By what a job is exempt."""

    USER = "user"
    PROJECT = "project"
    APPLICATION = "app"
    INTERACTIVE = "interactive"


class GpuIdlePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """GPU_IDLE of a queue: when GPUs of a job count as idle, and what follows. Times in seconds."""

    window_s: float = 1800.0
    """For so long all GPUs of a job must be idle before it is warned."""
    limits: IdleLimits = IdleLimits()
    grace_s: float = 600.0
    action: IdleAction = IdleAction.NOTIFY
    exempt: tuple[tuple[ExemptKind, str], ...] = ()
    """In the order in which they were named; of `interactive` the name is empty."""
    exempt_users: frozenset[str] = frozenset()
    """Whom the names of users and groups stand for."""
    may_ask: bool = False
    """Jobs may say that their GPUs may be idle (--gpu-idle-ok)."""

    @property
    def text(self) -> str:
        """As it could be written, all of it."""
        words = [
            f"window={_time(self.window_s)}",
            f"util<{self.limits.util:g}%",
            f"memtraffic<{self.limits.traffic:g}%",
            f"power<{self.limits.power:g}%",
            f"grace={_time(self.grace_s)}",
            f"action={self.action}",
        ]
        if self.exempt:
            words.append(f"exempt={','.join(f'{kind}:{name}' if name else kind for kind, name in self.exempt)}")
        return " ".join([*words, f"ok={'yes' if self.may_ask else 'no'}"])


def _time(seconds: float) -> str:
    for letter, unit_s in (("h", 3600), ("m", 60)):
        if seconds and not seconds % unit_s:
            return f"{seconds / unit_s:g}{letter}"
    return f"{seconds:g}s"
