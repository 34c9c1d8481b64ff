"""Finds a text in what a job has printed. It reads MOST_SEARCHED bytes at the end, for LONGEST_S at most, two at a time
for all: a search costs the master and an agent as much as a download of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gsched.base.errors import BadRequest, Conflict
from gsched.web.job_pages.job_output import end_pieces
from gsched.web.pages.page_context import WebContext, packed
from gsched.web.shown.job_address import read_job
from gsched.web.shown.json_texts import json_bytes
from gsched.wire.calls.output_end import STREAMS

MOST_SEARCHED = 32 << 20
MOST_FOUND = 200
LONGEST_S = 10.0
LONGEST_TEXT = 200
LONGEST_LINE = 10_000
"""Bytes of a line that are looked at."""
SHOWN = 300
"""Characters of a line, around what was found."""
MOST_AT_ONCE = 2
_at_once = threading.BoundedSemaphore(MOST_AT_ONCE)


class FoundLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line with the text in it; `start`: the byte of the output that it begins at."""

    start: int
    line: int | None
    """Its number from 1 on; None: what is before it was not read."""
    text: str


class OutputFindings(msgspec.Struct, frozen=True, kw_only=True):
    """What was found; `is_cut`: there may be more. `skipped`: bytes at the beginning that were not read."""

    found: tuple[FoundLine, ...]
    is_cut: bool
    skipped: int


def output_search(context: WebContext, request: Request) -> Response:
    """Answer `/jobs/JOB/output/STREAM/search?text=...`, capitals and small letters alike. Raises GschedError."""
    job_id, stream = read_job(request.path_params["job"]), request.path_params["stream"]
    text = request.query_params.get("text", "")
    if stream not in STREAMS:
        raise BadRequest("a stream is stdout or stderr")
    if not text or len(text) > LONGEST_TEXT:
        raise BadRequest(f"a text of 1 to {LONGEST_TEXT} characters is searched")
    if not _at_once.acquire(blocking=False):
        raise Conflict("so many searches are under way; try again soon")
    try:
        deadline = time.monotonic() + LONGEST_S
        start, pieces = end_pieces(context, job_id, stream, MOST_SEARCHED)
        found = search(pieces, text, start, deadline)
    finally:
        _at_once.release()
    return packed(request, json_bytes(found), "application/json")


def search(pieces: Iterable[bytes], text: str, start: int, deadline: float = float("inf")) -> OutputFindings:
    """Look through pieces that begin at byte `start`, until the deadline (monotonic seconds)."""
    wanted = text.casefold()
    found: list[FoundLine] = []
    number = 0 if start == 0 else None
    for at, raw in _lines(pieces, start):
        number = None if number is None else number + 1
        line = raw[:LONGEST_LINE].decode("utf-8", "replace")
        place = line.casefold().find(wanted)
        if place < 0:
            if time.monotonic() > deadline:
                return OutputFindings(found=tuple(found), is_cut=True, skipped=start)
            continue
        if len(found) >= MOST_FOUND:
            return OutputFindings(found=tuple(found), is_cut=True, skipped=start)
        begin = max(0, place - SHOWN // 2)
        found.append(FoundLine(start=at, line=number, text=line[begin : begin + SHOWN]))
    return OutputFindings(found=tuple(found), is_cut=False, skipped=start)


def _lines(pieces: Iterable[bytes], start: int) -> Iterator[tuple[int, bytes]]:
    """Where each line begins, and the line; of one that is very long no more than is looked at is kept."""
    rest, at, dropped = b"", start, 0
    for piece in pieces:
        *whole, last = (rest + piece).split(b"\n")
        for line in whole:
            yield at, line
            at += len(line) + dropped + 1
            dropped = 0
        if len(last) > LONGEST_LINE:
            dropped += len(last) - LONGEST_LINE
            last = last[:LONGEST_LINE]
        rest = last
    if rest:
        yield at, rest
