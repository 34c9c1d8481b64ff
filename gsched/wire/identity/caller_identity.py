"""Who is asking. A caller is proven by the transport, never believed from a message.

Each way to the master has an authenticator of its own, and a server of its own that knows no other:

- its unix socket, in a folder that only its owner may enter: whoever reaches it is the owner;
- the ports of a shared cluster (`gsched.wire.identity.shared_callers`).
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from typing import Any, Protocol

from gsched.base.errors import PermissionDenied

AGENT_SERVICE = "/gsched.wire.v1.AgentService/"
"""Where agents' calls go."""


@dataclass(frozen=True, slots=True)
class ProvenCaller:
    """A proven user. `is_admin` may control everybody's jobs, hosts and queues."""

    user: str
    is_admin: bool
    host: str = ""
    """Which host vouches for the user; empty: the master's own."""
    way: str = "owner"
    """How the user was proven: owner (on the master's own socket), door or munge; agent: the host speaks, for itself,
    and `user` is empty."""
    program: str = ""
    """Which program asks, by the word of the user's own process; for the audit log alone."""


class Authenticator(Protocol):
    """Finds out who sent a call, once for each: a proof may be good for one use only."""

    async def prove(self, context: Any, path: str, body: bytes) -> ProvenCaller:
        """Who sent the call of this gRPC context; `path` is its method, `body` the request as it came, empty for a
        stream of requests. Raises PermissionDenied when that is not proven.
        """

    async def still(self, context: Any, caller: ProvenCaller) -> ProvenCaller:
        """The caller as he would be let in now, in the middle of a call that goes on; without its proof, which may be
        good for one use only. Raises PermissionDenied when he would not be.
        """


class Proven(Protocol):
    """Knows who was found to have sent the call that is being answered."""

    def caller(self, context: Any) -> ProvenCaller:
        """Who sent the call of this gRPC context. Raises PermissionDenied for one that nobody has let in."""

    async def again(self, context: Any) -> None:
        """Look once more in the middle of an agent's session. Raises PermissionDenied when it is proven no longer."""


def user_name(uid: int) -> str:
    """Login name of a uid, or the number if the system knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def uid_of_user(name: str) -> int | None:
    """Number of the user on this host; None where there is no such user."""
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):  # ValueError: a name with a NUL byte
        return None


class OwnerOnly:
    """Everybody who gets through is the owner of the cluster."""

    def __init__(self, *, agents: bool) -> None:
        self._owner = ProvenCaller(user_name(os.getuid()), is_admin=True)
        self._agents = agents

    async def prove(self, context: Any, path: str, body: bytes) -> ProvenCaller:
        """The owner, whoever it is; with `agents` also as the agent of any host."""
        if path.startswith(AGENT_SERVICE) and not self._agents:
            raise PermissionDenied("an agent of a shared cluster proves its host on the master's port")
        return self._owner

    async def still(self, context: Any, caller: ProvenCaller) -> ProvenCaller:
        """Always."""
        return caller


def check_private(folder: str) -> None:
    """Raise PermissionDenied unless `folder` is ours alone (mode 0700): the socket in it is the only fence."""
    status = os.stat(folder)
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionDenied(f"{folder} must belong to {user_name(os.getuid())} with mode 0700: sockets lie in it")
