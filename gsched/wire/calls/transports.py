"""Which way a process of this host has to a cluster's master, when it is not the door that speaks for it.

A private cluster has one: its socket, for its owner. A shared cluster has its master's own socket, for the master's
user (and for root, where an administrator's program asks), else the relay of this host's door, else munge. A door at
which nobody answers does not keep munge from being tried; where that fails as well, the door is what is waited for.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import grpc

from gsched.base.envdir import read_masters, read_setting
from gsched.base.errors import GschedError, Unavailable
from gsched.wire.address import DEFAULT_RUN_DIR, DOOR_FILE, MASTER_FILE, MASTER_SOCKET, is_shared, read_address
from gsched.wire.calls.door_relay import SOCKET_NAME, RelayChannel, why_dead
from gsched.wire.channel import CHANNEL_OPTIONS, OWN_CONNECTION
from gsched.wire.identity.certificates import read_ca

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gsched.wire.identity.munge import Munge

_ADDRESS = re.compile(r"unix:/[\x21-\x7e]{1,318}|[A-Za-z0-9.\-\[\]:]{1,253}:[0-9]{1,5}")


class MasterWay(NamedTuple):
    """`address` is what a person is told of it. Equal ways lead alike."""

    address: str
    make: str = "plain"
    """plain (a gRPC address), relay (of the door) or munge."""
    folder: str = ""
    trusts_any: bool = False
    tried: str = ""
    """What has been tried before, and why in vain: said with the failure of this one."""

    def channel(self, program: str = "", *, is_own: bool = False) -> grpc.Channel:
        """A new channel; `program` as of the relay. `is_own`: its calls share no connection with those of other
        channels (by the relay each has one). Raises Unavailable, BadCertificate.
        """
        options = CHANNEL_OPTIONS + OWN_CONNECTION if is_own else CHANNEL_OPTIONS
        if self.make == "relay":
            return RelayChannel(self.address, trusts_any=self.trusts_any, tried=self.tried, program=program)
        if self.make == "munge":
            return _stamping(self.folder, self.address, self.tried, options)
        return grpc.insecure_channel(self.address, options=options)


def way_to_master(folder: str, *, as_root: bool = False) -> MasterWay:
    """The way to the master of the cluster whose configuration is in `folder`; `as_root`: root is taken for its owner.

    Raises Unavailable when there is none, PermissionDenied, BadRequest.
    """
    if is_shared(folder):
        return _shared(folder, as_root)
    address = read_address(folder)
    if not _ADDRESS.fullmatch(address):
        raise Unavailable(f"{os.path.join(folder, MASTER_FILE)} does not hold the address of a master")
    return MasterWay(address)


def _shared(folder: str, as_root: bool) -> MasterWay:
    run_dir = read_setting(folder, "GSCHED_RUNDIR") or DEFAULT_RUN_DIR
    own = os.path.join(run_dir, "master", MASTER_SOCKET)
    # Where several may lead, the socket may be one that a master has left behind, which leads elsewhere by now.
    masters = read_masters(folder)
    several = len(masters) > 1
    if _is_ours(own, as_root) and not (several and why_dead(own)):
        return MasterWay(f"unix:{quote(os.fsencode(own))}")
    relay = os.path.join(run_dir, "door", SOCKET_NAME)
    port = read_setting(folder, "GSCHED_MUNGE_PORT")
    by_munge = MasterWay(",".join(f"{host}:{port}" for host in masters), "munge", folder)
    if os.path.exists(relay):
        by_door = MasterWay(relay, "relay", trusts_any=_is_named_by_root(folder))
        dead = why_dead(relay) if port else ""
        if not dead:
            return by_door
        in_vain = _why_no_munge(folder)
        return by_door._replace(tried=in_vain) if in_vain else by_munge
    if port:
        return by_munge._replace(tried=f"no door is open on this host ({relay} is missing)")
    raise Unavailable(
        f"no door is open on this host ({relay} is missing): `gsched door` runs there as a service, "
        "or GSCHED_MUNGE_PORT lets munge do without"
    )


def _stamping(folder: str, address: str, tried: str, options: tuple[tuple[str, int], ...]) -> grpc.Channel:
    from gsched.wire.identity.munge_credentials import stamping_channel  # where it is needed: most hosts have a door

    try:
        munge, tls_dir = _munge(folder)
    except Unavailable as error:
        raise Unavailable(f"{error.text}; {tried}") from None
    return stamping_channel(address, tls_dir, munge, tried, options)


def _munge(folder: str) -> tuple[Munge, str]:
    """What speaks for this process, and where the CA is that the master proves itself by.

    Raises Unavailable, BadCertificate.
    """
    from gsched.wire.identity.munge import Munge  # where it is needed, as above

    tls_dir = read_setting(folder, "GSCHED_TLSDIR") or os.path.join(folder, "tls")
    read_ca(tls_dir)  # what is wrong with it is said at once
    return Munge(read_setting(folder, "GSCHED_MUNGE_SOCKET")), tls_dir


def _why_no_munge(folder: str) -> str:
    """Why this host cannot speak by munge; empty when it can."""
    try:
        _munge(folder)[0].encode(b"")
    except GschedError as error:
        return error.text
    return ""


def _is_ours(path: str, as_root: bool) -> bool:
    """Whether the master's own socket can be reached, by its user."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    uid = os.geteuid()
    return stat.S_ISSOCK(status.st_mode) and (status.st_uid == uid or (as_root and uid == 0))


def _is_named_by_root(folder: str) -> bool:
    """Whether root says that the door of this configuration is to be trusted, whoever runs it."""
    try:
        status = (Path(folder) / DOOR_FILE).stat()
    except OSError:
        return False
    return status.st_uid == 0 and not status.st_mode & 0o022
