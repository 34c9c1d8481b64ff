"""Whose jobs this host's agent starts, and as whom: looked up by name, here, at every start.

An agent of root starts each job as its user; any other one starts its own user's jobs and no others. A directory of
users that hangs holds nobody up but who waits for an answer of it. Nothing is started as a user whom this host does not
know, and nothing is taken from what a submission says of its user but the name.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from gsched.agent.aside import Aside
from gsched.agent.pamlimits import Granted, PamLimits
from gsched.base.errors import Conflict, NotFound, ResourceExhausted
from gsched.run.account import Account, look_up
from gsched.wire.auth import user_name

log = logging.getLogger(__name__)

KEEP_S = 60.0
"""How long an answer holds."""
STALE_S = 3600.0
"""And how long where the directory of users does not answer any more."""
PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Login:
    """Whom an attempt runs as; `account` None: as the agent's own user. `site`: whom the site's steps run as."""

    account: Account | None = None
    granted: Granted = ()
    site: Account | None = None


class Accounts:
    """The users of one host. `site_user`: LSB_PRE_POST_EXEC_USER."""

    def __init__(
        self,
        host: str,
        *,
        uid: int | None = None,
        root_may_run: bool = True,
        site_user: str = "",
        pam: PamLimits | None = None,
        find: Callable[[str], Account] = look_up,
    ) -> None:
        self._host = host
        self._uid = os.geteuid() if uid is None else uid
        self._own = user_name(self._uid)
        self._root_may_run = root_may_run
        self._site_user = site_user
        self._pam = pam
        self._find = find
        self._known: dict[str, tuple[float, Account]] = {}
        self._aside = Aside()
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
                raise Conflict(f"the agent of {self._host} is not root's: it starts jobs of {self._own}, not of {user}")
            return Login()
        account = await self._account(user)
        site = await self._account(self._site_user) if self._site_user else None
        if account.uid == 0:
            if not self._root_may_run:
                raise Conflict(f"jobs of root are not started on {self._host} (LSF_ROOT_USER)")
            return Login(site=site)
        granted = await self._pam.of(account.name) if self._pam is not None else ()
        return Login(account, granted, site)

    async def account(self, user: str) -> Account | None:
        """Whom things are done as for that user; None: as the agent's own user. Raises GschedError."""
        return (await self.login(user)).account

    async def _account(self, name: str) -> Account:
        now = time.monotonic()
        at, known = self._known.get(name, (-STALE_S, None))
        if known is not None and now - at < KEEP_S:
            return known
        try:
            found = await self._aside.run(name, lambda: self._find(name), PATIENCE_S)
        except LookupError:
            self._known.pop(name, None)
            raise NotFound(f"there is no user {name} on host {self._host}") from None
        except (OSError, TimeoutError) as error:
            if known is not None and now - at < STALE_S:
                log.warning("the directory of users does not answer: %s is taken to be as before", name)
                return known
            why = error if str(error) else "the directory of users does not answer"
            raise ResourceExhausted(f"user {name} cannot be looked up on host {self._host}: {why}") from None
        self._known[name] = (now, found)
        return found
