"""Which accounts of a machine are people's and which are the system's: UID_MIN of login.defs(5).

It only reads a number. What follows from it is for others to decide.
"""

from __future__ import annotations

import re

from gsched.base.coded_text import AnyText, coded

LOGIN_DEFS = "/etc/login.defs"
DEFAULT_UID_MIN = 1000
"""What useradd(8) takes where nothing is set."""
_UID_MIN = re.compile(r"^\s*UID_MIN\s+([0-9]{1,10})\s*$", re.MULTILINE)


def first_ordinary(path: str = LOGIN_DEFS) -> int:
    """The lowest uid of an ordinary account; those below are the system's."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = _UID_MIN.findall(file.read(1 << 20))
    except OSError:
        return DEFAULT_UID_MIN
    return int(found[-1]) if found else DEFAULT_UID_MIN


def why_system(name: str, uid: int, named: tuple[str, ...], first: int) -> AnyText:
    """Why no job runs as this account; empty when it is an ordinary one, or `named` (GSCHED_SYSTEM_USERS)."""
    if uid >= first or name in named:
        return ""
    return coded("account.of_system", uid, first)
