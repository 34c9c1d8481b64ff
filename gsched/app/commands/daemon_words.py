"""`gsched master`, `agent` and `door`: the daemons in the foreground.

Each imports its own daemon when it runs: none needs the code of the others, nor does `gsched --help`.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from gsched.app.clusters.foreground import serve
from gsched.app.clusters.private_home import host_name
from gsched.app.commands.command_options import OPTION_ENVDIR
from gsched.base.machine.large_imports import LargeImport
from gsched.base.machine.open_files import raise_limit
from gsched.base.machine.service import ServiceManager
from gsched.config.configuration import load
from gsched.wire.identity.identity_assertion import IdentityAssertion

OPTION_HOST = click.option("--host", metavar="HOST", help="Name of the host in lsf.cluster (default: this machine's).")


@click.command()
@OPTION_ENVDIR
@OPTION_HOST
def master(envdir: str | None, host: str | None) -> None:
    """Run the master in the foreground, logging to standard error; SIGTERM ends it."""
    serve("master", envdir, lambda conf, manager: _run_master(conf, host or host_name(), manager))


def _run_master(conf: str, host: str, manager: ServiceManager) -> int:
    with LargeImport():
        from gsched.master import daemon  # for its start-up time

    return daemon.run(conf, host, manager)


@click.command()
@OPTION_ENVDIR
@OPTION_HOST
def agent(envdir: str | None, host: str | None) -> None:
    """Run the agent of a host in the foreground; its end leaves the jobs running."""
    name = host or host_name()
    serve(f"agent-{name}", envdir, lambda conf, manager: _run_agent(conf, name, manager))


def _run_agent(conf: str, host: str, manager: ServiceManager) -> int:
    with LargeImport():
        from gsched.agent import daemon  # for its start-up time

    # Elims are told which host they report for: several agents may share a machine.
    os.environ.update(GSCHED_HOSTNAME=host, GSCHED_ENVDIR=conf)
    return daemon.run(conf, host, manager)


@click.command()
@OPTION_ENVDIR
@OPTION_HOST
def door(envdir: str | None, host: str | None) -> None:
    """Run the door in the foreground: the warm process that runs the commands of this host's users."""
    serve("door", envdir, lambda conf, manager: _run_door(conf, host, manager))


def _run_door(conf: str, host: str | None, manager: ServiceManager) -> int:
    from gsched.door import server  # for its start-up time

    raise_limit()
    config = load(conf).required()
    socket = str(Path(config.folder_of("door")) / "door.sock")
    assertion = IdentityAssertion(config, host or host_name()) if config.is_shared else None
    server.serve(socket, configuration=Path(conf), assertion=assertion, manager=manager)
    return 0
