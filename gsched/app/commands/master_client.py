"""A client of the cluster's master for the commands of administrators."""

from __future__ import annotations

import os

import click

from gsched.base.envdir import conf_dir, read_setting
from gsched.wire.calls.client import Client
from gsched.wire.calls.retry_policy import read_wait
from gsched.wire.calls.transports import way_to_master


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
