"""Which configuration folder a command means when nobody says: the one rule, for every program of gsched."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from gsched.base.errors import BadRequest

SITE_CONF_DIR = "/etc/gsched"
MASTER_LISTS = ("LSF_MASTER_LIST", "LSF_MANAGEMENT_LIST")
"""Names of one parameter of lsf.conf, LSF's older and its newer one."""


def conf_dir(environment: Mapping[str, str], uid: int | None = None) -> str:
    """The configuration folder: GSCHED_ENVDIR, else LSF_ENVDIR, else ~/.gsched/conf if it exists, else /etc/gsched.

    `uid`: whose environment it is; without it this process's user's.
    """
    for name in ("GSCHED_ENVDIR", "LSF_ENVDIR"):
        if environment.get(name):
            return environment[name]
    private = os.path.join(home_of(os.getuid() if uid is None else uid, environment), ".gsched", "conf")
    return private if os.path.isdir(private) else SITE_CONF_DIR


def setting(environment: Mapping[str, str], name: str) -> str:
    """A parameter from the environment, else from lsf.conf, else empty: for programs that need one line of it.

    Raises BadRequest when the file cannot be read.
    """
    return environment.get(name) or read_setting(conf_dir(environment), name)


def read_setting(folder: str, name: str) -> str:
    """A parameter of `folder`'s lsf.conf; empty when it is not there. Raises BadRequest when it cannot be read."""
    path = Path(folder) / "lsf.conf"
    try:
        text = path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as problem:
        raise BadRequest(f"{path}: cannot be read: {problem.strerror}") from None
    found = ""
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip() == name:
            found = _unquoted(value.strip())
    return found


def read_masters(folder: str) -> list[str]:
    """The hosts of masters that `folder`'s lsf.conf names, under either name. Raises BadRequest as `read_setting`."""
    return next((hosts for name in MASTER_LISTS if (hosts := read_setting(folder, name).split())), [])


def _unquoted(value: str) -> str:
    """What stands between the quotes, or before a comment."""
    if value[:1] in ('"', "'"):
        return value[1:].partition(value[0])[0]
    return value.partition("#")[0].strip()


def home_of(uid: int, environment: Mapping[str, str]) -> str:
    """HOME of the environment; where that does not say, what the host knows of the user, and / for one it does not."""
    try:
        return environment.get("HOME") or pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"


def in_home(path: str, environment: Mapping[str, str]) -> str:
    """`path` with its `~` replaced: by the home of this process's user, or of the one that stands behind it."""
    if path == "~" or path.startswith("~/"):
        return home_of(os.getuid(), environment) + path[1:]
    return os.path.expanduser(path)
