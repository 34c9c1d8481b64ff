"""Words of gadmin about a fleet: installing services, draining hosts and queues, versions of all hosts, metrics."""

from __future__ import annotations

import os
import sys

import click

from gsched.app.clusters import draining
from gsched.app.clusters.private import host_name
from gsched.app.commands.command_options import FAILURE, OPTION_ENVDIR, conf_of
from gsched.app.commands.lsf_startup import start_cluster, stop_cluster
from gsched.app.commands.master_client import connect
from gsched.app.installation import install
from gsched.app.installation.host_files import pack_host
from gsched.app.installation.units import COPIES_KEPT, Backups
from gsched.base.envdir import SITE_CONF_DIR
from gsched.base.errors import BadRequest
from gsched.cli.render.hosts.versions import render_versions
from gsched.cli.session.time_zone import zone_of
from gsched.config.configuration import load
from gsched.model.jobs.job_signal import MOST_SAVE_S

OPTION_ROOT = click.option("--root", metavar="DIR", default="", help="Write below DIR, for another machine.")
OPTION_FORCE = click.option("--force", is_flag=True, help="Also what somebody has changed.")
OPTION_CONF = click.option(
    "--envdir", metavar="CONF", default=SITE_CONF_DIR, show_default=True, help="Configuration folder of the services."
)


@click.command("install-units")
@click.option("--master", is_flag=True, help="The master's unit.")
@click.option("--door", is_flag=True, help="The door's unit.")
@click.option("--agent", is_flag=True, help="The agent's unit.")
@click.option("--web", is_flag=True, help="The unit of the pages for browsers.")
@OPTION_ROOT
@OPTION_CONF
@click.option("--host", metavar="HOST", default="", help="Name of the host in lsf.cluster (default: this machine's).")
@click.option("--hosts", metavar="MASTER,HOST,...", default="", help="Make a configuration for these hosts.")
@click.option("--cluster", metavar="NAME", default="gsched", show_default=True, help="Name of the new cluster.")
@click.option("--admins", metavar="USER,...", default="", help="Administrators of the new cluster.")
@click.option("--sim-gpus", metavar="SPEC", default="", help="Simulate GPUs in the new cluster, as of gsched up.")
@click.option(
    "--backups", metavar="DIR", default="", help="On the master's host: a copy of the store in DIR every day."
)
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Of these copies keep the N newest (default: 14).")
@click.option("--passphrase-file", metavar="PATH", default="", help="Encrypts configuration and keys in these copies.")
@OPTION_FORCE
def install_units(  # noqa: PLR0913 - the options of a command
    master: bool,
    door: bool,
    agent: bool,
    web: bool,
    root: str,
    envdir: str,
    host: str,
    hosts: str,
    cluster: str,
    admins: str,
    sim_gpus: str,
    backups: str,
    keep: int | None,
    passphrase_file: str,
    force: bool,
) -> None:
    """Make this installation services of systemd: those that the configuration gives this host, or those named."""
    place = install.InstallPlace(os.path.abspath(root) if root else "", os.path.abspath(envdir), host or host_name())
    new = install.NewCluster(cluster, _names(hosts), sim_gpus, _names(admins)) if hosts else None
    chosen = {"master": master, "door": door, "agent": agent, "web": web}
    wanted = [name for name, is_chosen in chosen.items() if is_chosen]
    if not backups and (keep is not None or passphrase_file):
        raise BadRequest("--keep and --passphrase-file are for --backups")
    made = Backups(backups, keep or COPIES_KEPT, passphrase_file) if backups else None
    install.install(place, wanted, new, force=force, say=click.echo, backups=made)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@click.command("uninstall-units")
@OPTION_ROOT
@OPTION_CONF
@OPTION_FORCE
def uninstall_units(root: str, envdir: str, force: bool) -> None:
    """Stop the services of this host and remove their units; jobs go on, configuration and state are kept."""
    place = install.InstallPlace(os.path.abspath(root) if root else "", os.path.abspath(envdir), host_name())
    install.uninstall(place, force=force, say=click.echo)


@click.command("host-files")
@OPTION_ENVDIR
@click.argument("host")
def host_files(envdir: str | None, host: str) -> None:
    """Write the files that HOST needs as a tar archive: the configuration, its certificate and key, and no other's.

    gadmin host-files HOST | ssh HOST tar -x -C /etc
    """
    if sys.stdout.isatty():
        raise BadRequest(f"a key is not for a screen: gadmin host-files {host} | ssh {host} tar -x -C /etc")
    pack_host(load(conf_of(envdir)).required(), host, sys.stdout.buffer)


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


@click.command()
@click.option("-f", "force", is_flag=True, help="Does not ask.")
def startup(force: bool) -> None:
    """Start the daemons of the cluster that do not run: on other hosts by LSF_RSH (ssh). LSF's lsfstartup."""
    start_cluster(force=force)


@click.command()
@click.option("-f", "force", is_flag=True, help="Does not ask.")
def shutdown(force: bool) -> None:
    """Stop the daemons of the cluster, doors of other hosts by LSF_RSH (ssh); jobs go on. LSF's lsfshutdown."""
    stop_cluster(force=force)
