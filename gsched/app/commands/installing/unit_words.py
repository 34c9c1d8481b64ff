"""Words of gadmin that install services on a host, take them away, and pack what a host needs."""

from __future__ import annotations

import os
import sys

import click

from gsched.app.clusters.private_home import host_name
from gsched.app.commands.command_options import OPTION_ENVDIR, conf_of
from gsched.app.installation import install
from gsched.app.installation.host_files import pack_host
from gsched.app.installation.units import COPIES_KEPT, Backups, MonthlyArchives, Timed
from gsched.base.envdir import SITE_CONF_DIR
from gsched.base.errors import BadRequest
from gsched.config.configuration import load

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
@click.option(
    "--archives", metavar="DIR", default="", help="On the master's host: months that are over into DIR every month."
)
@click.option("--archives-keep", is_flag=True, help="Of what is archived remove nothing from the store.")
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
    archives: str,
    archives_keep: bool,
    force: bool,
) -> None:
    """Make this installation services of systemd: those that the configuration gives this host, or those named."""
    place = install.InstallPlace(os.path.abspath(root) if root else "", os.path.abspath(envdir), host or host_name())
    new = install.NewCluster(cluster, _names(hosts), sim_gpus, _names(admins)) if hosts else None
    chosen = {"master": master, "door": door, "agent": agent, "web": web}
    wanted = [name for name, is_chosen in chosen.items() if is_chosen]
    if not backups and (keep is not None or passphrase_file):
        raise BadRequest("--keep and --passphrase-file are for --backups")
    if archives_keep and not archives:
        raise BadRequest("--archives-keep is for --archives")
    made = Backups(backups, keep or COPIES_KEPT, passphrase_file) if backups else None
    timed = Timed(made, MonthlyArchives(archives, archives_keep) if archives else None)
    install.install(place, wanted, new, force=force, say=click.echo, timed=timed)


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
