"""lsb.params: what holds for the whole cluster.

Source: lsb.params(5); GPU_SHARED_JOBS and GPU_UNREQUESTED are gsched's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.config.findings import Findings, Place, show
from gsched.config.sections import Entry, Section, read_entries
from gsched.config.unsupported import REFUSED_PARAMS, WITHOUT_EFFECT_PARAMS
from gsched.config.values import Settings, integer, number, plain_text, queue_name, seconds
from gsched.model.config import GpuUnrequested, Params, Timing

DEFAULT_SLEEP_S = 10.0
"""MBD_SLEEP_TIME where it is not set: the unit of JOB_ACCEPT_INTERVAL."""


@dataclass(slots=True)
class ParamsFile:
    """What lsb.params says, with where the default queue is named (None: it is gsched's default)."""

    params: Params
    usage_sample_s: float
    default_queue_at: Place | None = None


def read_params(sections: Sequence[Section], findings: Findings) -> ParamsFile:
    """lsb.params' sections as one value; defaults for what is not set. Every problem goes to `findings`."""
    entries: list[Entry] = []
    for section in sections:
        if section.name.casefold() == "parameters":
            entries += read_entries(section, findings)
        else:
            findings.error(section.at, f"unknown section {section.name} in lsb.params; it holds Parameters")
    settings = Settings(entries, findings, where="lsb.params")
    default = Params()
    params = Params(
        default_queue=settings.take("DEFAULT_QUEUE", _default_queue, default.default_queue),
        default_project=settings.take("DEFAULT_PROJECT", _project, default.default_project),
        job_accept_interval_s=_accept_interval(settings, findings),
        clean_period_s=settings.take("CLEAN_PERIOD", integer(0, 10**9), default.clean_period_s),
        max_job_id=settings.take("MAX_JOBID", integer(1, 2147483646), default.max_job_id),
        job_terminate_interval_s=settings.take("JOB_TERMINATE_INTERVAL", seconds(0), default.job_terminate_interval_s),
        gpu_shared_jobs=settings.take("GPU_SHARED_JOBS", integer(1, 1024), default.gpu_shared_jobs),
        gpu_unrequested=settings.take("GPU_UNREQUESTED", _unrequested, default.gpu_unrequested),
    )
    sample_s = settings.take("SBD_SLEEP_TIME", seconds(0.05), Timing().usage_sample_s)
    settings.finish(REFUSED_PARAMS, WITHOUT_EFFECT_PARAMS)
    return ParamsFile(params, sample_s, settings.place("DEFAULT_QUEUE"))


def _accept_interval(settings: Settings, findings: Findings) -> float:
    sleep_s = settings.take("MBD_SLEEP_TIME", seconds(0.05), DEFAULT_SLEEP_S)
    times = settings.take("JOB_ACCEPT_INTERVAL", _not_negative, 0.0)
    at = settings.place("MBD_SLEEP_TIME")
    if at is not None and times == 0:
        findings.note(
            at,
            "MBD_SLEEP_TIME has no effect: it is the unit of JOB_ACCEPT_INTERVAL, which is 0",
        )
    return sleep_s * times


def _default_queue(text: str) -> str:
    if len(text.split()) > 1:
        raise BadRequest(f"'{show(text)}': a list of default queues is not supported yet; name one")
    return queue_name(text)


def _project(text: str) -> str:
    if len(text.split()) != 1 or len(text) > 511:
        raise BadRequest(f"'{show(text)}' is not one word")
    return plain_text(text)


def _not_negative(text: str) -> float:
    value = number(text)
    if not 0 <= value <= 1e6:
        raise BadRequest(f"'{show(text)}' is not a number from 0 to 1000000")
    return value


def _unrequested(text: str) -> GpuUnrequested:
    if text.replace(" ", "").casefold() == "auto=1":
        return GpuUnrequested.AUTO
    if text.casefold() in ("hide", "allow"):
        return GpuUnrequested(text.casefold())
    raise BadRequest(f"'{show(text)}' is none of hide, allow and auto=1")
