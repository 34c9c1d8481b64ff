"""Private clusters: `gsched up`, `down`, `status`. One machine, one owner, no set-up; everything lies in one folder.

A cluster that is up, or partly up after a crash, is completed, never duplicated. An existing configuration is kept.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import socket
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from gsched.app.clusters import daemons, lost_locks
from gsched.app.clusters.draining import Say
from gsched.app.clusters.private_daemons import is_starting, start_missing
from gsched.base.envdir import in_home, read_setting
from gsched.base.errors import BadRequest, ConfigError, Conflict, GschedError, PermissionDenied
from gsched.config.configuration import load
from gsched.config.template import NewConfiguration, private_texts, write_private
from gsched.model.config import ClusterConfig, Locations
from gsched.model.jobs.job import PENDING
from gsched.model.views.view import JobFilter
from gsched.probe.gpu import inventory_path
from gsched.probe.simulated.inventory import parse_sim_spec, write_inventory
from gsched.store.safeguards.filesystem import check_filesystem
from gsched.wire.address import DEFAULT_DIR, MASTER_FILE, MAX_SOCKET_PATH, is_shared, read_address
from gsched.wire.calls.client import Client
from gsched.wire.identity.caller_identity import user_name

SIMULATED_SLOTS = 16
LONGEST_SOCKET = "master.sock.new"
CLUSTER = "private"


@dataclass(frozen=True, slots=True)
class Home:
    """Where a private cluster lives. `folder` is where it is (or would be) made, `conf` its configuration."""

    folder: Path
    conf: Path

    @classmethod
    def find(cls, folder: str | None) -> Home:
        """--dir wins over GSCHED_ENVDIR, which wins over ~/.gsched. Raises BadRequest."""
        if folder == "":  # as of "$DIR" where DIR is not set: the user's own cluster is not meant
            raise BadRequest("--dir: the name of the folder is empty")
        if folder:
            base = Path(os.path.abspath(in_home(folder, os.environ)))
            return cls(base, base / "conf")
        named = os.environ.get("GSCHED_ENVDIR")
        if named:
            conf = Path(os.path.abspath(named))
            return cls(conf.parent, conf)
        base = Path(in_home(DEFAULT_DIR, os.environ))
        return cls(base, base / "conf")

    @property
    def exists(self) -> bool:
        return (self.conf / "lsf.conf").exists()

    def config(self) -> ClusterConfig:
        """The configuration. Raises BadRequest if there is no cluster, ConfigError if its files are wrong."""
        if not self.exists:
            raise BadRequest(f"there is no cluster in {self.folder}: make one with `gsched up --dir {self.folder}`")
        return load(str(self.conf), host_name()).required()

    def require_private(self) -> None:
        """Raise BadRequest for a shared cluster: its daemons belong to several users and hosts."""
        if self.exists and is_shared(str(self.conf)):
            raise BadRequest(
                f"the cluster of {self.conf} is a shared one (LSB_MBD_PORT): its daemons are services of its hosts, "
                "`gsched up`, `down` and `status` are for private ones"
            )

    def run_dir(self) -> str:
        """Where the locks of the daemons lie, also while the files have errors. Raises BadRequest."""
        if not self.exists:
            raise BadRequest(f"there is no cluster in {self.folder}: make one with `gsched up --dir {self.folder}`")
        found = read_setting(str(self.conf), "GSCHED_RUNDIR")
        return found or self.config().locations.run_dir


def host_name() -> str:
    """This machine's name without its domain."""
    return socket.gethostname().split(".")[0]


# -- up ---------------------------------------------------------------------------------------------------------------


def up(
    home: Home,
    *,
    sim_gpus: str | None,
    hosts: Sequence[str],
    gpu_resources: bool,
    say: Say,
    new_store: bool = False,
    store: str | None = None,
) -> None:
    """Make the cluster if there is none, start what does not run. Raises GschedError.

    `store`: where jobs and history are to be kept from now on; None: where they are.
    """
    home.require_private()
    home.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_filesystem(home.folder)
    with daemons.one_at_a_time(home.folder):
        if home.exists:
            if sim_gpus is not None or hosts:
                say(f"the configuration in {home.conf} is kept: --sim-gpus and --hosts count when a cluster is made")
        else:
            try:
                _make(home, sim_gpus, list(hosts) or [host_name()], gpu_resources)
            except OSError as error:  # one of a full disk names no file
                where = error.filename or home.folder
                raise GschedError(f"the cluster cannot be made: {where}: {error.strerror}") from None
        config = home.config()
        private_folder(Path(config.locations.run_dir))
        for pid, name in lost_locks.end(home.conf, config.locations.run_dir).items():
            say(f"the {name} (process {pid}) had lost its files in {config.locations.run_dir}: it is started anew")
        if store is not None:
            config = _use_store(home, config, store, say)
        if new_store:
            _renew(config, say)
        start_missing(home.conf, config)
    say(f"cluster {config.cluster} is up: {', '.join(config.hosts)}")
    _say_gpus(home, say)
    _say_how(home, say)


