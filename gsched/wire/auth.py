"""Who is asking. A caller is proven by the transport, never believed from a message.

In a private cluster the master listens on a unix socket in a folder that only its owner may enter, so whoever reaches
it is the owner.
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from typing import Any, Protocol

from gsched.base.errors import PermissionDenied


@dataclass(frozen=True, slots=True)
class Caller:
    """A proven user. `is_admin` may control everybody's jobs, hosts and queues."""

    user: str
    is_admin: bool
    host: str = ""
    """Which host vouches for the user; empty: the master's own."""
    way: str = "owner"
    """How the user was proven: owner (on the master's own socket), door or munge."""


class Authenticator(Protocol):
    """Knows who sent a call."""

    def caller(self, context: Any) -> Caller:
        """Who sent the call of this gRPC context. Raises PermissionDenied when that is not proven."""


def user_name(uid: int) -> str:
    """Login name of a uid, or the number if the system knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class OwnerOnly:
    """Everybody who gets through is the owner of the cluster."""

    def __init__(self) -> None:
        self._owner = Caller(user_name(os.getuid()), is_admin=True)

    def caller(self, context: Any) -> Caller:
        """Who sent the call of this gRPC context."""
        return self._owner


def check_private(folder: str) -> None:
    """Raise PermissionDenied unless `folder` is ours alone (mode 0700): the socket in it is the only fence."""
    status = os.stat(folder)
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionDenied(f"{folder} must belong to {user_name(os.getuid())} with mode 0700: sockets lie in it")
