"""What is told of the steps of a job (srun): packed by the agent of its first host, unpacked where it is shown.

It travels and is stored with what the attempt has used (Usage.steps), as bytes: a job may have many steps, and next to
nobody asks. Never raises for what cannot be read: those steps are not known then.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

MOST_PACKED_STEPS = 32 << 10
"""Bytes of what is told of the steps of one attempt: the last of them."""
LONGEST_STEP_NAME = 64
LONGEST_NODES = 512


class StepFacts(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One step. Times are UTC seconds. Fields are only added, at the end, with a default."""

    number: int
    """SLURM_STEP_ID."""
    name: str
    """Of the program, or as --job-name has it."""
    tasks: int
    nodes: str
    """The hosts of its tasks, folded; cut where they are very many."""
    node_count: int
    cpus: int
    """That it has of its job."""
    gpus: int
    """That it has of its job for itself."""
    began_at: float
    ended_at: float | None = None
    """None: it runs, or nobody saw its end."""
    code: int = 0
    """The highest exit code of its tasks."""
    signal: int = 0
    """That ended a task of it, where no exit code is higher than 128 + signal."""
    is_cancelled: bool = False
    """Somebody has ended it (scancel JOB.STEP)."""
    max_rss_mib: float | None = None
    """Memory of the largest process of its tasks, of those that run as it was sampled; None: not known."""
    cpu_s: float | None = None
    """Of its tasks, of those that run as it was sampled; None: not known."""


def pack_steps(steps: Sequence[StepFacts], most: int = MOST_PACKED_STEPS) -> bytes:
    """The last steps that there is room for in `most` bytes; empty where there are none."""
    encoder, left, kept = msgspec.msgpack.Encoder(), most - _OF_LIST, list[msgspec.Raw]()
    for step in reversed(steps):
        data = encoder.encode(step)
        left -= len(data)
        if left < 0:
            break
        kept.append(msgspec.Raw(data))
    return encoder.encode(kept[::-1]) if kept else b""


_OF_LIST = 5
"""Bytes that say how many there are, at most."""


def unpack_steps(data: bytes) -> tuple[StepFacts, ...]:
    """The steps by number; none where it cannot be read."""
    if not data or len(data) > MOST_PACKED_STEPS:
        return ()
    try:
        return msgspec.msgpack.decode(data, type=tuple[StepFacts, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ()
