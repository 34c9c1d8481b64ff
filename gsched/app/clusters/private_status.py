"""`gsched status`: which daemons of a private cluster run, and what of it needs attention. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsched.app.clusters import daemons, lost_locks
from gsched.app.clusters.private_config import config_of
from gsched.app.clusters.private_daemons import is_starting
from gsched.app.clusters.private_home import Home
from gsched.base.errors import ConfigError
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import PENDING
from gsched.model.views.view import JobFilter
from gsched.wire.address import read_address
from gsched.wire.calls.client import Client

if TYPE_CHECKING:
    from gsched.app.clusters.draining import Say


def status(home: Home, say: Say) -> bool:
    """Say what runs; returns whether everything does. Raises GschedError if there is no cluster."""
    home.require_private()
    run_dir = home.run_dir()
    whole = True
    try:
        names = ["master", *_agents(config_of(home)), "door"]
    except ConfigError as error:
        say(f"the configuration has errors; what runs goes on with the last good one:\n{error.errors}")
        whole, names = False, sorted(daemons.known(run_dir))
    for name in names:
        pid = daemons.running_pid(run_dir, name)
        whole = whole and bool(pid)
        say(f"{name:<20} {f'running (process {pid})' if pid else 'not running'}")
    for pid, name in lost_locks.find(home.conf, run_dir).items():
        say(f"attention: the {name} of process {pid} has lost its files in {run_dir}: `gsched up` starts it anew")
        whole = False
    if is_starting(home.conf, run_dir):
        say("attention: the master is starting and does not answer yet")
        whole = False
    elif daemons.running_pid(run_dir, "master"):
        with Client(read_address(str(home.conf)), wait_s=5.0) as client:
            view = client.cluster()
            jobs = list(client.jobs(JobFilter(user="all")))
            pending = sum(job.state in PENDING for job in jobs)
            say(f"jobs: {len(jobs) - pending} started, {pending} pending; last cycle: {view.cycle_summary}")
            for text in (*([view.store_problem] if view.store_problem else []), *view.quarantined):
                say(f"attention: {text}")
    say(f"configuration: {home.conf}")
    return whole


def _agents(config: ClusterConfig) -> list[str]:
    return [f"agent-{host}" for host in config.hosts]
