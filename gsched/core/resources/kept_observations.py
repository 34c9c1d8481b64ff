"""What is kept of an observation for looks at the past: what a host's tables and the scheduler see of it.

An observation is no state: it is never replayed into a running master, whose agents tell it anew. What moves all the
time is told apart from what decides where jobs may run.
"""

from __future__ import annotations

import msgspec

from gsched.core.resources.observed_hosts import Observation
from gsched.model.gpus.gpu_idle import AttemptIdleness
from gsched.model.hosts.host import GpuReport, LoadReport
from gsched.model.hosts.topology import Topology
from gsched.model.jobs.job import Usage


class KeptUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt uses on the host."""

    job_id: int
    attempt: int
    usage: Usage | None = None
    """Without process ids, steps, and what it makes of its GPUs: that is in the records of the job itself."""
    idle: AttemptIdleness | None = None


class KeptObservation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One host as its agent saw it."""

    connected: bool = False
    lost: bool = False
    version: str = ""
    only_user: str = ""
    load: LoadReport | None = None
    gpus: GpuReport | None = None
    topology: Topology | None = None
    uses: tuple[KeptUse, ...] = ()


def kept_observation(seen: Observation) -> KeptObservation:
    """What is kept of it."""
    keys = sorted({*seen.usage, *seen.idle})
    return KeptObservation(
        connected=seen.connected,
        lost=seen.lost,
        version=seen.version,
        only_user=seen.only_user,
        load=seen.load,
        gpus=seen.gpus,
        topology=seen.topology,
        uses=tuple(
            KeptUse(job_id=key[0], attempt=key[1], usage=_lean(seen.usage.get(key)), idle=seen.idle.get(key))
            for key in keys
        ),
    )


def _lean(usage: Usage | None) -> Usage | None:
    return None if usage is None else msgspec.structs.replace(usage, pids=(), pgid=None, steps=b"", gpus=())


def restore(kept: KeptObservation, seen: Observation, at: float) -> None:
    """Make the observation what it was. `at`: the time that is looked at, UTC seconds."""
    seen.meet(1, at)
    if not kept.connected:
        seen.part()
    if kept.lost:
        seen.give_up()
    seen.version, seen.only_user = kept.version, kept.only_user
    seen.load, seen.gpus, seen.topology = kept.load, kept.gpus, kept.topology
    seen.usage = {(use.job_id, use.attempt): use.usage for use in kept.uses if use.usage is not None}
    seen.idle = {(use.job_id, use.attempt): use.idle for use in kept.uses if use.idle is not None}
