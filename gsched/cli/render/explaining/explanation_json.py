"""`gadmin explain --json`: an explanation for programs. docs/explain.md is its schema.

Times are UTC seconds, null is unknown. A text is an object: its code and values, which stay, and its words, which may
change.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gsched.base.coded_text import AnyText, CodedText, sentence
from gsched.base.ids import show_job
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.views.explanation import (
    AdminMeasure,
    AwaitedEnd,
    JobExplanation,
    MovedJob,
    RefusingHost,
    RefusingHosts,
    ResourceHolder,
    StartSuggestion,
)

_MINUTE_S = 60.0


def explanation_json(found: JobExplanation) -> str:
    """One object, with a newline behind it."""
    return json.dumps(explanation_record(found), ensure_ascii=False, indent=1) + "\n"


def explanation_record(found: JobExplanation) -> dict[str, Any]:
    """The object as built-in types."""
    return {
        "job": show_job(found.job_id),
        "user": found.user,
        "queue": found.queue,
        "state": found.state,
        "at": found.at,
        "reasons": [reason_record(each) for each in found.reasons],
        "waits_for": found.waits_for or None,
        "waits_until": found.waits_until,
        "start": {
            "now": found.starts_now,
            **planned_record(found.planned),
            "reserved": found.is_reserved,
            "at_the_earliest": found.is_alone,
            "higher_queues": list(found.higher_queues),
            "awaits": [_awaited(each) for each in found.awaits],
            "p50": found.p50_at,
            "p90": found.p90_at,
            "such_jobs": found.such_jobs,
        },
        "suggestions": [suggestion_record(each) for each in found.suggestions],
        "measures": [measure_record(each) for each in found.measures],
        "measures_cut": found.measures_cut,
        "hosts": [_group(each) for each in found.hosts],
    }


def reason_record(reason: PendingReason) -> dict[str, Any]:
    """A pending reason."""
    return {
        "reason": text_record(reason.text),
        "numbers": text_record(reason.detail),
        "hosts": reason.hosts,
        "usable": reason.candidate,
        "names": list(reason.names),
    }


def planned_record(planned: PlannedStart | None) -> dict[str, Any]:
    """When a start is planned, where, and why at no known time."""
    return {
        "at": None if planned is None else planned.at,
        "hosts": [] if planned is None else list(planned.hosts),
        "why": None if planned is None else text_record(planned.text),
    }


def measure_record(found: AdminMeasure) -> dict[str, Any]:
    """What an administrator could do."""
    return {
        "changes": [
            {name: value or None for name, value in msgspec.structs.asdict(each).items()} for each in found.changes
        ],
        "commands": list(found.commands),
        "hosts": list(found.hosts),
        "lost_gpu_minutes": sum(each.lost_gpu_s for each in found.jobs) / _MINUTE_S,
        "moved": [_moved(each) for each in found.jobs],
    }


def _moved(job: MovedJob) -> dict[str, Any]:
    return {
        "job_id": show_job(job.job_id),
        "user": job.user,
        "gpus": job.gpus,
        "lost_gpu_minutes": job.lost_gpu_s / _MINUTE_S,
        "lost_minutes": job.lost_s / _MINUTE_S,
        "starts_again_on": list(job.hosts),
    }


def suggestion_record(found: StartSuggestion) -> dict[str, Any]:
    """What would start the job now."""
    return {
        "changes": [{"what": each.what, "value": each.value or None} for each in found.changes],
        "options": found.options,
        "command": found.command or None,
        "hosts": list(found.hosts),
    }


def text_record(text: AnyText) -> dict[str, Any] | None:
    """Code, values and words of a text; None where there is none."""
    if not text:
        return None
    if not isinstance(text, CodedText):
        return {"code": None, "values": [], "text": text}
    return {"code": text.code, "values": [_value(each) for each in text.values], "text": sentence(text)}


def _value(value: object) -> Any:
    return text_record(value) if isinstance(value, CodedText) else value


def _awaited(end: AwaitedEnd) -> dict[str, Any]:
    return {**msgspec.structs.asdict(end), "job_id": show_job(end.job_id)}


def _group(group: RefusingHosts) -> dict[str, Any]:
    return {
        "reason": text_record(group.text),
        "count": group.count,
        "usable": group.candidate,
        "hosts": [_host(each) for each in group.hosts],
    }


def _host(host: RefusingHost) -> dict[str, Any]:
    return {
        "host": host.host,
        "numbers": text_record(host.detail),
        "holders": [_holder(each) for each in host.holders],
        "more_holders": host.more_holders,
        "gpus": [
            {"index": gpu.index, "uuid": gpu.uuid, "problem": text_record(gpu.problem), "pids": list(gpu.foreign_pids)}
            for gpu in host.gpus
        ],
    }


def _holder(holder: ResourceHolder) -> dict[str, Any]:
    return {**msgspec.structs.asdict(holder), "job_id": show_job(holder.job_id)}
