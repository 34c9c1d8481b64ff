"""A reverse proxy for tests, run on a host of a lab: it proves users by Basic and names them to `gsched web`.

    small_proxy.py PORT CERTIFICATE KEY UPSTREAM_HOST UPSTREAM_PORT UPSTREAM_CERTIFICATE HEADER

A password is `secret of USER`. One request for each connection, so that no second one passes with a name of its own.
What a browser has sent under the header's name, in any spelling, does not reach the other side.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import ssl
import sys
from collections.abc import Iterable

Headers = list[tuple[str, str]]
REFUSED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
MOST_WAITING_S = 60.0


def user_of(headers: Headers) -> str:
    """Whose password it is; empty: nobody's."""
    for name, value in headers:
        if name.lower() == "authorization" and value.startswith("Basic "):
            with contextlib.suppress(binascii.Error, UnicodeDecodeError):
                user, _, password = base64.b64decode(value[6:], validate=True).decode().partition(":")
                return user if password == f"secret of {user}" else ""
    return ""


def passed_on(headers: Headers, user: str, name: str) -> Iterable[tuple[str, str]]:
    is_upgrade = any(each.lower() == "upgrade" for each, _ in headers)
    dropped = {"authorization", name.lower(), *(() if is_upgrade else ("connection",))}
    yield from ((each, value) for each, value in headers if each.lower().replace("_", "-") not in dropped)
    yield name, user
    if not is_upgrade:
        yield "Connection", "close"


async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


class Proxy:
    def __init__(self, host: str, port: int, certificate: str, header: str) -> None:
        self._upstream = host, port
        self._context = ssl.create_default_context(cafile=certificate)
        self._header = header

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), MOST_WAITING_S)
            first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
            headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
            user = user_of(headers)
            if not user:
                writer.write(REFUSED)
                writer.close()
                return
            sent = [first, *(f"{name}: {value}" for name, value in passed_on(headers, user, self._header)), "", ""]
            host, port = self._upstream
            behind, before = await asyncio.open_connection(host, port, ssl=self._context, server_hostname=host)
            before.write("\r\n".join(sent).encode("latin-1"))
            both = [asyncio.ensure_future(pump(reader, before)), asyncio.ensure_future(pump(behind, writer))]
            await both[1]
            both[0].cancel()
            before.close()


async def main() -> None:
    port, certificate, key, host, upstream, its_certificate, header = sys.argv[1:]
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    proxy = Proxy(host, int(upstream), its_certificate, header)
    async with await asyncio.start_server(proxy.serve, "0.0.0.0", int(port), ssl=context) as server:
        print("ready", flush=True)
        await server.serve_forever()


asyncio.run(main())
