"""A client of the cluster's master for the commands of administrators."""

from __future__ import annotations

import os

import click

from gsched.base.envdir import conf_dir, read_setting
from gsched.base.errors import Unavailable
from gsched.wire.calls.client import Client
from gsched.wire.calls.retry_policy import read_wait
from gsched.wire.calls.transports import way_to_master


def leader_now(envdir: str | None) -> str:
    """The host whose master leads, by the way to it that there is now; empty while none answers within a second.

    Raises BadRequest, PermissionDenied.
    """
    try:
        way = way_to_master(envdir or conf_dir(os.environ), as_root=True)
        with Client(way.address, wait_s=1.0, channel=way.channel()) as client:
            return client.cluster().master_host
    except Unavailable:
        return ""


def connect(envdir: str | None) -> Client:
    """A client of the master. While it waits for one, it says so once on standard error. Raises BadRequest, and what
    `way_to_master` raises.
    """

    def waiting(silent: str) -> None:
        click.echo(f"gsched: {silent} is not responding. Please wait ...", err=True)

    folder = envdir or conf_dir(os.environ)
    text = os.environ.get("GSCHED_COMMAND_WAIT") or read_setting(folder, "GSCHED_COMMAND_WAIT")
    wait_s = read_wait(text)
    way = way_to_master(folder, as_root=True)
    return Client(way.address, wait_s=wait_s, on_wait=waiting, channel=way.channel())
