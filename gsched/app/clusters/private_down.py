"""`gsched down`: the daemons of a private cluster are stopped, in the order that loses nothing.

The configuration is not read: it may have errors, and what reads it takes as long to import as all that is needed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsched.app.clusters import daemons, lost_locks
from gsched.app.clusters.private_home import Home
from gsched.base.errors import GschedError
from gsched.model.jobs.job import PENDING
from gsched.model.views.view import JobFilter
from gsched.wire.address import MASTER_FILE, read_address
from gsched.wire.calls.client import Client

if TYPE_CHECKING:
    from gsched.app.clusters.draining import Say

FILE_OF_HOSTS = "lsf.cluster."


def down(home: Home, *, kill: bool, say: Say) -> None:
    """Stop all daemons; running jobs go on unless `kill`, pending ones wait for the next `up`. Raises GschedError."""
    home.require_private()
    run_dir = home.run_dir()
    with daemons.one_at_a_time(home.folder):
        _down(home, run_dir, kill, say)


def _down(home: Home, run_dir: str, kill: bool, say: Say) -> None:
    closed: list[str] = []
    if daemons.running_pid(run_dir, "master"):
        closed = _close_hosts(home) if kill else []
        _settle_jobs(home, kill, say)
    others = sorted(daemons.known(run_dir) - {"master"}, key=lambda name: name != "door")
    stopped = [name for name in others if daemons.stop(run_dir, name)]
    if closed:
        _open_hosts(home, closed, say)
    stopped += ["master"] if daemons.stop(run_dir, "master") else []
    lost = lost_locks.end(home.conf, run_dir)
    if kill and "master" in lost.values():
        say("nothing reached the master: running jobs go on; `gsched up` and `gsched down --kill` end them")
    stopped += lost.values()
    # Nobody is coming back: commands need not wait for a master that was ended on purpose.
    (home.conf / MASTER_FILE).unlink(missing_ok=True)
    say(f"{_name(home)} {'is down' if stopped else 'was not up'}")


def _name(home: Home) -> str:
    """What the cluster is called, by the name of the file of its hosts: the files may have errors."""
    found = list(home.conf.glob(f"{FILE_OF_HOSTS}*"))
    return (
        f"cluster {found[0].name.removeprefix(FILE_OF_HOSTS)}" if len(found) == 1 else f"the cluster in {home.folder}"
    )


def _settle_jobs(home: Home, kill: bool, say: Say) -> None:
    try:
        with Client(read_address(str(home.conf)), wait_s=5.0) as client:
            running = [job.job_id for job in client.jobs(JobFilter(user="all")) if job.state not in PENDING]
            if running and kill:
                client.control("kill", running)
                client.wait(running, timeout_s=60.0)
                say(f"{len(running)} running jobs were ended")
            elif running:
                say(f"{len(running)} jobs go on running; the next `gsched up` takes them up again (--kill ends them)")
            unrecorded = sum(not each.over for host in client.hosts() for each in host.orphans)
            if unrecorded:
                how = "while the cluster is up, `gadmin orphans --end all` ends them"
                say(f"runs that go on without a record in the store: {unrecorded}; {how}")
    except (GschedError, TimeoutError) as error:
        say(f"the running jobs were left alone: {error}")


def _close_hosts(home: Home) -> list[str]:
    """Close the open hosts, or pending jobs would start in the place of those that are ended. Returns their names."""
    try:
        with Client(read_address(str(home.conf)), wait_s=5.0) as client:
            names = [host.name for host in client.hosts() if not host.closed_by]
            return client.host_control("close", names, "gsched down --kill") if names else []
    except GschedError:
        return []  # settling the jobs says what is wrong with the master


def _open_hosts(home: Home, names: list[str], say: Say) -> None:
    """Open them for the next `gsched up`; without agents nothing starts on them until then."""
    try:
        with Client(read_address(str(home.conf)), wait_s=5.0) as client:
            client.host_control("open", names)
    except GschedError as error:
        say(f"the hosts {' '.join(names)} stay closed (gadmin hopen all opens them): {error}")
