"""`gsched status` and `sim-gpu`: what runs of a private cluster, and its simulated GPUs changed."""

from __future__ import annotations

import sys

import click

from gsched.app.clusters import private_status
from gsched.app.clusters.private_config import config_of, inventory_of
from gsched.app.clusters.private_home import Home
from gsched.app.commands.command_options import FAILURE, OPTION_DIR
from gsched.base.errors import BadRequest
from gsched.base.idset import parse_idset
from gsched.probe.simulated.inventory import change


@click.command()
@OPTION_DIR
def status(folder: str | None) -> None:
    """Show which daemons run; exit code 1 when one is missing."""
    if not private_status.status(Home.find(folder), say=click.echo):
        sys.exit(FAILURE)


@click.command("sim-gpu")
@click.argument("indexes")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
@click.option("--host", metavar="HOST", help="Which simulated host (default: the only one).")
@OPTION_DIR
def sim_gpu(indexes: str, settings: tuple[str, ...], host: str | None, folder: str | None) -> None:
    """Change simulated GPUs: gsched sim-gpu 0-3 compute_mode=exclusive_process

    Names: compute_mode; problem and fault (a text, empty for none; a GPU with a fault has failed); xid (an error that
    the driver tells of); and the readings used_mib, utilization_percent, memory_utilization_percent, temperature_c,
    power_w, ecc_errors, ecc_corrected, throttle, pstate (- for not known).
    """
    config = config_of(Home.find(folder))
    if host is None and len(config.hosts) > 1:
        raise BadRequest(f"say which host with --host: {', '.join(config.hosts)}")
    name = host or next(iter(config.hosts))
    wanted: dict[str, str] = {}
    for item in settings:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise BadRequest(f"'{item}' is not NAME=VALUE, as in compute_mode=default")
        wanted[key] = value
    change(inventory_of(config, name), name, parse_idset(indexes), wanted)
