"""Run on a host of a lab: asks `gsched web` what each line of standard input says, and prints what came back.

A line is JSON: method (SOCKET: a text on a websocket), host, port (or socket), path, headers (a list of pairs), body.
So is an answer: status, headers, text. The certificate is checked against the file that is named first.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import sys
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
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


def on_socket(asked: dict[str, Any], context: ssl.SSLContext) -> dict[str, Any]:
    raw = socket.create_connection((asked["host"], asked["port"]), 60)
    try:
        with connect(
            asked["path"],
            sock=raw,
            ssl=context,
            server_hostname=asked["host"],
            origin=Origin(asked["origin"]),
            additional_headers=asked["headers"],
        ) as websocket:
            websocket.send(asked["body"])
            return {"status": 101, "headers": [], "text": websocket.recv(60)}
    except InvalidStatus as error:
        return {"status": error.response.status_code, "headers": [], "text": ""}
    except ConnectionClosed as error:
        return {"status": 0, "headers": [], "text": str(error)}


def main() -> None:
    context = ssl.create_default_context(cafile=sys.argv[1])
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            told = (on_socket if asked["method"] == "SOCKET" else answer)(asked, context)
        except OSError as error:
            told = {"status": 0, "headers": [], "text": str(error)}
        print(json.dumps(told), flush=True)


main()
