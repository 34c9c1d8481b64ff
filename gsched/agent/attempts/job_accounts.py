"""Whose jobs this host's agent starts, and as whom: looked up by name, here, at every start.

An agent of root starts each job as its user; any other one starts its own user's jobs and no others. A directory of
users that hangs holds nobody up but who waits for an answer of it. Nothing is started as a user whom this host does not
know, as one who can read a host's key, or as a system account that nobody has named; and nothing is taken from what a
submission says of its user but the name.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gsched.agent.attempts.pam_limits import Granted, PamLimits
from gsched.agent.blocking_pool import BlockingPool
from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import Conflict, NotFound, ResourceExhausted
from gsched.base.machine.system_users import first_ordinary, why_system
from gsched.run.account import UnixAccount, acting_as, look_up
from gsched.wire.identity.caller_identity import user_name
from gsched.wire.identity.certificates import CA_KEY_FILE

log = logging.getLogger(__name__)

KEEP_S = 60.0
"""How long an answer holds."""
STALE_S = 3600.0
"""And how long where the directory of users does not answer any more."""
PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Login:
    """Whom an attempt runs as; `account` None: as the agent's own user. `site`: whom the site's steps run as."""

    account: UnixAccount | None = None
    granted: Granted = ()
    site: UnixAccount | None = None


class FoundAccount(NamedTuple):
    """An account of this host; `barred`: why no job runs as it."""

    account: UnixAccount
    barred: AnyText = ""


class HostAccounts:
    """The users of one host. `site_user`: LSB_PRE_POST_EXEC_USER; `system_users`: GSCHED_SYSTEM_USERS; `first`: the
    lowest uid of an ordinary account. `tls_dir`: where the keys of a shared cluster lie; empty: it is a private one.
    `services`: folders that belong to those whom its daemons run as.
    """

    def __init__(  # noqa: PLR0913 - all that it works with
        self,
        host: str,
        *,
        uid: int | None = None,
        root_may_run: bool = True,
        site_user: str = "",
        pam: PamLimits | None = None,
        find: Callable[[str], UnixAccount] = look_up,
        tls_dir: str = "",
        services: tuple[str, ...] = (),
        system_users: tuple[str, ...] = (),
        first: Callable[[], int] = first_ordinary,
    ) -> None:
        self._host = host
        self._uid = os.geteuid() if uid is None else uid
        self._own = user_name(self._uid)
        self._root_may_run = root_may_run
        self._site_user = site_user
        self._pam = pam
        self._find = find
        self._tls_dir = tls_dir
        self._services = services
        self._system_users = system_users
        self._first = first
        self._known: dict[str, tuple[float, FoundAccount]] = {}
        self._blocking = BlockingPool()
        if site_user and self._uid and site_user != self._own:
            log.warning(
                "LSB_PRE_POST_EXEC_USER=%s: the agent of %s is %s's and runs the commands before and after jobs as %s",
                *(site_user, host, self._own, self._own),
            )

    @property
    def only_user(self) -> str:
        """Whose jobs alone can be started here; empty: everybody's."""
        return self._own if self._uid else ""

    async def login(self, user: str) -> Login:
        """For an attempt of that user's job. Raises GschedError when it must not start."""
        if self._uid:
            if user != self._own:
                raise Conflict(coded("account.other_user", self._host, self._own, user))
            return Login()
        account, barred = await self._account(user)
        site = (await self._account(self._site_user)).account if self._site_user else None
        if account.uid == 0:
            if not self._root_may_run:
                raise Conflict(coded("account.root", self._host))
            return Login(site=site)
        if barred:
            raise Conflict(coded("account.barred", user, self._host, barred))
        granted = await self._pam.of(account.name) if self._pam is not None else ()
        return Login(account, granted, site)

    async def account(self, user: str) -> UnixAccount | None:
        """Whom things are done as for that user; None: as the agent's own user. Raises GschedError."""
        return (await self.login(user)).account

    async def _account(self, name: str) -> FoundAccount:
        now = time.monotonic()
        at, known = self._known.get(name, (-STALE_S, None))
        if known is not None and now - at < KEEP_S:
            return known
        try:
            found = await self._blocking.run(name, lambda: self._look_up(name), PATIENCE_S)
        except LookupError:
            self._known.pop(name, None)
            raise NotFound(coded("account.unknown", name, self._host)) from None
        except (OSError, TimeoutError) as error:
            if known is not None and now - at < STALE_S:
                log.warning("the directory of users does not answer: %s is taken to be as before", name)
                return known
            why = str(error) or coded("account.no_answer")
            raise ResourceExhausted(coded("account.not_looked_up", name, self._host, why)) from None
        self._known[name] = (now, found)
        return found

    def _look_up(self, name: str) -> FoundAccount:
        """Raises LookupError, OSError."""
        account = self._find(name)
        if account.uid == 0 or not self._tls_dir:
            return FoundAccount(account)  # of root LSF_ROOT_USER decides; a private cluster has one user, and no keys
        service = owned_by(account, self._services)
        if service:
            return FoundAccount(account, coded("account.of_daemons", service))
        key = key_open_to(account, self._tls_dir, self._host)
        if key:
            return FoundAccount(account, coded("account.reads_key", key))
        return FoundAccount(account, why_system(name, account.uid, self._system_users, self._first()))


def owned_by(account: UnixAccount, folders: Iterable[str]) -> str:
    """The first of the folders that belongs to the account; empty when none does."""
    for folder in folders:
        try:
            if os.stat(folder).st_uid == account.uid:
                return folder
        except FileNotFoundError:  # that daemon is not of this host
            pass
    return ""


def key_open_to(account: UnixAccount, tls_dir: str, host: str) -> str:
    """The first private key in the folder that the account can read, by the kernel's word; empty when there is none.

    Raises OSError when that cannot be found out.
    """
    keys = sorted({f"{tls_dir}/{host}.key", f"{tls_dir}/{CA_KEY_FILE}", *map(str, Path(tls_dir).glob("*.key"))})
    with acting_as(account):
        for key in keys:
            try:
                os.close(os.open(key, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
            except (FileNotFoundError, PermissionError):
                continue
            return key
    return ""
