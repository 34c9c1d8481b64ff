"""`gsched up`: a private cluster is made and started. One machine, one owner, no set-up; everything lies in one folder.

A cluster that is up, or partly up after a crash, is completed, never duplicated. An existing configuration is kept.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gsched.app.clusters import daemons, lost_locks
from gsched.app.clusters.private_config import config_of
from gsched.app.clusters.private_daemons import start_missing
from gsched.app.clusters.private_home import Home, host_name
from gsched.base.envdir import in_home
from gsched.base.errors import Conflict, GschedError, PermissionDenied
from gsched.config.template import NewConfiguration, private_texts, write_private
from gsched.model.config import ClusterConfig, Locations
from gsched.probe.simulated.inventory import parse_sim_spec, write_inventory
from gsched.store.safeguards.filesystem import check_filesystem
from gsched.wire.address import DEFAULT_DIR, MAX_SOCKET_PATH, read_address
from gsched.wire.calls.client import Client
from gsched.wire.identity.caller_identity import user_name

if TYPE_CHECKING:
    from gsched.app.clusters.draining import Say

SIMULATED_SLOTS = 16
LONGEST_SOCKET = "master.sock.new"
CLUSTER = "private"


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
        config = config_of(home)
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
        return config_of(home)
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
