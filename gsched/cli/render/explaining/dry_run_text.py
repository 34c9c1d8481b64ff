"""`gsub --dry-run`: what would become of a job, as lines for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import tzinfo

from gsched.base.coded_text import sentence
from gsched.cli.render.explaining.explanation_json import explanation_record, text_record
from gsched.cli.render.explaining.explanation_text import (
    hosts_lines,
    provided_lines,
    start_text,
    suggestion_lines,
    usual_lines,
)
from gsched.cli.render.text.reason_texts import ALL_HOSTS, reason_texts
from gsched.cli.render.text.text_columns import printable
from gsched.model.views.explanation import JobDryRun, LimitTake, PlacedPart

_FIRST = {
    "hold": "It would be held (-H); the rest is as if it were resumed now.",
    "time": "It would wait for its begin time (-b); the rest is as if that had come.",
    "condition": "It would wait for its condition (-w); the rest is as if that held.",
}


def dry_run_lines(found: JobDryRun, zone: tzinfo, is_array: bool = False) -> Iterator[str]:
    """Without newlines. Times in the zone. `is_array`: what was asked about is an array's first element."""
    told = found.explanation
    yield f"Queue <{printable(told.queue)}>"
    if is_array:
        yield "Of an array its first element:"
    if told.waits_for in _FIRST:
        yield _FIRST[told.waits_for]
    if told.starts_now:
        yield "Would start now:"
        yield from (f"  {_part(part)}" for part in found.parts)
    else:
        reasons = reason_texts(told.reasons, ALL_HOSTS, zone=zone)
        yield f"Would wait because: {reasons[0] if reasons else 'other jobs come before it'}"
        yield f"Expected start: {start_text(told, zone, is_planned=True)}"
        yield from provided_lines(told)
        yield from usual_lines(told, zone)
        yield from suggestion_lines(told.suggestions)
        yield from hosts_lines(told.hosts, zone)
    if found.limits:
        yield "Takes of limits:"
        yield from (f"  {_limit(each)}" for each in found.limits)
    yield "Job not submitted."


def _part(part: PlacedPart) -> str:
    slots = f"{part.slots} slot{'' if part.slots == 1 else 's'}"
    if not part.gpus:
        return f"{printable(part.host)}: {slots}"
    return f"{printable(part.host)}: {slots}, GPU{'' if len(part.gpus) == 1 else 's'} {', '.join(map(str, part.gpus))}"


def _limit(take: LimitTake) -> str:
    name = f" (limit {printable(take.limit)})" if take.limit else f" of {take.kind}"
    where = f" on {printable(take.host)}" if take.host else ""
    most = "no limit now" if take.allowed is None else f"{take.allowed:.10g} allowed"
    takes = "unknown without a run limit (-W) and a place" if take.takes is None else f"{take.takes:.10g}"
    return f"{printable(take.resource)}{name}{where}: {takes}, beside {take.used:.10g} in use; {most}"


def dry_run_json(found: JobDryRun) -> str:
    """One object, with a newline behind it. docs/explain.md is its schema."""
    told = explanation_record(found.explanation)
    del told["job"], told["state"], told["measures"], told["measures_cut"]
    record = {
        **told,
        "parts": [{"host": each.host, "slots": each.slots, "gpus": list(each.gpus)} for each in found.parts],
        "limits": [
            {
                "text": text_record(each.text),
                "limit": each.limit or None,
                "kind": each.kind,
                "name": each.name or None,
                "resource": each.resource,
                "host": each.host or None,
                "takes": each.takes,
                "used": each.used,
                "allowed": each.allowed,
            }
            for each in found.limits
        ],
        "warnings": [text_record(each) for each in found.warnings],
    }
    return json.dumps(record, ensure_ascii=False, indent=1) + "\n"


def warning_lines(found: JobDryRun) -> Iterator[str]:
    """What gsub says on standard error."""
    return (f"Warning: {sentence(each)}\n" for each in found.warnings)
