"""Run on a host of a lab: asks `gsched web` what each line of standard input says, and prints what came back.

A line is JSON: method (SOCKET: a text on a websocket), host, port (or socket), path, headers (a list of pairs), body.
So is an answer: status, headers, text. The certificate is checked against the file that is named first.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
import sys
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin


class UnixConnection(http.client.HTTPConnection):
    """HTTP on a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self._path)


def answer(asked: dict[str, Any], context: ssl.SSLContext) -> dict[str, Any]:
    connection = (
        UnixConnection(asked["socket"])
        if asked.get("socket")
        else http.client.HTTPSConnection(asked["host"], asked["port"], timeout=60, context=context)
    )
    connection.putrequest(asked["method"], asked["path"], skip_host=True, skip_accept_encoding=True)
    for name, value in asked["headers"]:
        connection.putheader(name, value)
    body = asked["body"].encode()
    if body or asked["method"] == "POST":
        connection.putheader("content-length", str(len(body)))
    connection.endheaders(body)
    came = connection.getresponse()
    text = came.read().decode("utf8", "replace")
    connection.close()
    return {"status": came.status, "headers": came.getheaders(), "text": text}


async def on_socket(asked: dict[str, Any], context: ssl.SSLContext) -> dict[str, Any]:
    """In one thread: the library's client with two reads and writes at a time on one connection of TLS, which loses
    what is written while OpenSSL reads what a server sends behind its handshake.
    """
    raw = socket.create_connection((asked["host"], asked["port"]), 60)
    raw.setblocking(False)
    try:
        async with connect(
            asked["path"],
            sock=raw,
            ssl=context,
            server_hostname=asked["host"],
            origin=Origin(asked["origin"]),
            additional_headers=asked["headers"],
            open_timeout=60,
        ) as websocket:
            await websocket.send(asked["body"])
            return {"status": 101, "headers": [], "text": await asyncio.wait_for(websocket.recv(), 60)}
    except InvalidStatus as error:
        return {"status": error.response.status_code, "headers": [], "text": ""}
    except ConnectionClosed as error:
        return {"status": 0, "headers": [], "text": str(error)}


def main() -> None:
    context = ssl.create_default_context(cafile=sys.argv[1])
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            is_socket = asked["method"] == "SOCKET"
            told = asyncio.run(on_socket(asked, context)) if is_socket else answer(asked, context)
        except OSError as error:
            told = {"status": 0, "headers": [], "text": str(error)}
        print(json.dumps(told), flush=True)


main()
