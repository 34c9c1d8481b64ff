"""A job's service of the tests' own: it tells what it was sent, and answers what no good service would."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

PORT = int(os.environ["GSCHED_SERVICE_PORT"])
SEEN: list[str] = []
"""Queries that have come."""


async def told(request: Request) -> Response:
    """Everything that has come."""
    headers = [[name.decode(), value.decode("latin-1")] for name, value in request.headers.raw]
    body = len(await request.body())
    SEEN.append(request.scope["query_string"].decode())
    target = [request.scope["raw_path"].decode(), request.scope["query_string"].decode()]
    return JSONResponse({"method": request.method, "target": target, "headers": headers, "body": body})


async def seen(request: Request) -> Response:
    """Which queries have come so far."""
    return JSONResponse(SEEN)


async def cookies(request: Request) -> Response:
    """Cookies of its own, for everybody, and in gsched's name."""
    answer = PlainTextResponse("set")
    for line in ("own=1; Path=/", "wide=1; Domain=localhost; Path=/", "gsched_x=1", "GSCHED_y=1; Path=/"):
        answer.raw_headers.append((b"set-cookie", line.encode()))
    answer.raw_headers.append((b"strict-transport-security", b"max-age=1000"))
    return answer


async def redirect(request: Request) -> Response:
    """To an address that it believes to be its own, or wherever it is told."""
    return RedirectResponse(request.query_params.get("to", f"http://localhost:{PORT}/after?x=1"))


async def huge(request: Request) -> Response:
    """More headers than anybody needs."""
    return PlainTextResponse("huge", headers={f"x-{number}": "y" * 8000 for number in range(100)})


async def endless(request: Request) -> Response:
    """A body without an end."""

    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"z" * 65536
            await asyncio.sleep(0)

    return StreamingResponse(pieces())


async def echo(socket: WebSocket) -> None:
    """What it is told, in the first subprotocol that was asked for; `bye` ends it."""
    await socket.accept(next(iter(socket.scope["subprotocols"]), None))
    while (message := await socket.receive())["type"] == "websocket.receive":
        if message.get("text") == "bye":
            await socket.close(4001, "as you wish")
            return
        if message.get("text") is not None:
            await socket.send_text(message["text"])
        else:
            await socket.send_bytes(message["bytes"])


METHODS = ["GET", "POST", "PUT", "DELETE"]
APPLICATION = Starlette(
    routes=[
        Route("/seen", seen),
        Route("/cookies", cookies),
        Route("/redirect", redirect),
        Route("/huge", huge),
        Route("/endless", endless),
        WebSocketRoute("/echo", echo),
        Route("/{path:path}", told, methods=METHODS),
    ]
)

if __name__ == "__main__":
    uvicorn.run(APPLICATION, host="127.0.0.1", port=PORT, log_level="critical", ws="websockets-sansio")
