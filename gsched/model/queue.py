"""Queues as configured in lsb.queues."""

from __future__ import annotations

import msgspec


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """One queue. A larger `priority` is served first; None stands for "no limit" or "all"."""

    name: str
    priority: int = 1
    description: str = ""
    nice: int = 0
    hosts: tuple[str, ...] | None = None
    users: tuple[str, ...] | None = None
    job_limit: int | None = None
    """QJOB_LIMIT: slots the queue's jobs may hold together."""
    user_limit: int | None = None
    """UJOB_LIMIT: slots of one user in the queue."""
    host_limit: int | None = None
    """HJOB_LIMIT: slots of the queue on one host."""
    run_limit_s: int | None = None
    default_run_limit_s: int | None = None
    res_req: str = ""
    source: str = ""
