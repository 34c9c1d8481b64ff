"""Words of badmin that tell what happened, and how the master is.

Source of the texts and streams: badmin(8) of LSF 10.1.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

import click

from gsched.app.clusters.overview import master_status
from gsched.app.commands.command_options import OPTION_ENVDIR
from gsched.app.commands.master_client import connect
from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.cli.render.cluster.master_status import render_status
from gsched.cli.render.cluster.notices import render_notices
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.times import parse_span
from gsched.model.views.catalogue import TimeSpan

OPTION_TIME = click.option("-t", "times", metavar="TIME,TIME", default="", help="Only in that time, as of gacct -C.")
OPTION_FILE = click.option("-f", "log", metavar="FILE", default="", help="Refused: the history is in the event store.")


def _history(envdir: str | None, times: str, log: str, kinds: Sequence[str], names: Sequence[str] = ()) -> None:
    if log:
        raise BadRequest(f"-f {log}: the history is in the event store, not in a file; leave -f out")
    zone = zone_of(os.environ)
    span = TimeSpan()
    if times:
        since, until = parse_span(times, time.time(), zone)
        span = TimeSpan(since=since, until=until)
    with connect(envdir) as client:
        records = client.catalogue.notices(span)
    text = render_notices(records, zone, kinds=kinds, names=names)
    if not text:
        click.echo("No matching event found", err=True)
        sys.exit(LSF_FAILURE)
    click.echo(text, nl=False)


@click.command()
@OPTION_ENVDIR
@OPTION_TIME
@OPTION_FILE
def hist(envdir: str | None, times: str, log: str) -> None:
    """Show what was done to hosts, queues and the master."""
    _history(envdir, times, log, ("mbd", "queue", "host"))


@click.command()
@OPTION_ENVDIR
@OPTION_TIME
@OPTION_FILE
def mbdhist(envdir: str | None, times: str, log: str) -> None:
    """Show when the master was started or took over new files."""
    _history(envdir, times, log, ("mbd",))


@click.command()
@OPTION_ENVDIR
@OPTION_TIME
@OPTION_FILE
@click.argument("queues", nargs=-1)
def qhist(envdir: str | None, times: str, log: str, queues: tuple[str, ...]) -> None:
    """Show what was done to queues."""
    _history(envdir, times, log, ("queue",), queues)


@click.command()
@OPTION_ENVDIR
@OPTION_TIME
@OPTION_FILE
@click.argument("hosts", nargs=-1)
def hhist(envdir: str | None, times: str, log: str, hosts: tuple[str, ...]) -> None:
    """Show what was done to hosts."""
    _history(envdir, times, log, ("host",), hosts)


@click.command()
@OPTION_ENVDIR
def showstatus(envdir: str | None) -> None:
    """Show how many hosts, jobs and users there are."""
    with connect(envdir) as client:
        click.echo(render_status(master_status(client, zone_of(os.environ))), nl=False)
