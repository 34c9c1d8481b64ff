"""Where the master and the door of a cluster listen: two small files in the configuration folder name them.

A unix socket's path is at most 107 bytes long, so sockets may lie in a shorter folder than the configuration.
"""

from __future__ import annotations

import os
from pathlib import Path

from gsched.base.errors import PermissionDenied, Unavailable

MASTER_FILE = ".master"
DOOR_FILE = ".door"
DEFAULT_DIR = "~/.gsched"
MAX_SOCKET_PATH = 107


def write_address(folder: str, name: str, address: str) -> None:
    """Publish an address (atomically, so that no reader sees half of it)."""
    path = Path(folder) / name
    temporary = path.with_name(f"{name}.{os.getpid()}")
    temporary.write_text(address + "\n", encoding="utf8")
    temporary.replace(path)


def read_address(folder: str, name: str = MASTER_FILE) -> str:
    """The address published there. Raises Unavailable with the way out if there is none."""
    try:
        return (Path(folder) / name).read_text(encoding="utf8").strip()
    except PermissionError:
        raise PermissionDenied(f"{folder} is not yours to use: permission denied") from None
    except OSError:
        raise Unavailable(
            f"no cluster is known in {folder}: start one with `gsched up`, "
            "or set GSCHED_ENVDIR to its configuration folder"
        ) from None
