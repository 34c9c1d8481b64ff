"""Who may have pages on this host: people with an account here, and nobody whose rights are more than a user's.

It asks the host's directory of users, which may be far away: from a thread.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Sequence
from typing import NamedTuple

from gsched.base.errors import PermissionDenied
from gsched.base.machine.file_rights import may_read
from gsched.base.machine.system_users import first_ordinary, why_system
from gsched.model.queues.user import USER_NAME

NOT_HERE = "this user has no pages here"
"""What a browser is told: neither whether there is such a user nor why not."""


class WebAccount(NamedTuple):
    """What a process of the user is started with."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def rights(self) -> tuple[int, int, frozenset[int]]:
        """What the kernel goes by."""
        return self.uid, self.gid, frozenset(self.groups)

    def environment(self, conf_dir: str, path: str) -> dict[str, str]:
        """Of a process of this user, as a log-in makes it; nothing of the service's own."""
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
        own = {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell, "PATH": path}
        return {**kept, **own, "GSCHED_ENVDIR": conf_dir}


def find_account(user: str, system_users: tuple[str, ...] = (), keys: Sequence[str] = ()) -> WebAccount:
    """The account of that name. Raises PermissionDenied, with the reason for the log, where it has no pages.

    Root and accounts of the system have none (but for those of `system_users`, which may have jobs), nor has one that
    can read one of the files `keys`: a page would be a way from the network to their rights.
    """
    if not USER_NAME.fullmatch(user):
        raise PermissionDenied("that is no user's name")
    try:
        found = pwd.getpwnam(user)
    except (KeyError, ValueError):
        raise PermissionDenied(f"there is no user {user} on this host") from None
    if found.pw_uid == 0:
        raise PermissionDenied("root has no pages")
    if why_system(found.pw_name, found.pw_uid, system_users, first_ordinary()):
        raise PermissionDenied(f"{found.pw_name} is an account of the system (uid {found.pw_uid})")
    groups = tuple(os.getgrouplist(found.pw_name, found.pw_gid))
    for key in keys:
        with contextlib.suppress(OSError):
            if may_read(os.stat(key), found.pw_uid, groups):
                raise PermissionDenied(f"{found.pw_name} can read {key}, by which a host is known")
    home, shell = found.pw_dir or "/", found.pw_shell or "/bin/sh"
    return WebAccount(found.pw_name, found.pw_uid, found.pw_gid, groups, home, shell)
