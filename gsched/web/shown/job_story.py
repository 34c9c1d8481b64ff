"""What happened to a job, in order: its stored events in the words of ghist."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

import msgspec

from gsched.base.errors import GschedError
from gsched.cli.answers.history_view import history_record
from gsched.cli.render.jobs import job_lines
from gsched.model.views.view import JobHistory

MOST_LINES = 500
"""The last ones of a job that has been through more."""


class StoryLine(msgspec.Struct, frozen=True):
    """One thing that happened, at a time in UTC seconds."""

    at: float
    text: str


def story_of(stored: JobHistory, zone: tzinfo) -> list[StoryLine]:
    """All of it; empty where nothing says what was submitted."""
    try:
        return list(_lines(stored, zone))[-MOST_LINES:]
    except GschedError:
        return []


def _lines(stored: JobHistory, zone: tzinfo) -> Iterator[StoryLine]:
    record = history_record(stored)
    job = record.job
    yield StoryLine(job.view.submitted_at, job_lines.submission(job, with_queue=True, zone=zone))
    for event in record.events:
        for text in event.lines():
            yield StoryLine(event.at, text)
