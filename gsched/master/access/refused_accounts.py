"""Whose jobs the master of a shared cluster takes: not those of accounts that are a way to the keys of its hosts.

It knows the accounts of the master's host. The agent that would start a job looks again, on its own host. Must never
refuse anybody in a private cluster, which has one user and no keys.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from gsched.base.errors import PermissionDenied
from gsched.base.machine.file_rights import may_read
from gsched.base.machine.system_users import first_ordinary, why_system
from gsched.model.config import ClusterConfig
from gsched.run.account import UnixAccount, look_up
from gsched.wire.identity.certificates import key_file

KEEP_S = 60.0
"""How long an answer holds."""
MOST_KEPT = 10_000


class JobAccounts:
    """`own_uid`: whom the master runs as; `first`: the lowest uid of an ordinary account."""

    def __init__(
        self,
        config: Callable[[], ClusterConfig],
        *,
        find: Callable[[str], UnixAccount] = look_up,
        own_uid: int | None = None,
        first: Callable[[], int] = first_ordinary,
    ) -> None:
        self._config = config
        self._find = find
        self._own_uid = os.geteuid() if own_uid is None else own_uid
        self._first = first
        self._known: dict[tuple[str, tuple[str, ...]], tuple[float, str]] = {}

    async def check(self, user: str) -> None:
        """Raise PermissionDenied when no job of that user is taken."""
        config = self._config()
        if not config.is_shared:
            return
        question = (user, config.system_users)
        until, why = self._known.get(question, (0.0, ""))
        if until < time.monotonic():
            if len(self._known) > MOST_KEPT:  # made-up names must not fill the memory
                self._known.clear()
            # The user database may be far away: not in the loop.
            why = await asyncio.to_thread(self._why_not, user, config)
            self._known[question] = (time.monotonic() + KEEP_S, why)
        if why:
            raise PermissionDenied(f"Jobs of {user} are not accepted: {why}")

    def _why_not(self, user: str, config: ClusterConfig) -> str:
        try:
            account = self._find(user)
        except LookupError:
            return ""  # whether such users are served has been decided
        if account.uid == 0:
            return ""  # LSF_ROOT_USER decides
        key = key_file(config.network.tls_dir, config.master_host)
        try:
            status = key.stat()
        except OSError:
            status = None
        first = self._first()
        if account.uid == self._own_uid:
            # Hosts of one person who is not root: daemons, keys and jobs are all that person's.
            is_owners = status is not None and status.st_uid == account.uid and account.uid >= first
            return "" if is_owners else "the master runs as that account, so it is a way to everything"
        if status is not None and may_read(status, account.uid, (account.gid, *account.groups)):
            return f"that account can read {key}, by which a host is known"
        return str(why_system(user, account.uid, config.system_users, first))
