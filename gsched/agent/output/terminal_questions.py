"""Questions to the terminal of an interactive job, whose supervisor answers them (gsched.run.supervisor.terminal).

One connection for each; nothing is kept here, so an agent that restarts has nothing to remember.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from gsched.agent.output.output_tail import Read
from gsched.agent.output.removed_outputs import OutputRemoved
from gsched.run.supervisor.terminal import HEADER_LIMIT, SOCKET
from gsched.wire.v1 import agent_pb2

AWAY_S = 0.2
PATIENCE_S = 5.0
"""Beyond what a question itself waits for."""


async def ask(attempt_folder: Path, data: bytes = b"", **question: int) -> tuple[dict[str, int], bytes] | None:
    """The answer's figures and bytes; None when nobody answers: the job is over, or its supervisor is gone."""
    patience_s = PATIENCE_S + question.get("wait_ms", 0) / 1000
    try:
        async with asyncio.timeout(patience_s):
            return await _ask(attempt_folder, {**question, "size": len(data)}, data)
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None


async def _ask(attempt_folder: Path, question: dict[str, int], data: bytes) -> tuple[dict[str, int], bytes]:
    # By way of a descriptor: a socket's path must be short, a spool's may be long.
    folder = os.open(attempt_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{SOCKET}", limit=HEADER_LIMIT)
    finally:
        os.close(folder)
    try:
        writer.write(json.dumps(question).encode() + b"\n" + data)
        await writer.drain()
        header = json.loads(await reader.readline())
        return header, await reader.read(-1)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):  # asyncio complains of an error of the connection that nobody has asked for
            await writer.wait_closed()


Send = Callable[[agent_pb2.OutputReply], Awaitable[bool]]


async def show(
    request: agent_pb2.ReadOutput, attempt_folder: Path, is_over: Callable[[], bool], read: Read, send: Send
) -> None:
    """Send what the job has printed from the offsets on, when there is some; what stands before them is dropped.

    Of an attempt that is over `read` has what nobody had taken when it ended.
    """
    answer = await ask(
        attempt_folder,
        stdout=request.stdout_from,
        stderr=request.stderr_from,
        most=request.most,
        wait_ms=int(request.wait_s * 1000),
    )
    if answer is None:
        over = is_over()
        if not over:
            await asyncio.sleep(AWAY_S)  # its supervisor is gone: soon that is known
        else:
            try:
                if not await _send_left(request, read, send):
                    return
            except OutputRemoved as error:
                await send(agent_pb2.OutputReply(request=request.request, last=True, error=error.text, gone=True))
                return
        await send(agent_pb2.OutputReply(request=request.request, last=True, over=over))
        return
    header, data = answer
    for stream in ("stdout", "stderr"):
        piece, data = data[: header.get(stream, 0)], data[header.get(stream, 0) :]
        if piece and not await send(agent_pb2.OutputReply(request=request.request, stream=stream, data=piece)):
            return
    await send(agent_pb2.OutputReply(request=request.request, last=True, over=bool(header.get("over"))))


async def _send_left(request: agent_pb2.ReadOutput, read: Read, send: Send) -> bool:
    """False when nobody listens any more."""
    for stream, start in (("stdout", request.stdout_from), ("stderr", request.stderr_from)):
        piece = await read((request.job_id, request.attempt), stream, start, request.most)
        if piece and not await send(agent_pb2.OutputReply(request=request.request, stream=stream, data=piece)):
            return False
    return True


async def take_typed(request: agent_pb2.TypeInput, attempt_folder: Path, send: Send) -> None:
    """Hand it to the job, and tell how much it has taken by now."""
    figures = {"from": request.first, "end": int(request.end), "rows": request.rows, "columns": request.columns}
    answer = await ask(attempt_folder, request.data, **figures)
    reply = agent_pb2.OutputReply(request=request.request, last=True)
    if answer is None:
        reply.error = "the job reads nothing any more"
    else:
        reply.taken = answer[0].get("taken", 0)
    await send(reply)


async def hang_up(attempt_folder: Path) -> None:
    """Nobody is there any more: what the job prints from now on, and what nobody has taken yet, is dropped."""
    await ask(attempt_folder, hangup=1)


def has_terminal(attempt_folder: Path) -> bool:
    """Whether the attempt is one of an interactive job that runs."""
    return (attempt_folder / SOCKET).exists()
