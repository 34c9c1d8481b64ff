"""What a host says to the master of a shared cluster: as its agent, and for its users.

The host's certificate proves the host, and the master's certificate the master. Must never send a user's name that the
kernel did not give.
"""

from __future__ import annotations

import asyncio
import logging
import time

import grpc
import grpc.aio

from gsched.base.errors import PermissionDenied
from gsched.model.config import ClusterConfig
from gsched.model.queues.user import USER_NAME
from gsched.wire.channel import CHANNEL_OPTIONS
from gsched.wire.identity.authenticated_channel import ProvingChannel
from gsched.wire.identity.caller_identity import user_name
from gsched.wire.identity.certificates import note_end, read_credentials, revoked_stamp
from gsched.wire.identity.master_trust import Trust
from gsched.wire.identity.shared_callers import USER_KEY
from gsched.wire.identity.trusted_channel import AioConnection, TrustedChannel

log = logging.getLogger(__name__)
LOOK_S = 2.0
"""How often somebody looks whether more certificates have been revoked."""


def check_certificate(config: ClusterConfig, host: str) -> None:
    """For a daemon that begins: raise BadCertificate when this host cannot prove itself, log when soon it cannot."""
    soon = note_end(read_credentials(config.network.tls_dir, host), time.time())
    if soon:
        log.warning("%s", soon)


async def agent_channel(config: ClusterConfig, host: str) -> grpc.aio.Channel:
    """A new connection of the host's agent to its master. Raises BadCertificate, Unavailable, PermissionDenied."""
    trust = Trust(config.network.tls_dir, host)
    address, credentials, _ = await asyncio.to_thread(trust.believed, config.master_address)
    return grpc.aio.secure_channel(address, credentials, options=CHANNEL_OPTIONS)


async def until_revoked_changes(tls_dir: str, seen: tuple[int, ...]) -> None:
    """Return when the list of revoked certificates is not any more what `revoked_stamp` gave."""
    while revoked_stamp(tls_dir) == seen:
        await asyncio.sleep(LOOK_S)  # a file that somebody copies here tells nobody


class IdentityAssertion:
    """This host's word for its users. One connection serves them all; each call names its user. For any thread, but
    what begins with `aio_` for one event loop alone.
    """

    def __init__(self, config: ClusterConfig, host: str) -> None:
        self.config = config
        self._host = host
        trust = Trust(config.network.tls_dir, host)
        self._channel = TrustedChannel(trust, config.master_address)
        self._aio = AioConnection(trust, config.master_address)

    def check(self) -> None:
        """Raise BadCertificate when the host cannot prove itself."""
        check_certificate(self.config, self._host)

    def channel_of(self, uid: int) -> grpc.Channel:
        """A channel on which nobody but this user speaks. Raises PermissionDenied; its calls BadCertificate too."""
        said = self.metadata_of(uid)
        return ProvingChannel(self._channel, lambda path, body: said)

    async def aio_channel(self) -> grpc.aio.Channel:
        """The connection for who puts `metadata_of` a user into each call, and nothing else.

        Raises BadCertificate, Unavailable, PermissionDenied.
        """
        return await self._aio.channel()

    @property
    def aio_may_wait(self) -> bool:
        """Whether a call on `aio_channel` may wait for the master there; otherwise the caller asks again."""
        return not self._aio.is_pinned

    def aio_failed(self, channel: grpc.aio.Channel) -> None:
        """A call on the channel found nobody."""
        self._aio.failed(channel)

    def look(self) -> None:
        """End what is under way if the list of revoked certificates has changed; for any thread."""
        self._channel.look()

    async def aio_look(self) -> None:
        """The same for the calls on `aio_channel`."""
        await self._aio.look()

    def metadata_of(self, uid: int) -> tuple[tuple[str, str], ...]:
        """What the host says about a call of this user. Raises PermissionDenied for one without a name."""
        user = user_name(uid)
        if not USER_NAME.fullmatch(user) or user == str(uid):
            raise PermissionDenied(f"uid {uid} has no name on this host that the master could know")
        return ((USER_KEY, user),)
