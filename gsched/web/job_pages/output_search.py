"""Finds a text in what a job has printed. It reads MOST_SEARCHED bytes at the end, for LONGEST_S at most, two at a time
for all: a search costs the master and an agent as much as a download of it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gsched.base.errors import BadRequest, Conflict, Unavailable
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
_ENDS = re.compile(rb"([\n\r])")
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
    """What was found; `is_cut`: there may be more, for not all was looked at. `skipped`: bytes at the beginning that
    were not read.
    """

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
    deadline = time.monotonic() + LONGEST_S
    try:
        start, pieces = end_pieces(context, job_id, stream, MOST_SEARCHED, deadline)
        found = search(pieces, text, start, deadline)
    except Unavailable:
        if time.monotonic() < deadline:
            raise
        found = OutputFindings(found=(), is_cut=True, skipped=0)
    finally:
        _at_once.release()
    return packed(request, json_bytes(found), "application/json")


def search(pieces: Iterable[bytes], text: str, start: int, deadline: float = float("inf")) -> OutputFindings:
    """Look through pieces that begin at byte `start`, until the deadline (monotonic seconds). Raises what `pieces`
    does, but not Unavailable behind the deadline.
    """
    wanted = text.casefold()
    found: list[FoundLine] = []
    is_cut = False
    for part in _parts(_in_time(pieces, deadline), start):
        if part is None or len(found) >= MOST_FOUND:
            is_cut = True
            break
        is_cut = is_cut or part.is_cut
        line = part.data.decode("utf-8", "replace")
        place = line.casefold().find(wanted)
        if place >= 0:
            begin = max(0, place - SHOWN // 2)
            number = part.line if start == 0 else None
            found.append(FoundLine(start=part.start, line=number, text=line[begin : begin + SHOWN]))
    return OutputFindings(found=tuple(found), is_cut=is_cut, skipped=start)


def _in_time(pieces: Iterable[bytes], deadline: float) -> Iterator[bytes | None]:
    """The pieces; at last None where the time is up before their end."""
    try:
        for piece in pieces:
            yield piece
            if time.monotonic() > deadline:
                break
        else:
            return
    except Unavailable:
        if time.monotonic() < deadline:
            raise
    yield None


class _Part(NamedTuple):
    """What is looked at of a line, or of one state of a line that is written over and over (progress, behind `\\r`)."""

    start: int
    line: int
    """Of those that end with a line feed; from 1 on."""
    data: bytes
    is_cut: bool
    """There was more of it."""


def _parts(pieces: Iterable[bytes | None], start: int) -> Iterator[_Part | None]:
    """The parts, and None where the pieces have one; of a part that is very long no more than is looked at is kept."""
    rest, at, number, dropped = b"", start, 1, 0
    for piece in pieces:
        if piece is None:
            yield None
            return
        *whole, last = _ENDS.split(rest + piece)
        for data, end in zip(whole[::2], whole[1::2], strict=True):
            yield _Part(at, number, data[:LONGEST_LINE], dropped > 0 or len(data) > LONGEST_LINE)
            at += len(data) + dropped + 1
            number += end == b"\n"
            dropped = 0
        rest = last[:LONGEST_LINE]
        dropped += len(last) - len(rest)
    if rest:
        yield _Part(at, number, rest, dropped > 0)
