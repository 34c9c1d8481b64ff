"""`gsched down`: the daemons of a private cluster are stopped. It imports nothing that reads configurations."""

from __future__ import annotations

import click

from gsched.app.clusters import private_down
from gsched.app.clusters.private_home import Home
from gsched.app.commands.command_options import OPTION_DIR


@click.command()
@OPTION_DIR
@click.option("--kill", is_flag=True, help="End the running jobs as well; without it they go on.")
def down(folder: str | None, kill: bool) -> None:
    """Stop the daemons of a private cluster."""
    private_down.down(Home.find(folder), kill=kill, say=click.echo)
