"""`gsched up`: a private cluster on this machine is made and started."""

from __future__ import annotations

import click

from gsched.app.clusters import private_up
from gsched.app.clusters.private_home import Home
from gsched.app.commands.command_options import OPTION_DIR


@click.command()
@OPTION_DIR
@click.option(
    "--sim-gpus",
    metavar="SPEC",
    help="Simulate GPUs on every host: a count and a mode (4:exclusive_process, 4:shared) or an inventory file.",
)
@click.option("--hosts", metavar="A,B", default="", help="Names of several hosts, all on this machine (for tests).")
@click.option(
    "--bare", is_flag=True, help="Leave the GPU resources undefined, as in a cluster that has just been set up."
)
@click.option(
    "--new-store",
    is_flag=True,
    help="Where the store is lost, begin a new generation: jobs that are not in what is left are given up.",
)
@click.option(
    "--store",
    metavar="ADDRESS",
    help="Keep jobs and history in postgresql://USER@HOST/DATABASE, or in a file (file): what is there is moved.",
)
def up(folder: str | None, sim_gpus: str | None, hosts: str, bare: bool, new_store: bool, store: str | None) -> None:
    """Start a private cluster in the background, or complete one that is partly up."""
    names = [name.strip() for name in hosts.split(",") if name.strip()]
    private_up.up(
        Home.find(folder),
        sim_gpus=sim_gpus,
        hosts=names,
        gpu_resources=not bare,
        new_store=new_store,
        store=store,
        say=click.echo,
    )
