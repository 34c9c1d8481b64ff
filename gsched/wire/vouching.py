"""What a host says to the master of a shared cluster: as its agent, and for its users.

The host's certificate proves the host, and the master's certificate the master. Must never send a user's name that the
kernel did not give.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import grpc
import grpc.aio

from gsched.base.errors import PermissionDenied
from gsched.model.config import ClusterConfig
from gsched.wire.auth import user_name
from gsched.wire.certificates import note_end, read_credentials, stamp
from gsched.wire.channel import CHANNEL_OPTIONS
from gsched.wire.proving import ProvingChannel
from gsched.wire.shared import USER_KEY, USER_NAME

log = logging.getLogger(__name__)


def check_certificate(config: ClusterConfig, host: str) -> None:
    """For a daemon that begins: raise BadCertificate when this host cannot prove itself, log when soon it cannot."""
    soon = note_end(read_credentials(config.network.tls_dir, host), time.time())
    if soon:
        log.warning("%s", soon)


def host_credentials(config: ClusterConfig, host: str) -> grpc.ChannelCredentials:
    """What this host proves itself with. Raises BadCertificate."""
    own = read_credentials(config.network.tls_dir, host)
    return grpc.ssl_channel_credentials(own.ca, own.key, own.certificate)


def agent_channel(config: ClusterConfig, host: str) -> grpc.aio.Channel:
    """A new connection of the host's agent to its master. Raises BadCertificate."""
    return grpc.aio.secure_channel(config.master_address, host_credentials(config, host), options=CHANNEL_OPTIONS)


class Vouching:
    """This host's word for its users. One connection serves them all; each call names its user. For any thread, but
    `aio_channel` for one alone.
    """

    def __init__(self, config: ClusterConfig, host: str) -> None:
        self.config = config
        self._host = host
        self._lock = threading.Lock()
        self._channels: dict[bool, tuple[tuple[int, ...], Any]] = {}

    def check(self) -> None:
        """Raise BadCertificate when the host cannot prove itself."""
        check_certificate(self.config, self._host)

    def channel_of(self, uid: int) -> grpc.Channel:
        """A channel on which nobody but this user speaks. Raises PermissionDenied, BadCertificate."""
        said = self.metadata_of(uid)
        return ProvingChannel(self._connection(aio=False), lambda path, body: said)

    def aio_channel(self) -> grpc.aio.Channel:
        """The connection for who puts `metadata_of` a user into each call, and nothing else. Raises BadCertificate."""
        channel: grpc.aio.Channel = self._connection(aio=True)
        return channel

    def metadata_of(self, uid: int) -> tuple[tuple[str, str], ...]:
        """What the host says about a call of this user. Raises PermissionDenied for one without a name."""
        user = user_name(uid)
        if not USER_NAME.fullmatch(user) or user == str(uid):
            raise PermissionDenied(f"uid {uid} has no name on this host that the master could know")
        return ((USER_KEY, user),)

    def _connection(self, *, aio: bool) -> Any:
        """The connection, a new one when the certificates were replaced."""
        seen = stamp(self.config.network.tls_dir, self._host)
        with self._lock:
            found = self._channels.get(aio)
            if found is None or seen != found[0]:
                credentials = host_credentials(self.config, self._host)
                make = grpc.aio.secure_channel if aio else grpc.secure_channel
                found = seen, make(self.config.master_address, credentials, options=CHANNEL_OPTIONS)
                self._channels[aio] = found
            return found[1]
