"""`gadmin history status` and `gadmin history compact`: what a store keeps, and the room that it takes."""

from __future__ import annotations

import os
import time
from importlib import import_module
from typing import TYPE_CHECKING

import click

from gsched.app.clusters.private_home import host_name
from gsched.app.commands.command_options import OPTION_ENVDIR, conf_of
from gsched.base.errors import BadRequest
from gsched.cli.session.time_zone import zone_of
from gsched.config.configuration import load

if TYPE_CHECKING:
    from gsched.app.stores.kept_history import KeptHistory


def _kept(envdir: str | None) -> KeptHistory:
    """The master's code, which other words start faster without."""
    config = load(conf_of(envdir), host_name()).required()
    made: KeptHistory = import_module("gsched.app.stores.kept_history").KeptHistory(config, click.echo)
    return made


@click.command("status")
@OPTION_ENVDIR
def status(envdir: str | None) -> None:
    """Count what is kept of each kind, since when, and what the settings remove next. It reads all of the store.

    Run it on the master's host, as the user that the master runs as. The master may run.
    """
    _kept(envdir).say_status(time.time(), zone_of(os.environ))


@click.command("compact")
@OPTION_ENVDIR
@click.option("--convert", is_flag=True, help="Write a file that cannot shrink anew; the master must be down.")
def compact(envdir: str | None, convert: bool) -> None:
    """Give the room of what was removed back to the disk, and say how much that was; the master may run.

    A file of SQLite is made smaller in steps of some milliseconds. One that was made before files could shrink is
    written anew once, with --convert: that needs twice its size on the disk, and no master. In PostgreSQL, VACUUM goes
    through the tables. Run it on the master's host, as the user that the master runs as.
    """
    kept = _kept(envdir)
    if convert and kept.is_in_server:
        raise BadRequest("--convert is for a store in a file; this one is in PostgreSQL")
    kept.compact(convert=convert)
