"""Run on a host of a lab: holds connections to `gsched web` open, and says how many it was left with.

    web_attacker.py silent HOST PORT NUMBER ADDRESS...     connections that say nothing, from these addresses in turn
    web_attacker.py slow HOST PORT NUMBER PATH COOKIE      requests whose answers are never read

It prints a line of JSON when all have been tried, and ends with its standard input.
"""

from __future__ import annotations

import contextlib
import json
import resource
import select
import socket
import ssl
import sys
import time
from collections.abc import Sequence


def silent(place: tuple[str, int], number: int, addresses: Sequence[str]) -> None:
    opened, attempts = list[socket.socket](), 0
    for attempts in range(1, number + 1):
        try:
            source = (addresses[attempts % len(addresses)], 0)
            opened.append(socket.create_connection(place, timeout=20, source_address=source))
        except OSError:
            break
    time.sleep(1.0)  # who is hung up on is so at once
    polled = select.poll()
    for each in opened:
        polled.register(each, select.POLLIN)
    gone = {descriptor for descriptor, _ in polled.poll(0)}
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    say(tried=attempts, held=len(opened) - len(gone), limit=limit)


def slow(place: tuple[str, int], number: int, path: str, cookie: str) -> None:
    context = ssl.create_default_context(cafile="/etc/gsched-web-ca.crt")
    opened = []
    for _ in range(number):
        plain = socket.create_connection(place, timeout=20)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        each = context.wrap_socket(plain, server_hostname=place[0])
        host = f"{place[0]}:{place[1]}"
        each.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: __Host-gsched={cookie}\r\n\r\n".encode())
        opened.append(each)
    beginnings = [each.recv(15) for each in opened]
    say(tried=number, held=sum(each.startswith(b"HTTP/1.1 200") for each in beginnings))


def say(**facts: int) -> None:
    print(json.dumps(facts), flush=True)
    sys.stdin.read()


def main() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    what, host, port, number, *rest = sys.argv[1:]
    if what == "silent":
        silent((host, int(port)), int(number), rest)
    else:
        slow((host, int(port)), int(number), *rest)


main()
