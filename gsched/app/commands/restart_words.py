"""Words of badmin that restart, stop and start daemons; jobs go on meanwhile.

Source of the texts and streams: badmin(8) of LSF 10.1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

import click

from gsched.app.clusters import fleet_control
from gsched.app.clusters.daemon_control import agents_of, cluster_of, restart_master
from gsched.app.clusters.private_config import config_of
from gsched.app.clusters.private_home import host_name
from gsched.app.commands.command_options import OPTION_ENVDIR, asked, conf_of
from gsched.app.commands.configuration_words import check_files
from gsched.app.commands.lsf_startup import start_cluster, stop_cluster
from gsched.app.commands.master_client import connect, leader_now
from gsched.base.errors import LSF_FAILURE, Unavailable
from gsched.model.config import ClusterConfig

FAILOVER_S = 60.0
"""How long `failover` waits for the other master to lead."""
_LOOK_S = 0.1


@click.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Taken for LSF's sake.")
@click.option("-f", "force", is_flag=True, help="Ask nothing.")
@click.option("-v", "verbose", is_flag=True, help="Taken for LSF's sake: problems are always shown.")
def mbdrestart(envdir: str | None, comment: str, force: bool, verbose: bool) -> None:
    """Check the files and restart the master; jobs go on."""
    check_files(envdir, verbose=verbose)
    if not asked("Do you want to restart MBD?", force=force):
        click.echo("MBD restart aborted.")
        sys.exit(LSF_FAILURE)
    home = cluster_of(conf_of(envdir))
    if config_of(home).is_shared:
        with connect(envdir) as client:
            fleet_control.end_master(client, "restart")
    else:
        restart_master(home)
    click.echo("MBD restart initiated")


@click.command()
@OPTION_ENVDIR
@click.option("--to", "to", default="", metavar="HOST", help="Which of the masters that wait; else any of them.")
def failover(envdir: str | None, to: str) -> None:
    """Hand over to another master of LSF_MASTER_LIST, and wait until it leads; jobs go on, commands wait a moment."""
    with connect(envdir) as client:
        chosen = client.fleet.hand_over(to)
    deadline = time.monotonic() + FAILOVER_S
    while leader_now(envdir) != chosen:
        if time.monotonic() >= deadline:
            raise Unavailable(f"{chosen} was to lead and does not: see the log of its master")
        time.sleep(_LOOK_S)
    click.echo(f"the master on {chosen} leads")


def _agents(envdir: str | None, hosts: Sequence[str], verb: str, force: bool, action: str) -> None:
    """Do it to the agents of these hosts (none: this one; all: every one), a line on standard error for each."""
    home = cluster_of(conf_of(envdir))
    config = config_of(home)
    names = list(hosts) or [host_name()]
    if names == ["all"]:
        if not asked(f"{verb} slave batch daemon on all the hosts?", force=force):
            sys.exit(LSF_FAILURE)
        names = [host.name for host in config.hosts.values() if host.server]
    known = [name for name in names if name in config.hosts]
    problems = _carry_out(envdir, config, action, known) if config.is_shared else agents_of(home, action, known)
    for name in names:
        problem = problems.get(name, f"{name}: Bad host name, host group name or cluster name")
        click.echo(problem or f"{verb} slave batch daemon on <{name}> ...... done", err=True)
    if len(known) < len(names) or any(problems.values()):
        sys.exit(LSF_FAILURE)


def _carry_out(envdir: str | None, config: ClusterConfig, action: str, hosts: Sequence[str]) -> Mapping[str, str]:
    """Host -> what is wrong with it."""
    if action == "start":
        found = fleet_control.start_agents(config, hosts)
    else:
        with connect(envdir) as client:
            found = fleet_control.order(client, action, hosts)
    return {host: problem and f"{host}: {problem.removeprefix(f'{host}: ')}" for host, problem in found.items()}


OPTION_FORCE = click.option("-f", "force", is_flag=True, help="Ask nothing.")
ARGUMENT_HOSTS = click.argument("hosts", nargs=-1)


@click.command()
@OPTION_ENVDIR
@OPTION_FORCE
@ARGUMENT_HOSTS
def hrestart(envdir: str | None, force: bool, hosts: tuple[str, ...]) -> None:
    """Restart agents (all: of every host); jobs go on. In a private cluster those of this machine."""
    _agents(envdir, hosts, "Restart", force, "restart")


@click.command()
@OPTION_ENVDIR
@OPTION_FORCE
@ARGUMENT_HOSTS
def hshutdown(envdir: str | None, force: bool, hosts: tuple[str, ...]) -> None:
    """Stop agents (all: of every host); jobs go on, and are unknown until an agent is back."""
    _agents(envdir, hosts, "Shut down", force, "stop")


@click.command()
@OPTION_ENVDIR
@OPTION_FORCE
@ARGUMENT_HOSTS
def hstartup(envdir: str | None, force: bool, hosts: tuple[str, ...]) -> None:
    """Start agents: on other hosts by LSF_RSH (ssh) and systemd. In a private cluster those of this machine."""
    _agents(envdir, hosts, "Starting up", force, "start")


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
