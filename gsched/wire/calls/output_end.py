"""Where the output of a job ends, found without reading what is before it: a job may have printed gigabytes.

It must never read more than a piece of the stream at each place that it looks at.
"""

from __future__ import annotations

from collections.abc import Iterator

from gsched.wire.calls.client import Client

STREAMS = ("stdout", "stderr")
_FARTHEST = 1 << 50
"""Behind the end of every stream."""


def output_pieces(client: Client, job_id: int, stream: str, start: int, until: float | None = None) -> Iterator[bytes]:
    """What the job has printed to the stream, from that byte on. Raises GschedError; Unavailable at `until`, seconds of
    the monotonic clock.
    """
    starts = (start, _FARTHEST) if stream == "stdout" else (_FARTHEST, start)
    for chunk in client.output(job_id, stdout_from=starts[0], stderr_from=starts[1], until=until):
        if chunk.stream == stream and chunk.data:
            yield chunk.data


def byte_behind(client: Client, job_id: int, stream: str, known: int, tail: int, until: float | None = None) -> int:
    """A byte behind the end of the stream, by `tail` // 2 at the most; `known`: one that it has. Looks at ever farther
    places. Raises GschedError; Unavailable at `until`.
    """
    beyond = known + 2 * tail
    while _has_some(client, job_id, stream, beyond, until):
        known, beyond = beyond, beyond * 4
    while beyond - known > tail // 2:
        middle = (known + beyond) // 2
        if _has_some(client, job_id, stream, middle, until):
            known = middle
        else:
            beyond = middle
    return beyond


def _has_some(client: Client, job_id: int, stream: str, start: int, until: float | None) -> bool:
    return next(output_pieces(client, job_id, stream, start, until), b"") != b""
