"""Who listens on a port of this host: sockets of TCP as /proc/net shows them, and the processes that have them open.

Source: proc(5), /proc/net/tcp and /proc/PID/fd. Reads only; what it says is true of the moment of the look.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

LISTENS = "0A"
"""State of a socket that listens (include/net/tcp_states.h)."""


def listeners(port: int) -> frozenset[int]:
    """Inodes of the sockets to one of which a connection to 127.0.0.1:`port` goes; empty: nobody listens there."""
    own = frozenset(_inodes(Path("/proc/net/tcp"), port, _OF_IPV4))
    # A socket of IPv6 takes connections of IPv4 where none of these does.
    return own or frozenset(_inodes(Path("/proc/net/tcp6"), port, _OF_BOTH))


def are_open_in(inodes: frozenset[int], pids: Iterable[int]) -> bool:
    """Whether each of these sockets is open in one of these processes, as far as this process may look."""
    missing = {f"socket:[{inode}]" for inode in inodes}
    for pid in pids:
        missing -= _links(pid)
        if not missing:
            return True
    return not missing


def _links(pid: int) -> set[str]:
    folder = f"/proc/{pid}/fd"
    found = set()
    with contextlib.suppress(OSError):  # it is gone, or not for us to look at
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"{folder}/{name}"))
    return found


def _inodes(table: Path, port: int, addresses: Container[str]) -> Iterator[int]:
    try:
        lines = table.read_text("ascii").splitlines()[1:]
    except OSError:  # a kernel without IPv6
        return
    wanted = f":{port:04X}"
    for line in lines:
        fields = line.split()
        if fields[3] == LISTENS and fields[1].endswith(wanted) and fields[1][: -len(wanted)] in addresses:
            yield int(fields[9])


def _hex(family: int, address: str) -> str:
    """As /proc/net writes it: words of four bytes, each in this machine's order."""
    data = socket.inet_pton(family, address)
    words = [data[start : start + 4] for start in range(0, len(data), 4)]
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


_OF_IPV4 = {_hex(socket.AF_INET, address) for address in ("127.0.0.1", "0.0.0.0")}
_OF_BOTH = {_hex(socket.AF_INET6, address) for address in ("::", "::ffff:127.0.0.1", "::ffff:0.0.0.0")}
