"""lsfstartup, lsfshutdown and lsf_daemons: all daemons of the cluster of the environment, under the names of LSF's.

In a private cluster they do what `gsched up`, `down` and `status` do, on this machine; in a shared one they start and
stop the daemons of all hosts. Jobs go on while daemons are away.
Source of words and questions: lsfstartup(8), lsfshutdown(8), lsf_daemons(8) of LSF 10.1.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from gsched.app.clusters import private_down, private_status, private_up
from gsched.app.clusters.daemon_control import cluster_of
from gsched.app.clusters.fleet_control import here, start_all, stop_all, stop_doors
from gsched.app.clusters.private_config import config_of
from gsched.app.clusters.private_home import Home
from gsched.app.commands.command_options import FAILURE, asked, conf_of
from gsched.app.commands.master_client import connect
from gsched.base.errors import LSF_FAILURE

OPTION_FORCE = click.option("-f", "force", is_flag=True, help="Does not ask.")


def _home() -> Home:
    return cluster_of(conf_of(None))


def _start() -> None:
    home = _home()
    home.run_dir()  # a cluster is never made here
    config = config_of(home)
    if config.is_shared:
        _say_each(start_all(config), "started")
        return
    private_up.up(home, sim_gpus=None, hosts=(), gpu_resources=True, say=click.echo)


def _stop() -> None:
    home = _home()
    config = config_of(home)
    if not config.is_shared:
        private_down.down(home, kill=False, say=click.echo)
        return
    with connect(None) as client:
        found = stop_all(client, config)
    # The doors last: the words to all others may have gone through one.
    doors = stop_doors(config)
    for host, problem in doors.items():
        if problem and not found.get(host):
            found[host] = f"its door goes on: {problem}"
    click.echo(f"the master on {config.master_host} ends")
    _say_each(found, "stopped")


def _say_each(problems: Mapping[str, str], done: str) -> None:
    """A line for each host; the command fails where one of them has failed."""
    for host, problem in problems.items():
        click.echo(f"{host}: {problem.removeprefix(f'{host}: ') or done}", err=bool(problem))
    if any(problems.values()):
        sys.exit(LSF_FAILURE)


def start_cluster(*, force: bool) -> None:
    """Ask, unless told not to, and start what does not run."""
    if not asked("Do you really want to start up the daemons of the cluster?", force=force):
        sys.exit(LSF_FAILURE)
    _start()


def stop_cluster(*, force: bool) -> None:
    """Ask, unless told not to, and stop all daemons."""
    if not asked("Do you really want to shut down the daemons of the cluster?", force=force):
        sys.exit(LSF_FAILURE)
    _stop()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@OPTION_FORCE
def lsfstartup(force: bool) -> None:
    """Start the daemons of the cluster that do not run: on all hosts of a shared cluster, by LSF_RSH (ssh)."""
    start_cluster(force=force)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@OPTION_FORCE
def lsfshutdown(force: bool) -> None:
    """Stop the daemons of the cluster, on all hosts of a shared cluster (doors by LSF_RSH); jobs go on."""
    stop_cluster(force=force)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("word", type=click.Choice(("start", "stop", "restart", "status")))
def lsf_daemons(word: str) -> None:
    """Start, stop or restart the daemons of the cluster on this machine, or show which run."""
    home = _home()
    if home.exists and (config := config_of(home)).is_shared:
        sys.exit(here(config, word))
    if word in ("stop", "restart"):
        _stop()
    if word in ("start", "restart"):
        _start()
    if word == "status" and not private_status.status(_home(), say=click.echo):
        sys.exit(FAILURE)
