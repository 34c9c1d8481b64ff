"""Which agents have come, with which version, and which were refused.

Lives in the gRPC loop. It remembers, and decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from time import monotonic
from typing import Any

import msgspec

from gsched.base.coded_text import AnyText
from gsched.model.hosts.fleet import AWAY, CONNECTED, REFUSED, DaemonView
from gsched.model.views.view import HostView

MOST_REFUSED = 10_000
"""Names of hosts come from outside; more of them than any cluster has are not kept."""
RIVAL_S = 15.0
"""A machine that is refused its name asks again every few seconds: one that has not asked for so long has given up."""


class AgentRoster:
    """The agents that the master knows, by host name."""

    def __init__(self) -> None:
        self._views: dict[str, DaemonView] = {}
        self._sessions: dict[str, int] = {}
        self._rivals: dict[str, tuple[DaemonView, float]] = {}
        """By the name of a host in session: another machine that wants to be that host, and when it asked last."""
        self._changed = asyncio.Event()

    def came(self, hello: Any, session: int) -> None:
        """An agent has opened a session with this hello."""
        self._sessions[hello.host] = session
        self._rivals.pop(hello.host, None)
        self._note(_view(hello, CONNECTED))

    def refused(self, hello: Any, problem: AnyText) -> None:
        """An agent was sent away. Where another one of the host is in session, that one is what is shown."""
        last = self._views.get(hello.host)
        if hello.host in self._sessions or (last is None and len(self._views) >= MOST_REFUSED):
            return
        is_same = last is not None and last.state == REFUSED and last.problem == problem
        view = _view(hello, REFUSED, problem)
        self._note(msgspec.structs.replace(view, since=last.since) if is_same and last is not None else view)

    def rivalled(self, hello: Any, problem: AnyText) -> None:
        """Another machine was sent away that says it is this host, which is in session."""
        if hello.host not in self._sessions:
            return
        last, _ = self._rivals.get(hello.host, (None, 0.0))
        view = _view(hello, REFUSED, problem)
        if last is not None and last.problem == problem:
            view = msgspec.structs.replace(view, since=last.since)
        self._rivals[hello.host] = (view, monotonic())

    def left(self, host: str) -> None:
        """The host's session is over."""
        self._rivals.pop(host, None)
        if self._sessions.pop(host, None) is not None:
            self._note(msgspec.structs.replace(self._views[host], state=AWAY, pid=0, since=time.time()))

    def view(self, host: str) -> DaemonView:
        """What is known of the host's agent."""
        return self._views.get(host) or DaemonView(kind="agent", host=host)

    def views(self, host: str) -> list[DaemonView]:
        """The same, and behind it another machine that asks to be this host, as long as it does."""
        rival, at = self._rivals.get(host, (None, 0.0))
        if rival is None or monotonic() - at > RIVAL_S:
            return [self.view(host)]
        return [self.view(host), rival]

    def annotated(self, host: HostView) -> HostView:
        """The host, with why its agent, or another machine of its name, is refused among its notes."""
        problems = [each.problem for each in self.views(host.name) if each.problem]
        return msgspec.structs.replace(host, notes=(*host.notes, *problems)) if problems else host

    def session(self, host: str) -> int:
        """The number of the host's session; 0 when there is none."""
        return self._sessions.get(host, 0)

    async def until(self, is_true: Callable[[], bool], limit_s: float) -> bool:
        """Wait for something that changes with who is there; whether it came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not is_true():
                    await self._changed.wait()
        return is_true()

    def _note(self, view: DaemonView) -> None:
        self._views[view.host] = view
        self._changed.set()
        self._changed = asyncio.Event()


def _view(hello: Any, state: str, problem: AnyText = "") -> DaemonView:
    return DaemonView(
        kind="agent",
        host=hello.host,
        state=state,
        version=hello.version,
        protocol=hello.protocol,
        pid=hello.pid,
        since=time.time(),
        problem=problem,
    )
