"""`gadmin why-not --json`: two jobs compared, for programs. docs/explain.md is its schema; see `explanation_json`."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gsched.base.ids import show_job
from gsched.cli.render.explaining.explanation_json import planned_record, reason_record, text_record
from gsched.model.views.job_comparison import ComparedJob, JobComparison


def comparison_json(found: JobComparison) -> str:
    """One object, with a newline behind it."""
    return json.dumps(comparison_record(found), ensure_ascii=False, indent=1) + "\n"


def comparison_record(found: JobComparison) -> dict[str, Any]:
    """The object as built-in types."""
    return {
        "at": found.at,
        "rule": found.rule,
        "because": text_record(found.text),
        "job": _job(found.job),
        "other": _job(found.other),
        "order": None
        if not found.first
        else {"first": show_job(found.first), "rule": found.order_rule, "because": text_record(found.order_text)},
        "reasons": [reason_record(each) for each in found.reasons],
        "planned": planned_record(found.planned),
    }


def _job(job: ComparedJob) -> dict[str, Any]:
    share = None
    if job.share is not None:
        share = msgspec.structs.asdict(job.share)
    return {
        **msgspec.structs.asdict(job),
        "job_id": show_job(job.job_id),
        "hosts": list(job.hosts),
        "share": share,
    }
