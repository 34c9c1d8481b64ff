"""Stopping and starting single daemons of a cluster on this machine: gadmin mbdrestart, hrestart, hshutdown, hstartup.

Jobs go on while their daemons are away. It never touches a daemon that another machine runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gsched.app.clusters import daemons
from gsched.app.clusters.private_config import config_of
from gsched.app.clusters.private_daemons import start_missing
from gsched.app.clusters.private_home import Home, host_name
from gsched.base.errors import BadRequest, GschedError


def cluster_of(conf: str) -> Home:
    """The cluster whose configuration folder this is."""
    return Home(Path(conf).parent, Path(conf))


def restart_master(home: Home) -> None:
    """Stop the master, start it again with the files as they are now. Raises BadRequest when it does not run here."""
    run_dir = home.run_dir()
    if not daemons.running_pid(run_dir, "master"):
        raise BadRequest("the master does not run on this machine: restart it where it runs, or use gsched up")
    with daemons.one_at_a_time(home.folder):
        daemons.stop(run_dir, "master")
        start_missing(home.conf, config_of(home), ["master"])


def stop_agent(home: Home, host: str) -> None:
    """End the host's agent; its jobs go on. Raises BadRequest when another machine runs it, or nobody."""
    run_dir = home.run_dir()
    with daemons.one_at_a_time(home.folder):
        if not daemons.stop(run_dir, f"agent-{host}"):
            raise BadRequest(f"{host}: no agent of that host runs on this machine")


def agents_of(home: Home, action: str, hosts: Sequence[str]) -> dict[str, str]:
    """`start`, `stop` or `restart` agents of this machine; host -> what is wrong, empty where it is done."""
    acts = {"start": (start_agent,), "stop": (stop_agent,), "restart": (stop_agent, start_agent)}[action]
    problems = {}
    for host in hosts:
        try:
            for act in acts:
                act(home, host)
            problems[host] = ""
        except GschedError as problem:
            problems[host] = problem.text
    return problems


def start_agent(home: Home, host: str) -> None:
    """Start the host's agent where it does not run. Raises BadRequest for a host of another machine."""
    if host != host_name() and f"agent-{host}" not in daemons.known(home.run_dir()):
        raise BadRequest(f"{host}: its agent is started on the host itself: gsched agent --host {host}")
    with daemons.one_at_a_time(home.folder):
        start_missing(home.conf, config_of(home), [f"agent-{host}"])
