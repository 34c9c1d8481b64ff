"""How much of what jobs without -o print a host keeps: for a run, for a user, altogether. It removes nothing."""

from __future__ import annotations

import msgspec

RUN_MIB = 1024
USER_MIB = 10 * 1024
HOST_MIB = 50 * 1024
MIB = 1 << 20
MOST_TOLD = 500
"""Removed outputs that an agent tells of at once."""


class KeptOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Limits in MiB. Each is at least as large as the one above it: what a single run may have always has room."""

    run_mib: int = RUN_MIB
    """GSCHED_KEPT_OUTPUT_MIB: of one run of a job on one host."""
    user_mib: int = USER_MIB
    """GSCHED_KEPT_OUTPUT_USER_MIB: of all finished jobs of a user on a host."""
    host_mib: int = HOST_MIB
    """GSCHED_KEPT_OUTPUT_HOST_MIB: of all finished jobs on a host."""


def shown_size(size: int) -> str:
    """`12 KiB`, `3 MiB`, of so many bytes."""
    return f"{size / MIB:.0f} MiB" if size >= MIB else f"{max(1, size // 1024)} KiB"


class RemovedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a host kept of a finished run and has removed, as there was too much."""

    job_id: int
    attempt: int
    at: float
    """UTC seconds."""
    size: int
    """Bytes that it took."""
    limit_mib: int
    """The limit that was reached."""
    of_user: bool
    """It is that of the job's user; else that of the host."""