def _use_store(home: Home, config: ClusterConfig, store: str, say: Say) -> ClusterConfig:
    """Move the store there, while the master is down; where that fails, the master is started again as it was."""
    moves = import_module("gsched.app.stores.store_moves")  # loads the database's modules
    address = moves.address_of(store, config.locations.store)
    if address == config.locations.store:
        say("the store is there already")
        return config
    was_up = daemons.stop(config.locations.run_dir, "master")
    try:
        moves.move_store(config, home.conf, address, say)
        return home.config()
    except BaseException:
        if was_up:
            start_missing(home.conf, config, ["master"])
        raise


def _renew(config: ClusterConfig, say: Say) -> None:
    from gsched.app.stores.renewal import renew_store  # loads the master's modules

    if daemons.running_pid(config.locations.run_dir, "master"):
        raise Conflict("the master runs: --new-store is for one whose store is lost (gsched down ends it)")
    renew_store(config, say)


def _make(home: Home, sim_gpus: str | None, hosts: list[str], gpu_resources: bool) -> None:
    base = home.folder
    inventories = {} if sim_gpus is None else {host: parse_sim_spec(sim_gpus, host) for host in hosts}
    folders = Locations(
        conf_dir=str(home.conf),
        state_dir=str(base / "state"),
        log_dir=str(base / "log"),
        server_dir=str(base / "etc"),
        run_dir=str(_run_dir(base)),
        spool_dir=str(base / "spool"),
    )
    new = NewConfiguration(
        cluster=CLUSTER,
        hosts=hosts,
        slots=SIMULATED_SLOTS if inventories else os.cpu_count() or 1,
        folders=folders,
        gpu_provider=f"sim:{base / 'gpus'}" if inventories else "nvml",
        gpu_resources=gpu_resources,
        administrators=[user_name(os.getuid())],
    )
    private_texts(new)  # what can be refused is refused before anything is made
    for name in ("state", "log", "etc", "spool", "gpus"):
        (base / name).mkdir(mode=0o700, exist_ok=True)
    for host, gpus in inventories.items():
        write_inventory(base / "gpus" / f"{host}.json", gpus)
    _write_elim(base / "etc" / "elim.gpu")
    write_private(str(home.conf), new)


def _write_elim(path: Path) -> None:
    """elim.gpu is one more program in LSF_SERVERDIR; whoever wants another one replaces it."""
    code = 'import sys; from gsched.cli.session.call import run_local; sys.exit(run_local(["elim.gpu"]))'
    path.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)}\n", encoding="utf8")
    path.chmod(0o755)


def _run_dir(base: Path) -> Path:
    """A folder for sockets whose path is short enough: the cluster's own, or one under /tmp for a deep folder."""
    if len(os.fsencode(base / "run" / LONGEST_SOCKET)) <= MAX_SOCKET_PATH:
        return base / "run"
    digest = hashlib.sha256(os.fsencode(base)).hexdigest()[:16]
    parent = Path("/tmp") / f"gsched-{os.getuid()}"
    private_folder(parent)
    return parent / digest


def private_folder(path: Path) -> None:
    """Make the folder with mode 0700; refuse one that somebody else made or may enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionDenied(f"{path} does not belong to {user_name(os.getuid())}: remove it or choose another --dir")
    if stat.S_IMODE(status.st_mode) & 0o077:
        path.chmod(0o700)


def _say_gpus(home: Home, say: Say) -> None:
    with Client(read_address(str(home.conf)), wait_s=5.0) as client:
        for host in client.hosts():
            modes: dict[str, int] = {}
            for view in host.gpus:
                word = view.gpu.mode.value if view.gpu.mode else "unknown mode"
                modes[word] = modes.get(word, 0) + 1
            counts = ", ".join(f"{count} {word}" for word, count in modes.items())
            kind = "SIMULATED GPUs" if host.gpu_provider == "simulated" else "GPUs"
            why = "" if host.gpus or not host.notes else f" ({host.notes[0]})"
            say(f"{host.name}: {host.max_slots} slots, {len(host.gpus)} {kind}{f' ({counts})' if counts else ''}{why}")


def _say_how(home: Home, say: Say) -> None:
    if home.conf != Path(in_home(DEFAULT_DIR, os.environ)) / "conf":
        say(f"use it: export GSCHED_ENVDIR={shlex.quote(str(home.conf))}")
    say("try:    gsub hostname; gjobs -a; ghosts -l; gsched down ends it")


# -- down and status --------------------------------------------------------------------------------------------------


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
    try:
        return f"cluster {home.config().cluster}"
    except ConfigError:
        return f"the cluster in {home.folder}"


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


def status(home: Home, say: Say) -> bool:
    """Say what runs; returns whether everything does. Raises GschedError if there is no cluster."""
    home.require_private()
    run_dir = home.run_dir()
    whole = True
    try:
        names = ["master", *_agents(home.config()), "door"]
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


def inventory_of(config: ClusterConfig, host: str) -> Path:
    """Inventory file of a simulated host. Raises BadRequest if the cluster's GPUs are not simulated."""
    if host not in config.hosts:
        raise BadRequest(f"{host}: Bad host name, host group name or cluster name")
    path = inventory_path(config.gpu_provider, host)
    if path is None:
        raise BadRequest(f"the GPUs of this cluster are not simulated (GSCHED_GPU_PROVIDER is {config.gpu_provider})")
    return path
