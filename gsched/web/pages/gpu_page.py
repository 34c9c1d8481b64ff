"""The page of one GPU: how it is, who has it, why it takes no jobs, its processes, what it did, and its last jobs."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gsched.base.coded_text import sentence
from gsched.base.errors import GschedError, NotFound
from gsched.base.ids import parse_attempt_name, show_job
from gsched.model.gpus import clock_reasons
from gsched.model.hosts.host import Gpu, GpuProcess
from gsched.model.views.catalogue import AccountFilter, TimeSpan
from gsched.model.views.view import GpuView, HostView, JobView
from gsched.web.job_pages.job_curves import sampled
from gsched.web.pages.page_context import WebContext, packed, show
from gsched.web.shown.gpu_tiles import tiles_of
from gsched.web.shown.json_texts import json_bytes

DAY_S = 24 * 3600.0
MOST_JOBS = 50
"""The last ones that had the GPU."""


class ShownProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process on the GPU; `job_id` 0: it is no job's that is known."""

    process: GpuProcess
    job_id: int = 0
    label: str = ""


def gpu_page(context: WebContext, request: Request) -> Response:
    """Answer `/gpus/UUID`. Raises NotFound."""
    host, view = find_gpu(context, request.path_params["uuid"])
    gpu = view.gpu
    tile = next(each for each in tiles_of(host, context.me, context.mirror.user_of) if each.uuid == gpu.uuid)
    values: dict[str, Any] = {
        "host": host,
        "gpu": gpu,
        "tile": tile,
        "closure": view.closure,
        "problem": sentence(gpu.problem),
        "slow": ", ".join(clock_reasons.names_of(gpu.throttle)) if gpu.throttle else "",
        "processes": [_shown(each) for each in gpu.processes],
        "jobs": _last_jobs(context, host, gpu),
    }
    return show(context, request, "gpu.html", values)


def gpu_curves(context: WebContext, request: Request) -> Response:
    """Answer `/gpus/UUID/curves`: what this process has seen of it, as for a job. Raises NotFound."""
    host, view = find_gpu(context, request.path_params["uuid"])
    found = sampled(context, f"{host.name}:{view.gpu.index}", view.gpu.uuid, 0.0)
    return packed(request, json_bytes({"gpus": [found] if found is not None else []}), "application/json")


def find_gpu(context: WebContext, uuid: str) -> tuple[HostView, GpuView]:
    """The GPU and its host. Raises NotFound."""
    for host in context.mirror.hosts:
        for view in host.gpus:
            if view.gpu.uuid == uuid:
                return host, view
    raise NotFound(f"GPU {uuid[:60]} is not found")


def _shown(process: GpuProcess) -> ShownProcess:
    try:
        job_id, _ = parse_attempt_name(process.job)
    except ValueError:
        return ShownProcess(process=process)
    return ShownProcess(process=process, job_id=job_id, label=show_job(job_id))


def _last_jobs(context: WebContext, host: HostView, gpu: Gpu) -> list[JobView]:
    """Jobs that had it and have ended within a day, the last one first."""
    wanted = AccountFilter(hosts=(host.name,), completed=TimeSpan(since=time.time() - DAY_S))
    found: deque[JobView] = deque(maxlen=MOST_JOBS)
    try:
        for account in context.client.catalogue.accounts(wanted, jobs=True):
            if account.job is not None and _had(account.job, gpu.uuid):
                found.append(account.job)
    except GschedError:
        pass  # the master is away: the rest of the page is known
    return sorted(found, key=lambda job: -(job.finished_at or 0.0))


def _had(job: JobView, uuid: str) -> bool:
    parts = job.allocation.hosts if job.allocation is not None else ()
    return any(held.board == uuid for part in parts for held in part.gpus)
