"""Where the master and the door of a cluster listen: two small files in the configuration folder name them.

A unix socket's path is at most 107 bytes long, so sockets may lie in a shorter folder than the configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gsched.base.errors import Unavailable

MASTER_FILE = ".master"
DOOR_FILE = ".door"
DEFAULT_DIR = "~/.gsched"
SITE_CONF_DIR = "/etc/gsched"
MAX_SOCKET_PATH = 107


def conf_dir(environment: Mapping[str, str]) -> str:
    """The configuration folder: GSCHED_ENVDIR, else LSF_ENVDIR, else ~/.gsched/conf if it exists, else /etc/gsched."""
    for name in ("GSCHED_ENVDIR", "LSF_ENVDIR"):
        if environment.get(name):
            return environment[name]
    home = environment.get("HOME") or os.path.expanduser("~")
    private = os.path.join(home, ".gsched", "conf")
    return private if os.path.isdir(private) else SITE_CONF_DIR


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
    except OSError:
        raise Unavailable(
            f"no cluster is known in {folder}: start one with `gsched up`, "
            "or set GSCHED_ENVDIR to its configuration folder"
        ) from None
