"""The page of one job: what was asked, where it stands and why, what happened, its GPUs, and what may be done to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gsched.base.coded_text import has_code, sentence
from gsched.base.ids import array_of, index_of
from gsched.cli.render.jobs import job_lines
from gsched.cli.render.jobs.job_devices import GpuOfJob, gpus_of
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.cli.render.text.reason_texts import ALL_HOSTS, planned_text, reason_texts
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.jobs.job import FINISHED, PENDING, STARTED, JobState, Usage
from gsched.model.jobs.job_plot import shown_plots
from gsched.model.jobs.reason import NEVER
from gsched.model.views.view import JobView
from gsched.web.job_pages.job_questions import find_job, history_of, judged, texts_of
from gsched.web.pages.page_context import WebContext, address, show
from gsched.web.shown.dependency_graph import HEIGHT, WIDTH, graph_of
from gsched.web.shown.gpu_tiles import GpuTile, tiles_of
from gsched.web.shown.job_address import read_job
from gsched.web.shown.job_story import story_of
from gsched.web.shown.json_texts import json_text

LONGEST_SCRIPT = 200_000
"""Characters of a script that are shown."""
SAID = ("kill", "stop", "resume", "requeue", "top", "bottom", "submitted")
"""What a page says after a deed."""


class JobGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that the job holds or held, what it has made of it, and how the GPU is now (None: nobody knows)."""

    held: GpuOfJob
    use: GpuUsage | None = None
    now: GpuTile | None = None


def job_page(context: WebContext, request: Request) -> Response:
    """Answer `/jobs/JOB`. Raises GschedError."""
    job_id = read_job(request.path_params["job"])
    view = find_job(context, job_id)
    if view is None:
        return RedirectResponse(address("/jobs", {"array": str(job_id), "whose": "all", "states": "any"}), 303)
    now = time.time()
    said = request.query_params.get("said", "")
    values = {
        "job": ShownJob(view=view, now=now),
        "view": view,
        "spec": view.spec,
        "array_id": array_of(job_id) if index_of(job_id) else 0,
        "is_pending": view.state in PENDING,
        "is_finished": view.state in FINISHED,
        "reasons": reason_texts(view.pending_reasons, ALL_HOSTS, with_hosts=True, zone=context.zone),
        **_plan(view),
        "gpus": list(_gpus(context, view)),
        "usage": _usage(view),
        "ran_s": _ran_s(view, now),
        "ending": _ending(view),
        "judged": judged(context, view, now) if view.state not in PENDING else None,
        **_told(context, view),
        "graph": graph_of(job_id, view.spec.conditions, context.mirror.rows),
        "node_size": (WIDTH, HEIGHT),
        "deeds": deeds_for(view),
        "plots": json_text([[plot.name, plot.pattern] for plot in view.spec.plots]),
        "shown_plots": shown_plots(view.spec.plots),
        "said": said if said in SAID else "",
        "sentence": sentence,
    }
    return show(context, request, "job.html", values)


def deeds_for(view: JobView) -> list[str]:
    """What may be done to a job in its state; whether this user may is the master's to say."""
    match view.state:
        case JobState.DONE | JobState.EXIT:
            return ["requeue"]
        case JobState.PEND:
            return ["top", "bottom", "stop", "kill"]
        case JobState.PSUSP | JobState.USUSP | JobState.SSUSP:
            return ["resume", "kill"]
        case _:
            return ["stop", "requeue", "kill"]


def _plan(view: JobView) -> dict[str, Any]:
    planned = view.planned
    if planned is None:
        return {"planned_at": None, "planned": "", "is_never": False}
    text = planned_text(planned, unknown=planned.at is None)
    return {"planned_at": planned.at, "planned": text, "is_never": has_code(planned.text, NEVER)}


def _gpus(context: WebContext, view: JobView) -> Iterator[JobGpu]:
    hosts = context.mirror.hosts
    known = {each.gpu.uuid: each.gpu for host in hosts for each in host.gpus}
    tiles = {tile.uuid: tile for host in hosts for tile in tiles_of(host, context.me, lambda job_id: "")}
    uses = {(use.host, use.uuid): use for use in _usage(view).gpus}
    for held in gpus_of(view, known):
        is_held = view.state in STARTED
        yield JobGpu(held=held, use=uses.get((held.host, held.uuid)), now=tiles.get(held.uuid) if is_held else None)


def _usage(view: JobView) -> Usage:
    if view.state in FINISHED and view.result is not None:
        return view.result.usage
    return view.usage or Usage()


def _ran_s(view: JobView, now: float) -> float | None:
    if view.dispatched_at is None:
        return None
    if view.state in FINISHED and view.result is not None and view.result.run_s:
        return view.result.run_s
    return (view.finished_at or now) - view.dispatched_at


def _ending(view: JobView) -> list[str]:
    """How it ended, and why."""
    job = ShownJob(view=view)
    if view.state not in FINISHED:
        return []
    cpu_s = job.usage.cpu_s if job.ran else None
    lines = [job_lines.ending(view.state == JobState.DONE, job.exit_code, job.signal, cpu_s)]
    if view.state != JobState.DONE and job.term_reason:
        lines.append(job_lines.completion(job.term_reason))
    if why := job_lines.why_it_failed(job.failure):
        lines.append(why)
    if view.result is not None and view.result.problem:
        lines.append(sentence(view.result.problem))
    return lines


def _told(context: WebContext, view: JobView) -> dict[str, Any]:
    """Its time line, and the script of a job of one's own."""
    stored = history_of(context, view.job_id)
    texts = texts_of(context, view.job_id) if view.spec.user == context.me else None
    script = texts.script.decode("utf8", "replace")[:LONGEST_SCRIPT] if texts is not None else ""
    environment = texts.environment.decode("utf8", "replace") if texts is not None else ""
    return {
        "story": story_of(stored, context.zone) if stored is not None else [],
        "script": script,
        "environment": sorted(filter(None, environment.split("\0"))),
    }
