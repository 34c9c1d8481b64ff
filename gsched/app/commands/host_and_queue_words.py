"""Words of gadmin that close and open hosts and queues, and `frag`: what holds large GPU jobs back."""

from __future__ import annotations

import sys

import click

from gsched.app.clusters.private import host_name
from gsched.app.commands.command_options import OPTION_ENVDIR
from gsched.app.commands.master_client import connect
from gsched.base.errors import LSF_FAILURE
from gsched.cli.render.hosts.fragments import render_fragments


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
