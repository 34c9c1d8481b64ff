"""What a job's GPUs did over time, as numbers for its charts: curves that were recorded, and of a job that runs what
this process has seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gsched.base.errors import NotFound
from gsched.cli.answers.attempt_use import attempts_of
from gsched.model.gpus.gpu_curve import GpuCurve
from gsched.model.jobs.job import STARTED
from gsched.model.views.view import JobView
from gsched.web.job_pages.job_questions import find_job, history_of
from gsched.web.mirror.gpu_samples import QUANTITIES
from gsched.web.pages.page_context import WebContext, packed
from gsched.web.shown.job_address import read_job
from gsched.web.shown.json_texts import json_bytes

MOST_GPUS = 64
"""Of a larger job the first ones are drawn."""


def job_curves(context: WebContext, request: Request) -> Response:
    """Answer `/jobs/JOB/curves`: for each GPU its times (UTC seconds) and a list for each quantity, null where nobody
    has looked. Raises GschedError.
    """
    view = find_job(context, read_job(request.path_params["job"]))
    if view is None:
        raise NotFound("an array has no curves: its elements have")
    found = list(_live(context, view)) if view.state in STARTED else list(_recorded(context, view))
    return packed(request, json_bytes({"gpus": found}), "application/json")


def _recorded(context: WebContext, view: JobView) -> Iterator[dict[str, Any]]:
    """Of its last attempt that has curves."""
    stored = history_of(context, view.job_id, with_curves=True)
    attempts = [each for each in attempts_of(stored) if each.curves] if stored is not None else []
    if not attempts:
        return
    curves = attempts[-1].curves
    for (host, _), curve in sorted(curves.items(), key=lambda each: (each[0][0], each[1].index))[:MOST_GPUS]:
        yield {"name": f"{host}:{curve.index}", **_columns(_means(curve))}


def _means(curve: GpuCurve) -> list[tuple[float, dict[str, float]]]:
    half = curve.step_s / 2
    return [
        (curve.since + point.slot * curve.step_s + half, {name: spread[1] for name, spread in point.values.items()})
        for point in curve.points
    ]


def _live(context: WebContext, view: JobView) -> Iterator[dict[str, Any]]:
    """What GPUs were seen to do since the job has had them."""
    held = [(part.host, gpu) for part in view.allocation.hosts for gpu in part.gpus] if view.allocation else []
    since = view.dispatched_at or view.submitted_at
    for host, gpu in held[:MOST_GPUS]:
        if (found := sampled(context, f"{host}:{gpu.index}", gpu.board, since)) is not None:
            yield found


def sampled(context: WebContext, name: str, uuid: str, since: float) -> dict[str, Any] | None:
    """What a GPU was seen to do since then (UTC seconds); None when it was not looked at."""
    samples = [(sample.at, sample.values) for sample in context.mirror.samples.of(uuid, since)]
    return {"name": name, **_columns(samples)} if samples else None


def _columns(points: list[tuple[float, dict[str, float]]]) -> dict[str, Any]:
    names = [name for name in QUANTITIES if any(name in values for _, values in points)]
    return {
        "times": [round(at) for at, _ in points],
        **{name: [values.get(name) for _, values in points] for name in names},
    }
