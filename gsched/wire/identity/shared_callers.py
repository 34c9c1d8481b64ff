"""Who is asking in a shared cluster: hosts are proven by their certificates, users by the hosts that vouch for them.

A host counts as long as it stands in lsf.cluster: one that a reconfig has removed is refused from then on, but for its
agent, which is heard until the jobs there have ended. Must never take a user's name from anybody but the door of a host
that counts.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from gsched.base.errors import PermissionDenied
from gsched.model.config import ALL_HOSTS, ClusterConfig
from gsched.model.queues.user import USER_NAME
from gsched.wire.identity.caller_identity import AGENT_SERVICE, ProvenCaller, uid_of_user
from gsched.wire.identity.certificates import Revoked

USER_KEY = "gsched-user"
"""Metadata in which a host's door names the user it speaks for."""
ROOT = "root"
ACCOUNT_S = 60.0
"""How long it is remembered what the system knows of a name."""
MISSED_S = 600.0
"""How long a user whose call goes on may be unknown before it ends: a directory of users may be away for a while, and
one who follows his jobs for days must not lose them for that."""


class UnknownUser(PermissionDenied):
    """The system knows no such user."""


class ServedNames:
    """Which names the master serves: rules of the configuration, and the system's word on who there is."""

    def __init__(
        self,
        config: Callable[[], ClusterConfig],
        uid_of: Callable[[str], int | None] | None = None,
        own_uid: int | None = None,
    ) -> None:
        """`own_uid`: whom the master runs as."""
        self._config = config
        self._own_uid = os.geteuid() if own_uid is None else own_uid
        self._uid_of = uid_of or uid_of_user
        self._known: dict[str, tuple[float, int | None]] = {}
        self._missed: dict[str, float] = {}
        """Users with calls that go on who are not known -> since when."""

    async def admit(self, user: str, host: str, way: str) -> ProvenCaller:
        """The caller of that name. Raises PermissionDenied for who is not served."""
        config = self._config()
        if not USER_NAME.fullmatch(user):
            raise PermissionDenied("what the host gives as a user is no user's name")
        uid = await self._uid(user)
        if uid is None and not config.unknown_users:
            raise UnknownUser(
                f"user {user} is not known on {config.master_host}, the master's host (GSCHED_UNKNOWN_USERS=N)"
            )
        if uid == 0:
            user = ROOT  # by whatever name: the rules for root are those for the name
        believed = ALL_HOSTS in config.admin_hosts or (way == "door" and host in config.administration_hosts)
        if uid is not None and uid == self._own_uid and user != ROOT and not believed:
            # Who is that user owns the master's socket and store: no other host's word is enough for it.
            hosts = " ".join(config.administration_hosts)
            raise PermissionDenied(
                f"user {user} is whom the master runs as: heard from {hosts} alone (GSCHED_ADMIN_HOSTS)"
            )
        return ProvenCaller(user, believed and user in config.administrators, host, way)

    async def still(self, caller: ProvenCaller, host: str) -> ProvenCaller:
        """As `admit`, in the middle of a call that goes on. Raises PermissionDenied."""
        try:
            found = await self.admit(caller.user, host, caller.way)
        except UnknownUser:
            now = time.monotonic()
            if now - self._missed.setdefault(caller.user, now) < MISSED_S:
                return caller
            raise
        self._missed.pop(caller.user, None)
        return found

    async def _uid(self, user: str) -> int | None:
        found = self._known.get(user)
        now = time.monotonic()
        if found is None or found[0] < now:
            if len(self._known) > 10_000:  # made-up names must not fill the memory
                self._known.clear()
            # The user database may be far away: not in the loop.
            uid = await asyncio.to_thread(self._uid_of, user)
            found = self._known[user] = (now + ACCOUNT_S, uid)
        return found[1]


class ByHost:
    """The port of a shared cluster: a certificate proves the host, and the host's door vouches for its user."""

    def __init__(
        self,
        config: Callable[[], ClusterConfig],
        accounts: ServedNames,
        leaving: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """`leaving`: hosts that are no longer in the configuration and still hold jobs."""
        self._config = config
        self._revoked = Revoked(config().network.tls_dir)
        self._accounts = accounts
        self._leaving = leaving

    async def prove(self, context: Any, path: str, body: bytes) -> ProvenCaller:
        """The user whom the host's door names; for the service of agents the host itself.

        Raises PermissionDenied for a host that is not in lsf.cluster, and for a user who is not served.
        """
        is_agent = path.startswith(AGENT_SERVICE)
        host = self.host_of(context, self._leaving() if is_agent else ())
        users = [value for key, value in context.invocation_metadata() or () if key == USER_KEY]
        if is_agent:
            # An agent speaks for its host. A door shares its certificate, and says of every call whose it is.
            if users:
                raise PermissionDenied(f"no user may speak as the agent of {host}")
            return ProvenCaller("", False, host, "agent")
        if len(users) != 1:
            raise PermissionDenied(f"host {host} names {len(users)} users for one call")
        return await self._accounts.admit(str(users[0]), host, "door")

    async def still(self, context: Any, caller: ProvenCaller) -> ProvenCaller:
        """The user, whose host still counts in the middle of a call. Raises PermissionDenied."""
        return await self._accounts.still(caller, self.host_of(context))

    def host_of(self, context: Any, others: Collection[str] = ()) -> str:
        """The host of lsf.cluster, or of `others`, that the other side's certificate names. Raises PermissionDenied."""
        facts = context.auth_context()
        names = names_of(facts)
        found = [name for name in names if name in self._config().hosts or name in others]
        if len(found) != 1:
            shown = ", ".join(names) or "nobody"
            raise PermissionDenied(f"the certificate is that of {shown}, which is not one host of lsf.cluster")
        pem = facts.get("x509_pem_cert") or [b""]
        if self._revoked.has(bytes(pem[0])):
            raise PermissionDenied(f"the certificate of {found[0]} is revoked")
        return found[0]


def names_of(facts: Mapping[str, Any]) -> list[str]:
    """The names in the certificate of the other side; none without a certificate that was checked."""
    if facts.get("transport_security_type") != [b"ssl"]:
        return []
    found = facts.get("x509_subject_alternative_name") or []
    return sorted({bytes(name).decode("ascii", "replace") for name in found})
