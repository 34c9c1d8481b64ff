"""What a job has printed: its end at first, then what is added, asked for from a byte on; and all of it as a file.

A job may have printed gigabytes: its end is found without reading what is before it, and no more is held than is shown.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gsched.base.errors import BadRequest, Conflict, GschedError, PermissionDenied
from gsched.base.patterns import counted_from, expand_job_id
from gsched.model.jobs.job import FINISHED, JobSpec
from gsched.model.views.view import JobView
from gsched.web.job_pages.job_questions import find_job
from gsched.web.pages.page_context import WebContext, packed
from gsched.web.shown.job_address import job_word, read_job
from gsched.web.shown.json_texts import json_bytes
from gsched.wire.calls.client import Client
from gsched.wire.calls.output_end import STREAMS, byte_behind, output_pieces

TAIL = 64 * 1024
"""Bytes of the end that are shown at first, and that one answer has at most."""


class OutputPiece(NamedTuple):
    """Bytes of a stream; `start`: where they begin in it."""

    start: int
    data: bytes


def job_output(context: WebContext, request: Request) -> Response:
    """Answer `/jobs/JOB/output?stream=stdout&from=BYTE`; without `from` the end of it; with `file=1` that of the file
    that a finished job has left. What is not for this user is told as `denied`: the page asks no more. Raises
    GschedError.
    """
    job_id, stream = read_job(request.path_params["job"]), request.query_params.get("stream", "stdout")
    if stream not in STREAMS:
        raise BadRequest("a stream is stdout or stderr")
    start = request.query_params.get("from", "")
    is_asked_on = start.isascii() and start.isdigit() and len(start) < 16
    why, is_over = "", False
    if request.query_params.get("file") == "1":
        piece = _own_file(context, job_id, stream, int(start) if is_asked_on else None) or OutputPiece(0, b"")
        return _answer(context, request, job_id, _told(piece, "", is_tail=not is_asked_on, is_over=False))
    try:
        if is_asked_on:
            piece = read_piece(context.client, job_id, stream, int(start))
        else:
            piece = tail_of(context.client, job_id, stream)
    except Conflict as error:
        is_over = is_asked_on
        own = None if is_asked_on else _own_file(context, job_id, stream)
        piece, why = own or OutputPiece(0, b""), "" if own is not None else error.text
    except PermissionDenied as error:
        denied = _told(OutputPiece(0, b""), error.text, is_tail=False, is_over=False)
        return _answer(context, request, job_id, {**denied, "denied": True})
    return _answer(context, request, job_id, _told(piece, why, is_tail=not is_asked_on, is_over=is_over))


def _answer(context: WebContext, request: Request, job_id: int, told: dict[str, object]) -> Response:
    """With the number and the start of the attempt, as far as the mirror knows of it by now: who reads on begins anew
    with each.
    """
    row = context.mirror.row(job_id)
    attempt, started = (row.attempt, row.started_at) if row is not None else (0, None)
    return packed(request, json_bytes({**told, "attempt": attempt, "started": started}), "application/json")


def _told(piece: OutputPiece, why: str, *, is_tail: bool, is_over: bool) -> dict[str, object]:
    """The piece as text, whole characters alone; of an end that begins in the middle whole lines."""
    start, data = piece
    if is_tail and start and (line := data.find(b"\n") + 1):
        start, data = start + line, data[line:]
    decoder = codecs.getincrementaldecoder("utf8")("replace")
    text = decoder.decode(data)
    pending = len(decoder.getstate()[0])
    return {"start": start, "next": start + len(data) - pending, "text": text, "why": why, "over": is_over}


def read_piece(client: Client, job_id: int, stream: str, start: int, until: float | None = None) -> OutputPiece:
    """TAIL bytes from there on, or what there is of them. Raises GschedError; Unavailable at `until`."""
    data = bytearray()
    for piece in output_pieces(client, job_id, stream, start, until):
        data += piece
        if len(data) >= TAIL:
            break
    return OutputPiece(start, bytes(data))


def tail_of(client: Client, job_id: int, stream: str) -> OutputPiece:
    """The end of the stream, found by looking at ever farther places. Raises GschedError."""
    piece = read_piece(client, job_id, stream, 0)
    if len(piece.data) < TAIL:
        return piece
    beyond = byte_behind(client, job_id, stream, len(piece.data), TAIL)
    return read_piece(client, job_id, stream, max(0, beyond - TAIL))


def _own_file(context: WebContext, job_id: int, stream: str, start: int | None = None) -> OutputPiece | None:
    """TAIL bytes of the file that a finished job of this user has left, from `start` on; None: its end. This process
    may read what its user may.
    """
    descriptor = _opened(context, job_id, stream)
    if descriptor is None:
        return None
    with open(descriptor, "rb") as file:
        begin = max(0, os.fstat(file.fileno()).st_size - TAIL) if start is None else start
        return OutputPiece(begin, os.pread(file.fileno(), TAIL, begin))


def _opened(context: WebContext, job_id: int, stream: str) -> int | None:
    """Descriptor of the file that a finished job of this user has left; None where there is none to be read."""
    view = find_job(context, job_id)
    if view is None or view.state not in FINISHED or view.spec.user != context.me:
        return None
    path = output_path(view, stream)
    if not path:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def output_path(view: JobView, stream: str) -> str:
    """Where the job's -o or -e file is; empty when it has none."""
    spec = view.spec
    named = spec.output_file if stream == "stdout" else spec.error_file
    if not named:
        return ""
    attempt = spec.attempt_in_names(view.attempt)
    name = expand_job_id(named, view.job_id, host=_first_host(view), attempt=attempt)
    return os.path.join(_folder(spec, view.job_id), name)


