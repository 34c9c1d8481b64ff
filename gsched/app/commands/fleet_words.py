"""Words of gadmin about a fleet that runs: versions, metrics, draining hosts and queues, attempts without a record.

They ask the master alone, and import nothing that reads configurations.
"""

from __future__ import annotations

import os
import sys

import click

from gsched.app.clusters import draining
from gsched.app.clusters.private_home import host_name
from gsched.app.commands.command_options import FAILURE, OPTION_ENVDIR
from gsched.app.commands.master_client import connect
from gsched.base.errors import BadRequest
from gsched.cli.render.hosts.versions import render_versions
from gsched.cli.session.time_zone import zone_of
from gsched.model.jobs.job_signal import MOST_SAVE_S
from gsched.model.views.view import OrphanView


@click.command()
@OPTION_ENVDIR
def versions(envdir: str | None) -> None:
    """Show the master and the agents of all hosts: version, protocol, since when; exit code 1 when one is refused."""
    with connect(envdir) as client:
        found = client.fleet.versions()
    click.echo(render_versions(found, zone_of(os.environ)), nl=False)
    if any(each.problem for each in found):
        sys.exit(FAILURE)


@click.command()
@OPTION_ENVDIR
@click.option("--text", "older", is_flag=True, help="Prometheus' older text format, which promtool checks.")
def metrics(envdir: str | None, older: bool) -> None:
    """Print the metrics of the master once, in OpenMetrics.

    GSCHED_METRICS in lsf.conf has the master serve the same as /metrics, on a unix socket or a port.
    """
    with connect(envdir) as client:
        page = client.metrics(older=older)
    sys.stdout.buffer.write(page)


@click.command()
@OPTION_ENVDIR
@click.option("-q", "queues", multiple=True, metavar="QUEUE", help="A queue instead of a host; may be repeated.")
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; shown by ghosts -l and gqueues -l.")
@click.option("--wait", is_flag=True, help="Wait until nothing is left.")
@click.option("--limit", metavar="SECONDS", type=click.FloatRange(min=0), help="Wait no longer; exit code 1 then.")
@click.option("--requeue", is_flag=True, help="End jobs that can be run again, when they have saved their state.")
@click.option(
    "--grace",
    metavar="SECONDS",
    type=click.IntRange(1, MOST_SAVE_S),
    help="With --requeue: how long they may save; else as each job says.",
)
@click.argument("hosts", nargs=-1)
def drain(
    envdir: str | None,
    queues: tuple[str, ...],
    comment: str,
    wait: bool,
    limit: float | None,
    requeue: bool,
    grace: int | None,
    hosts: tuple[str, ...],
) -> None:
    """Close hosts (none named: this one) or queues, and say which of their jobs are left.

    With --requeue jobs of hosts run again elsewhere that are rerunnable (-r), ask for it (--restart-on drain), or save
    their state when they are asked to (--signal); the others run on. Without it no job is ended.
    """
    if requeue and queues:
        raise BadRequest("--requeue is for hosts, not for queues (-q)")
    if grace is not None and not requeue:
        raise BadRequest("--grace belongs to --requeue")
    names = hosts or (() if queues else (host_name(),))
    with connect(envdir) as client:
        if requeue:
            draining.requeue(client, names, comment, grace, zone_of(os.environ), click.echo)
        for problem in () if requeue else draining.close(client, names, queues, comment):
            raise BadRequest(problem)
        is_empty = draining.drain(client, names, queues, click.echo, wait=wait or limit is not None, limit_s=limit)
    if not is_empty and (wait or limit is not None):
        sys.exit(FAILURE)


@click.command("orphans")
@OPTION_ENVDIR
@click.option("--end", "ends", is_flag=True, help="End those that run, and forget those that are over.")
@click.argument("names", nargs=-1, metavar="[all | HOST | JOB.ATTEMPT] ...")
def orphans(envdir: str | None, ends: bool, names: tuple[str, ...]) -> None:
    """List attempts that run on hosts though the store has no record of them; end them.

    They are there when the store was lost, or put back from an older copy. What they hold is given to nobody else.
    """
    if ends and not names:
        raise BadRequest("say which: gadmin orphans --end all, or hosts, or JOB.ATTEMPT as they are listed")
    with connect(envdir) as client:
        if ends:
            for answer in client.end_orphans(names):
                click.echo(answer.text)
            return
        rows = [
            _row(host.name, each)
            for host in client.hosts()
            for each in host.orphans
            if not names or {"all", host.name, each.name} & set(names)
        ]
    if not rows:
        click.echo("No attempts without a record in the store")
        return
    rows = [("HOST_NAME", "ATTEMPT", "STAT", "SLOTS", "GPUS"), *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + f"  {row[4]}")


def _row(host: str, orphan: OrphanView) -> tuple[str, ...]:
    gpus = " ".join(map(str, orphan.gpus)) or "-"
    return (host, orphan.name, "over" if orphan.over else "runs", str(orphan.slots), gpus)
