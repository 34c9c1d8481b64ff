"""`gadmin init-ca` and `gadmin host-cert`: the certificates of a shared cluster, and what to copy where."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from gsched.app.clusters.private_home import host_name
from gsched.app.commands.command_options import OPTION_ENVDIR, conf_of
from gsched.app.installation import authority
from gsched.app.installation.install import share_key
from gsched.base.errors import BadRequest
from gsched.config.configuration import load
from gsched.model.config import ClusterConfig
from gsched.wire.address import DOOR_FILE, write_address

CA_DAYS, HOST_DAYS = 3650, 825
OPTION_DAYS = click.option(
    "--days",
    default=HOST_DAYS,
    show_default=True,
    metavar="N",
    type=int,
    help="How long a host's certificate counts.",
)


@click.command("init-ca")
@OPTION_ENVDIR
@OPTION_DAYS
@click.option("--ca-days", default=CA_DAYS, show_default=True, metavar="N", type=int, help="How long the CA counts.")
def init_ca(envdir: str | None, days: int, ca_days: int) -> None:
    """Make a CA for a shared cluster, and a certificate for each host of lsf.cluster.

    The files lie in GSCHED_TLSDIR of this machine; nothing that is there already is replaced.
    """
    config = _config(envdir)
    folder = config.network.tls_dir
    signer = authority.make_authority(folder, config.cluster, ca_days)
    click.echo(f"CA of cluster {config.cluster}: {folder}/ca.crt; its key, {folder}/ca.key, stays on this machine")
    for host in authority.missing_hosts(folder, list(config.hosts)):
        authority.make_host(folder, signer, host, days)
    _name_the_door(config)
    share_key(config, host_name(), click.echo)
    _say_what_to_copy(config, list(config.hosts), click.echo)


@click.command("host-cert")
@OPTION_ENVDIR
@OPTION_DAYS
@click.option("--renew", is_flag=True, help="Replace the key and the certificate that are there.")
@click.option("--revoke", is_flag=True, help="Have the one that is replaced count no longer: its key was stolen.")
@click.argument("hosts", nargs=-1, required=True)
def host_cert(envdir: str | None, days: int, renew: bool, revoke: bool, hosts: Sequence[str]) -> None:
    """Make the certificates of more hosts, or new ones for hosts whose certificates end soon."""
    if revoke and not renew:
        raise BadRequest("--revoke is for what --renew replaces")

    config = _config(envdir)
    strangers = [host for host in hosts if host not in config.hosts]
    if strangers:
        raise BadRequest(f"{', '.join(strangers)}: not in the Host section of lsf.cluster.{config.cluster}")
    signer = authority.read_authority(config.network.tls_dir)
    for host in hosts:
        if revoke:
            path = authority.revoke(config.network.tls_dir, host, time.strftime("%Y-%m-%d"))
            click.echo(f"The certificate of {host} is revoked on each host where {path} lies: copy it to all of them.")
        authority.make_host(config.network.tls_dir, signer, host, days, renew=renew)
    share_key(config, host_name(), click.echo)
    others = [host for host in config.hosts if revoke and host not in hosts]
    _say_what_to_copy(config, hosts, click.echo, others)


def _config(envdir: str | None) -> ClusterConfig:
    config = load(conf_of(envdir)).required()
    if not config.is_shared:
        raise BadRequest("a private cluster needs no certificates: LSB_MBD_PORT in lsf.conf makes it a shared one")
    return config


def _name_the_door(config: ClusterConfig) -> None:
    """Launchers trust a door of another user when it is root who named it: the file is copied with the rest."""
    folder = config.locations.conf_dir
    write_address(folder, DOOR_FILE, f"{config.folder_of('door')}/door.sock")
    (Path(folder) / DOOR_FILE).chmod(0o644)


def _say_what_to_copy(
    config: ClusterConfig, hosts: Sequence[str], say: Callable[[str], object], others: Sequence[str] = ()
) -> None:
    """`others`: hosts that need the list of what is revoked alone."""
    folder = config.network.tls_dir
    say("Copy to each host, as root; a key is for its own host alone (mode 0600, or 0640 for a group of services):")
    also = ",revoked" if os.path.lexists(f"{folder}/revoked") else ""
    for host in hosts:
        names = f"ca.crt,{host}.crt,{host}.key{also}"
        say(f"  {host}: {shlex.quote(folder)}/{{{names}}}")
    for host in others:
        say(f"  {host}: {shlex.quote(folder)}/revoked")
    say(f"and the configuration, the same on every host, with the file .door: {config.locations.conf_dir}")
