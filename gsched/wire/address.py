"""Where the master and the door of a cluster listen: two small files in the configuration folder name them.

A unix socket's path is at most 107 bytes long, so sockets may lie in a shorter folder than the configuration.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote

from gsched.base.envdir import read_setting
from gsched.base.errors import PermissionDenied, Unavailable

MASTER_FILE = ".master"
MASTER_SOCKET = "master.sock"
DOOR_FILE = ".door"
DEFAULT_DIR = "~/.gsched"
DEFAULT_RUN_DIR = "/run/gsched"
MAX_SOCKET_PATH = 107


def write_address(folder: str, name: str, address: str) -> None:
    """Publish an address (atomically, so that no reader sees half of it)."""
    path = Path(folder) / name
    temporary = path.with_name(f"{name}.{os.getpid()}")
    temporary.write_text(address + "\n", encoding="utf8")
    temporary.replace(path)


def read_address(folder: str, name: str = MASTER_FILE) -> str:
    """The address published there; for the master of a shared cluster that of its own socket, which only its user and
    root may reach.

    Raises Unavailable with the way out if there is none, PermissionDenied.
    """
    if name == MASTER_FILE and is_shared(folder):
        return _own_socket(folder)
    try:
        return (Path(folder) / name).read_text(encoding="utf8").strip()
    except PermissionError:
        raise PermissionDenied(f"{folder} is not yours to use: permission denied") from None
    except OSError:
        raise _unknown(folder) from None


def is_shared(folder: str) -> bool:
    """Whether the configuration is that of a shared cluster. Raises BadRequest when lsf.conf cannot be read."""
    return bool(read_setting(folder, "LSB_MBD_PORT"))


def address_of(peer: str) -> str:
    """A peer as gRPC names it, without its port and without the kind: `10.0.0.7` of `ipv4:10.0.0.7:45678`, `::1` of
    `ipv6:%5B::1%5D:45678`; empty for one on a unix socket.
    """
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


def _own_socket(folder: str) -> str:
    path = os.path.join(read_setting(folder, "GSCHED_RUNDIR") or DEFAULT_RUN_DIR, "master", MASTER_SOCKET)
    if not os.access(path, os.W_OK):
        raise Unavailable(f"{path}: no master of the cluster of {folder} can be reached here by this user")
    return f"unix:{quote(os.fsencode(path))}"


def _unknown(folder: str) -> Unavailable:
    return Unavailable(
        f"no cluster is known in {folder}: start one with `gsched up`, or set GSCHED_ENVDIR to its configuration folder"
    )
