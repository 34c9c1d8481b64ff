"""Which master a call speaks to, and as whom.

In a private cluster the user of this process is the cluster's owner, and nobody else is served. The door of a shared
cluster serves its host's users, each under the name that the kernel gives (`serve_others`); it then speaks to its own
cluster alone, whatever a caller's environment says. Connections are kept for the next call of the process; nothing is
shown of a file that holds no address.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import NamedTuple

import grpc

from gsched.base.envdir import conf_dir
from gsched.base.errors import PermissionDenied
from gsched.cli.session.call import Call
from gsched.wire.calls.transports import MasterWay, way_to_master
from gsched.wire.identity.identity_assertion import IdentityAssertion

MAX_CHANNELS = 16
_channels: OrderedDict[MasterWay, grpc.Channel] = OrderedDict()
_channels_lock = threading.Lock()
_assertion: IdentityAssertion | None = None
"""Set once, when the door of a shared cluster begins."""


class Link(NamedTuple):
    """A master's address, and a channel on which the caller, and nobody else, speaks to it."""

    address: str
    channel: grpc.Channel


def serve_others(assertion: IdentityAssertion | None) -> None:
    """From here on this process speaks for the users of its host, to one cluster."""
    global _assertion
    _assertion = assertion


def serves_others() -> bool:
    """Whether this process serves users who are not its own: nothing may be run or opened for them here."""
    return _assertion is not None


def link_of(call: Call) -> Link:
    """The call's way to its master. Raises Unavailable when no cluster is known, PermissionDenied for strangers."""
    folder = folder_of(call)
    if _assertion is not None:
        return Link(_assertion.config.master_address, _assertion.channel_of(call.uid))
    if call.uid != os.geteuid():
        # The master takes the user of this process for the caller: speaking for others would lend them its rights.
        raise PermissionDenied(f"this process cannot speak to the master for uid {call.uid}: it runs as another user")
    way = way_to_master(folder)
    return Link(way.address, channel_to(way))


def folder_of(call: Call) -> str:
    """The configuration folder that the call means, an absolute path.

    Raises PermissionDenied where this process serves others and has another one: it must not read what they point at.
    """
    folder = os.path.join(call.cwd, conf_dir(call.env, call.uid))
    if _assertion is None:
        return folder
    own = _assertion.config.locations.conf_dir
    if os.path.realpath(folder) != os.path.realpath(own):
        raise PermissionDenied(f"this host's door serves the cluster of {own}, not that of {folder}")
    return own


def channel_to(way: MasterWay) -> grpc.Channel:
    """A connection that all calls of this process share; the least recently used ones are let go."""
    with _channels_lock:
        channel = _channels.get(way)
        if channel is None:
            channel = _channels[way] = way.channel()
            if len(_channels) > MAX_CHANNELS:
                _channels.popitem(last=False)  # closed when its last user drops it
        _channels.move_to_end(way)
        return channel
