"""Calls to the master of a shared cluster that bear a munge credential each: for hosts that have no door.

A credential is bound to what it was made for: the master, the method and the bytes of the request. So it cannot be
used for another call, and munge refuses it for the same one a second time. A stream of requests is bound by its method
alone, for its requests are not known yet; such a stream changes nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import pwd
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from gsched.base.errors import PermissionDenied, Unavailable
from gsched.model.config import ClusterConfig
from gsched.wire.address import address_of
from gsched.wire.channel import CHANNEL_OPTIONS
from gsched.wire.identity.authenticated_channel import ProvingChannel
from gsched.wire.identity.caller_identity import AGENT_SERVICE, ProvenCaller
from gsched.wire.identity.master_trust import Trust
from gsched.wire.identity.munge import Munge
from gsched.wire.identity.shared_callers import ServedNames
from gsched.wire.identity.trusted_channel import TrustedChannel

CREDENTIAL_KEY = "gsched-munge"
PATIENCE_S = 5.0
DECODERS = 4
"""Threads that wait for munged; it answers in a tenth of a millisecond, or hangs."""


def payload(address: str, path: str, body: bytes) -> bytes:
    """What a call's credential says; `address` is the master's, HOST:PORT."""
    return "\0".join(("gsched 1", address, path, hashlib.sha256(body).hexdigest())).encode()


def stamping_channel(
    address: str, tls_dir: str, munge: Munge, tried: str = "", options: tuple[tuple[str, int], ...] = CHANNEL_OPTIONS
) -> grpc.Channel:
    """A channel to `HOST:PORT` on which this process's user speaks; the master proves itself by its certificate, of
    the CA in `tls_dir`.

    `tried`: which other way has failed; said where munge does not answer either. `options`: of gRPC.
    """
    channel = TrustedChannel(Trust(tls_dir), address, options)
    channel.look_by_itself()

    def proof(path: str, body: bytes) -> tuple[tuple[str, str], ...]:
        try:
            return ((CREDENTIAL_KEY, munge.encode(payload(address, path, body))),)
        except Unavailable as error:
            raise Unavailable(f"{error.text}; {tried}" if tried else error.text) from None

    return ProvingChannel(channel, proof)


class MungeCredentials:
    """The port for munge: a credential proves the user, by number; nobody else is known there, and no host."""

    def __init__(
        self,
        config: Callable[[], ClusterConfig],
        accounts: ServedNames,
        munge: Munge,
        name_of: Callable[[int], str | None] | None = None,
    ) -> None:
        self._config = config
        self._accounts = accounts
        self._munge = munge
        self._name_of = name_of or system_name
        self._decoders = ThreadPoolExecutor(DECODERS, thread_name_prefix="munge")

    async def prove(self, context: Any, path: str, body: bytes) -> ProvenCaller:
        """The user of the credential. Raises PermissionDenied, Unavailable when munged does not answer."""
        if path.startswith(AGENT_SERVICE):
            raise PermissionDenied("an agent proves its host by a certificate, on the master's first port")
        given = [value for key, value in context.invocation_metadata() or () if key == CREDENTIAL_KEY]
        if len(given) != 1:
            raise PermissionDenied(f"a call has one munge credential, this one {len(given)}")
        user = await self._decoded(str(given[0]), payload(self._config().munge_address, path, body))
        return await self._accounts.admit(user, address_of(context.peer()), "munge")

    async def still(self, context: Any, caller: ProvenCaller) -> ProvenCaller:
        """The user, whose credential was good once, as the master serves him now. Raises PermissionDenied."""
        return await self._accounts.still(caller, caller.host)

    async def _decoded(self, credential: str, wanted: bytes) -> str:
        """The name of the user, where the credential is for this call."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await loop.run_in_executor(self._decoders, self._decode, credential, wanted)
        except TimeoutError:
            raise PermissionDenied("munged of the master's host does not answer") from None

    def _decode(self, credential: str, wanted: bytes) -> str:
        found = self._munge.decode(credential)
        if not hmac.compare_digest(found.payload, wanted):
            raise PermissionDenied("the munge credential was made for another call")
        name = self._name_of(found.uid)
        if name is None:
            raise PermissionDenied(f"uid {found.uid} has no name on {self._config().master_host}, the master's host")
        return name


def system_name(uid: int) -> str | None:
    """The name of the user on this host; None where there is no such user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
