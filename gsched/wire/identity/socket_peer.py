"""Who is on the other end of a unix socket, by the kernel's word. Must never ask the other end."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple


class Peer(NamedTuple):
    """Who is on the other end of a connection, by the kernel's word (SO_PEERCRED, unix(7))."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """Ask the kernel who connected, or who listens. Raises OSError."""
    size = struct.calcsize("3i")
    return Peer(*struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)))
