"""The two sockets at which sessions of ssh are asked about: one for root, one for the sessions themselves.

`gsched-pam` asks at the first, in the middle of a login: who else connects there is told nothing, whatever the mode of
the file says. The process that is moved is the one that started `gsched-pam`, by the kernel's word, never one that a
request names, and only as long as `gsched-pam` waits for the answer. At the second a process asks which job its session
is in; the kernel says whose process it is.

A request is a line of JSON, and so is the answer. Must never wait for a caller: it has a short time and few bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import pwd
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gsched.agent.logins.login_askers import Asker, Opener, asker_of, opener_of
from gsched.agent.logins.login_rules import LoginAnswer, LoginVerdict
from gsched.agent.logins.login_sessions import HostLogins
from gsched.agent.tasks.launch_socket import listen
from gsched.wire.identity.socket_peer import peer_of
from gsched.wire.stream_end import end_stream

log = logging.getLogger(__name__)

LOGIN_SOCKET, SESSION_SOCKET = "login.sock", "session.sock"
"""Names in the agent's folder of sockets; gsched.app.pam_exec has them too, and a test compares them."""
MOST_BYTES = 4096
REQUEST_S = 5.0
MOST_CONNECTIONS = 64
"""At a time, on each of the sockets."""
MOST_OF_USER = 8
"""Of these at the socket for sessions: one user's do not keep others out."""

Handle = Callable[[Asker, dict[str, Any]], Awaitable[dict[str, object]]]


class LoginServer:
    """Serves the sockets in `folder`, once they are open."""

    def __init__(self, folder: str, logins: HostLogins) -> None:
        self._folder = Path(folder)
        self._logins = logins
        self._servers: list[asyncio.Server] = []
        self._open = {LOGIN_SOCKET: 0, SESSION_SOCKET: 0}
        self._of_users: Counter[int] = Counter()

    async def open(self) -> None:
        """Listen; another agent that serves this machine's logins keeps them. Never raises."""
        if await asyncio.to_thread(_is_served, self._folder / LOGIN_SOCKET):
            log.info("another agent of this machine answers gsched-pam")
            return
        for name, handle in ((LOGIN_SOCKET, self._login), (SESSION_SOCKET, self._session)):
            try:
                listening = listen(self._folder / name, others=name == SESSION_SOCKET)
            except OSError as error:
                log.warning("gsched-pam gets no answer: %s: %s", self._folder / name, error.strerror or error)
                return
            self._servers.append(await asyncio.start_unix_server(self._accepting(name, handle), sock=listening))

    def close(self) -> None:
        """Listen no longer. Sessions stay where they are."""
        for server in self._servers:
            server.close()
        if self._servers:
            for name in self._open:
                with contextlib.suppress(OSError):
                    (self._folder / name).unlink()

    def _accepting(
        self, name: str, handle: Handle
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open[name] += 1
            try:
                if self._open[name] <= MOST_CONNECTIONS:
                    connection = writer.get_extra_info("socket")
                    with asker_of(connection, peer_of(connection)) as asker:
                        await self._answer(name, reader, writer, asker, handle)
            except (OSError, TimeoutError, ValueError) as problem:
                log.debug("%s: %s", name, problem)
            except Exception:
                log.exception("a question at %s failed", name)
            finally:
                self._open[name] -= 1
                await end_stream(writer, REQUEST_S)

        return accept

    async def _answer(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asker: Asker, handle: Handle
    ) -> None:
        """One question, unless its user has many open already. Raises OSError, TimeoutError, ValueError."""
        if name == SESSION_SOCKET and self._of_users[asker.uid] >= MOST_OF_USER:
            line = f"more than {MOST_OF_USER} sessions of yours ask for their jobs at once; log in again"
            writer.write(json.dumps({"environment": {}, "line": line}).encode() + b"\n")
            return
        self._of_users[asker.uid] += 1
        try:
            await _serve(reader, writer, asker, handle)
        finally:
            self._of_users[asker.uid] -= 1
            self._of_users += Counter()  # drops those that have none

    async def _login(self, asker: Asker, request: dict[str, Any]) -> dict[str, object]:
        if asker.uid != 0:
            return _told(LoginVerdict(LoginAnswer.REFUSED, line="only root asks for logins"))
        user, wanted = str(request.get("user", "")), str(request.get("job", ""))
        try:
            account = await asyncio.to_thread(pwd.getpwnam, user)
        except (KeyError, ValueError):
            return _told(LoginVerdict(LoginAnswer.REFUSED, line="this host does not know the user"))
        opener: Opener | str | None = opener_of(asker) if request.get("type") == "open_session" else None
        if isinstance(opener, str):
            log.warning("ssh: %s is refused: %s", user, opener)
            return _told(LoginVerdict(LoginAnswer.REFUSED, line=opener))
        verdict = await self._logins.admit(user, account.pw_uid, wanted, opener)
        log.info("ssh: %s of %s: %s %s", request.get("type"), user, verdict.answer, verdict.line or verdict.key or "")
        return _told(verdict)

    async def _session(self, asker: Asker, request: dict[str, Any]) -> dict[str, object]:
        environment, line = await self._logins.describe(asker, str(request.get("job", "")))
        return {"environment": environment, "line": line}


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asker: Asker, handle: Handle) -> None:
    """One question. Raises OSError, TimeoutError, ValueError."""
    async with asyncio.timeout(REQUEST_S):
        line = await reader.readline()
    if not line.endswith(b"\n") or len(line) > MOST_BYTES:
        raise ValueError("no line")
    request = json.loads(line)
    if not isinstance(request, dict):
        raise ValueError("no object")
    writer.write(json.dumps(await handle(asker, request)).encode() + b"\n")
    async with asyncio.timeout(REQUEST_S):
        await writer.drain()


def _told(verdict: LoginVerdict) -> dict[str, object]:
    return {"answer": str(verdict.answer), "line": verdict.line}


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(1.0)
        try:
            trial.connect(str(path))
        except OSError:
            return False
        return True