def _first_host(view: JobView) -> str:
    return view.allocation.first_host if view.allocation is not None else ""


def _folder(spec: JobSpec, job_id: int) -> str:
    return counted_from(spec.run_dir, expand_job_id(spec.output_dir, job_id)) if spec.output_dir else spec.run_dir


def download(context: WebContext, request: Request) -> Response:
    """Answer `/jobs/JOB/output/STREAM`: all of it, as a file, read while it is sent. Raises GschedError."""
    job_id, stream = read_job(request.path_params["job"]), request.path_params["stream"]
    if stream not in STREAMS:
        raise BadRequest("a stream is stdout or stderr")
    pieces = output_pieces(context.client, job_id, stream, 0)
    try:
        first = next(pieces, b"")  # what is refused is refused before anything is sent
    except Conflict:
        descriptor = _opened(context, job_id, stream)
        if descriptor is None:
            raise
        pieces, first = _read_all(descriptor), b""
    headers = {"content-disposition": f'attachment; filename="{job_word(job_id)}.{stream}.txt"'}
    return StreamingResponse(_all(first, pieces), headers=headers, media_type="text/plain; charset=utf-8")


def _all(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    try:
        yield from rest
    except GschedError:
        return  # what has come has come


def end_pieces(context: WebContext, job_id: int, stream: str, most: int, until: float) -> tuple[int, Iterator[bytes]]:
    """The last bytes of the stream, about `most` of them: where they begin, and they themselves. Raises GschedError;
    Unavailable where the master has not told them at `until`, seconds of the monotonic clock.
    """
    client = context.client
    try:
        end = len(read_piece(client, job_id, stream, 0, until).data)
        if end >= TAIL:
            end = byte_behind(client, job_id, stream, end, TAIL, until)
        start = max(0, end - most)
        return start, output_pieces(client, job_id, stream, start, until)
    except Conflict:
        descriptor = _opened(context, job_id, stream)
        if descriptor is None:
            raise
    start = max(0, os.fstat(descriptor).st_size - most)
    os.lseek(descriptor, start, os.SEEK_SET)
    return start, _read_all(descriptor)


def _read_all(descriptor: int) -> Iterator[bytes]:
    with open(descriptor, "rb") as file:
        while data := file.read(TAIL):
            yield data
