"""Words of gadmin that close and open hosts, single GPUs (LSF has none for them) and queues, and `frag`: what holds
large GPU jobs back.
"""

from __future__ import annotations

import os
import sys
import time

import click

from gsched.app.clusters.private_home import host_name
from gsched.app.commands.command_options import OPTION_ENVDIR
from gsched.app.commands.master_client import connect
from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.cli.render.hosts.fragments import render_fragments
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.times import parse_time


@click.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; shown by ghosts -l.")
@click.argument("hosts", nargs=-1)
def hclose(envdir: str | None, comment: str, hosts: tuple[str, ...]) -> None:
    """Close hosts, host groups or compute units for new jobs (all: every host; none named: this one)."""
    _host_control(envdir, "close", hosts, comment)


@click.command()
@OPTION_ENVDIR
@click.argument("hosts", nargs=-1)
def hopen(envdir: str | None, hosts: tuple[str, ...]) -> None:
    """Open hosts, host groups or compute units that were closed."""
    _host_control(envdir, "open", hosts, "")


_STILL_CLOSED = {
    "closed_Excl": "an exclusive job",
    "closed_Wind": "dispatch window",
    "closed_Full": "job limit",
    "closed_Busy": "load threshold",
}


def _host_control(envdir: str | None, action: str, hosts: tuple[str, ...], comment: str) -> None:
    with connect(envdir) as client:
        wanted = list(hosts) or [host_name()]
        if wanted == ["all"]:
            wanted = [host.name for host in client.hosts()]
        named = client.host_control(action, wanted, comment)
        states = {host.name: host.status for host in client.hosts(named)} if action == "open" else {}
    for name in named:
        why = _STILL_CLOSED.get(states.get(name, ""))
        rest = f" : host remains closed due to {why}; " if why else ""
        click.echo(f"{action.capitalize()} <{name}> ...... done{rest}", err=True)


@click.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; shown by ghosts -gpu and in pending reasons.")
@click.option(
    "--until",
    default=None,
    metavar="TIME",
    help="Open them by themselves at [[[year:]month:]day:]hour:minute; without it they are closed until gpuopen.",
)
@click.argument("gpus", nargs=-1, required=True, metavar="HOST:INDEX|UUID ...")
def gpuclose(envdir: str | None, comment: str, until: str | None, gpus: tuple[str, ...]) -> None:
    """Close single GPUs for new jobs; the jobs that hold them run on."""
    end = None if until is None else _time(until)
    with connect(envdir) as client:
        answers = client.gpu_control("close", gpus, comment, end)
    for answer in answers:
        click.echo(f"Close <{answer.name}> ...... done", err=True)


@click.command()
@OPTION_ENVDIR
@click.argument("gpus", nargs=-1, required=True, metavar="HOST:INDEX|UUID ...")
def gpuopen(envdir: str | None, gpus: tuple[str, ...]) -> None:
    """Open single GPUs that were closed."""
    with connect(envdir) as client:
        answers = client.gpu_control("open", gpus)
    for answer in answers:
        rest = f" : GPU is still not offered: {answer.text}" if answer.text else ""
        click.echo(f"Open <{answer.name}> ...... done{rest}", err=True)


def _time(text: str) -> float:
    now = time.time()
    at = parse_time(text, now, zone_of(os.environ))
    if at <= now:
        raise BadRequest(f"--until {text}: the time is past")
    return at


@click.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; shown by gqueues -l.")
@click.argument("queues", nargs=-1)
def qclose(envdir: str | None, comment: str, queues: tuple[str, ...]) -> None:
    """Close queues: they take no new jobs (all: every queue; none named: the default one)."""
    _queue_control(envdir, "close", queues, comment)


@click.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; shown by gqueues -l.")
@click.argument("queues", nargs=-1)
def qopen(envdir: str | None, comment: str, queues: tuple[str, ...]) -> None:
    """Open queues that were closed."""
    _queue_control(envdir, "open", queues, comment)


@click.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; pending jobs say so.")
@click.argument("queues", nargs=-1)
def qinact(envdir: str | None, comment: str, queues: tuple[str, ...]) -> None:
    """Inactivate queues: they start no jobs; those that run go on."""
    _queue_control(envdir, "inactivate", queues, comment)


@click.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; shown by gqueues -l.")
@click.argument("queues", nargs=-1)
def qact(envdir: str | None, comment: str, queues: tuple[str, ...]) -> None:
    """Activate queues that were inactivated."""
    _queue_control(envdir, "activate", queues, comment)


def _queue_control(envdir: str | None, action: str, queues: tuple[str, ...], comment: str) -> None:
    with connect(envdir) as client:
        wanted = list(queues) or client.cluster().default_queue.split()
        answers = client.queue_control(action, [] if wanted == ["all"] else wanted, comment)
    for answer in answers:
        click.echo(answer.error or answer.text, err=bool(answer.error))
    if any(answer.error for answer in answers):
        sys.exit(LSF_FAILURE)


@click.command()
@OPTION_ENVDIR
def frag(envdir: str | None) -> None:
    """Show the largest GPU job that fits now, host by host, and what holds it back."""
    with connect(envdir) as client:
        click.echo(render_fragments(client.fragmentation()), nl=False)
