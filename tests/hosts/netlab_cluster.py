"""A shared cluster on the hosts of a lab: configuration, certificates, and its daemons as processes of the hosts.

    cluster = shared_cluster(lab, [a, b, c], sim_gpus="2:exclusive_process")
    cluster.submit("sleep", "10", user="alice", host=b)

The first host runs the master. Master and doors run as the user gsched, agents as root, as the units do it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from netlab import BIN, Host, Lab
from netlab_machine import USERS

from gsched.config.template import NewConfiguration, private_texts
from gsched.model.config import Locations
from gsched.probe.simulated.inventory import parse_sim_spec, write_inventory
from tests.support.asking import pause_s

CLUSTER = "lab"
ENVDIR = "/etc/gsched"
PORT = 6881
SERVICE_USER = "gsched"
PATIENCE_S = 300.0
"""Catches a hang only: a machine may be slow, and busy with other tests."""
FOLDERS = Locations(
    conf_dir=ENVDIR,
    state_dir="/var/lib/gsched",
    log_dir="/var/log/gsched",
    server_dir="/etc/gsched/elims",
    run_dir="/run/gsched",
    spool_dir="/var/spool/gsched",
)
SIMULATED = "/var/lib/gsched-gpus"
"""Where the simulated GPUs of a host are written down, on its own disk."""


class SharedCluster:
    """Real daemons on hosts of a lab, and commands that are run there by its users."""

    def __init__(self, lab: Lab, hosts: Sequence[Host]) -> None:
        self.lab = lab
        self.hosts = list(hosts)
        self.daemons: dict[tuple[str, str], subprocess.Popen[Any]] = {}

    @property
    def master_host(self) -> Host:
        return self.hosts[0]

    # -- set up -------------------------------------------------------------------------------------------------------

    def install(
        self,
        *,
        sim_gpus: str,
        slots: int,
        settings: Mapping[str, str],
        files: Mapping[str, str],
        others: Sequence[str],
    ) -> None:
        """Folders, configuration and certificates on every host."""
        texts = _texts([*(host.name for host in self.hosts), *others], sim_gpus, slots, settings)
        for name, text in files.items():
            texts[name] = text.removeprefix("=") if text.startswith("=") else texts.get(name, "") + "\n" + text
        for host in self.hosts:
            self.prepare(host)
            for name, text in texts.items():
                host.path(f"{ENVDIR}/{name}").write_text(text)
            if sim_gpus:
                folder = host.path(SIMULATED)
                folder.mkdir(exist_ok=True)
                write_inventory(folder / f"{host.name}.json", parse_sim_spec(sim_gpus, host.name))
                elim = host.path(f"{FOLDERS.server_dir}/elim.gpu")
                elim.write_text(f"#!/bin/sh\nexec {BIN}/elim.gpu\n")
                elim.chmod(0o755)
        self.master_host.run(["gadmin", "init-ca"], check=True)
        for host in self.hosts:
            self.certify(host)

    def prepare(self, host: Host) -> None:
        """The folders of a host, as an installation makes them. What lies in /run is made anew at each boot."""
        owner = USERS[SERVICE_USER]
        for path, mode, uid in (
            (ENVDIR, 0o755, 0),
            (f"{ENVDIR}/tls", 0o755, 0),
            (FOLDERS.server_dir, 0o755, 0),
            (FOLDERS.state_dir, 0o700, owner),
            (FOLDERS.log_dir, 0o755, owner),
            (FOLDERS.spool_dir, 0o711, 0),
            (FOLDERS.run_dir, 0o755, 0),
            (f"{FOLDERS.run_dir}/master", 0o700, owner),
            (f"{FOLDERS.run_dir}/door", 0o755, owner),
            (f"{FOLDERS.run_dir}/agent", 0o755, 0),
        ):
            folder = host.path(path)
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)
            os.chown(folder, uid, uid)

    def certify(self, host: Host) -> None:
        """Copy the host's certificate and key from where they were made, the key for the service's group, and .door."""
        source = self.master_host.path(f"{ENVDIR}/tls")
        target = host.path(f"{ENVDIR}/tls")
        for name in ("ca.crt", f"{host.name}.crt", f"{host.name}.key", "../.door"):
            if host is not self.master_host:
                (target / name).write_bytes((source / name).read_bytes())
        key = target / f"{host.name}.key"
        os.chown(key, 0, USERS[SERVICE_USER])
        key.chmod(0o640)

    # -- daemons ------------------------------------------------------------------------------------------------------

    def start(self, *, is_ready: bool = True) -> None:
        """Start all daemons; with `is_ready` wait until every host is ok."""
        self.start_daemon(self.master_host, "master")
        for host in self.hosts:
            self.start_host(host)
        if is_ready:
            self.until(lambda: set(self.states().values()) == {"ok"}, "the hosts do not become ok")

    def start_host(self, host: Host) -> None:
        """What runs on every host: agent and door."""
        self.start_daemon(host, "agent")
        self.start_daemon(host, "door")

    def start_daemon(
        self, host: Host, name: str, *, as_host: str = "", env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[Any]:
        """Start `master`, `agent`, `door` or `web` on a host, as the user that it runs as."""
        words = ["gsched", name, "--envdir", ENVDIR, *(["--host", as_host or host.name] if name == "agent" else [])]
        words = ["sh", "-c", 'umask 077 && exec "$@"', "sh", *words]  # UMask= of the units
        with host.path(f"{FOLDERS.log_dir}/{name}.log").open("ab") as log:
            process = host.popen(
                words,
                user="root" if name in ("agent", "web") else SERVICE_USER,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.daemons[host.name, name] = process
        return process

    def kill(self, host: Host, name: str, number: int = signal.SIGKILL) -> None:
        """End a daemon and wait until it is gone."""
        host.kill(self.daemons.pop((host.name, name)), number)

    def power_off(self, host: Host) -> None:
        """Cut the power of a host."""
        host.power_off()
        self.daemons = {key: process for key, process in self.daemons.items() if key[0] != host.name}

    def boot(self, host: Host) -> None:
        """Turn a host on again with what runs on it."""
        host.boot()
        self.prepare(host)
        if host is self.master_host:
            self.start_daemon(host, "master")
        self.start_host(host)

    def log(self, host: Host, name: str) -> str:
        """What a daemon has logged."""
        with contextlib.suppress(FileNotFoundError):
            return (host.folder / FOLDERS.log_dir.lstrip("/") / f"{name}.log").read_text(errors="replace")
        return ""

    # -- use ----------------------------------------------------------------------------------------------------------

    def run(
        self, *words: str, user: str = "alice", host: Host | None = None, check: bool = True, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as a user of a host (default: the master's)."""
        return (host or self.master_host).run(words, user=user, check=check, **options)

    def submit(self, *words: str, **options: Any) -> int:
        """gsub; returns the job's number."""
        done = self.run("gsub", *words, **options)
        found = re.search(r"Job <(\d+)>", done.stdout)
        assert found is not None, done.stdout + done.stderr
        return int(found[1])

    def field(self, job_id: int, name: str, **options: Any) -> str:
        """A field of a job as gjobs -o prints it."""
        done = self.run("gjobs", "-noheader", "-u", "all", "-a", "-o", name, str(job_id), **options)
        return done.stdout.strip()

    def becomes(self, job_id: int, state: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the job is in the state."""
        self.until(lambda: self.field(job_id, "stat") == state, f"job {job_id} does not become {state}", timeout_s)

    def states(self) -> dict[str, str]:
        """Host -> STATUS as ghosts prints it; empty while the master does not answer."""
        done = self.run("ghosts", "-w", user="root", check=False)
        lines = [line.split() for line in done.stdout.splitlines()[1:]]
        return {words[0]: words[1] for words in lines if len(words) > 1}

    def host_becomes(self, host: Host | str, state: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until ghosts shows the host so."""
        name = host if isinstance(host, str) else host.name
        self.until(lambda: self.states().get(name) == state, f"{name} does not become {state}", timeout_s)

    def configure(self, texts: Mapping[str, str]) -> None:
        """Append to configuration files by name on every host that is on and reconfigure; = first replaces the file."""
        for name, text in texts.items():
            for host in self.hosts:
                path = host.path(f"{ENVDIR}/{name}")
                old = "" if text.startswith("=") or not path.exists() else path.read_text()
                path.write_text(old + "\n" + text.removeprefix("="))
        self.run("gadmin", "reconfig", user=SERVICE_USER)

    def add(self, host: Host) -> None:
        """Add a host to the cluster while it runs, by the commands of docs/fleet.md."""
        self.prepare(host)
        self.hosts.append(host)
        self._write_hosts()
        self.run("gadmin", "reconfig", user=SERVICE_USER)
        self.master_host.run(["gadmin", "host-cert", host.name], check=True)
        packing = self.master_host.popen(["gadmin", "host-files", host.name], stdout=subprocess.PIPE)
        unpacking = host.popen(["tar", "-x", "-C", "/etc"], stdin=packing.stdout)
        assert (packing.wait(PATIENCE_S), unpacking.wait(PATIENCE_S)) == (0, 0)
        self.start_host(host)
        self.host_becomes(host, "ok")

    def remove(self, host: Host) -> None:
        """Take a host out of the configuration of all others."""
        self.hosts.remove(host)
        self._write_hosts()
        self.configure({})

    def _write_hosts(self) -> None:
        """The Host section of lsf.cluster on every host, with the hosts that there are."""
        lines = "\n".join(f"{host.name}  !  !  1  ()" for host in self.hosts)
        for host in self.hosts:
            path = host.path(f"{ENVDIR}/lsf.cluster.{CLUSTER}")
            if path.exists():
                text = path.read_text()
                head, _, rest = text.partition("HOSTNAME  model  type  server  RESOURCES\n")
                path.write_text(
                    f"{head}HOSTNAME  model  type  server  RESOURCES\n{lines}\n{rest[rest.index('End Host') :]}"
                )

    def until(self, is_true: Callable[[], object], complaint: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait for something that no event tells of."""
        began = time.monotonic()
        while not is_true():
            for (host, name), process in self.daemons.items():
                assert process.poll() is None, f"the {name} of {host} has ended: {process.returncode}"
            waited = time.monotonic() - began
            assert waited < timeout_s, complaint
            time.sleep(pause_s(waited))


def shared_cluster(
    lab: Lab,
    hosts: Sequence[Host],
    *,
    sim_gpus: str = "",
    slots: int = 4,
    settings: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    others: Sequence[str] = (),
    start: bool = True,
) -> SharedCluster:
    """Set a cluster up on these hosts and start it; it ends with the lab.

    `settings` are lines of lsf.conf. `files` are added to the configuration, by name (`lsb.queues`); a text that begins
    with = takes the file's place. `others` are hosts of the configuration that the lab does not have.
    """
    cluster = SharedCluster(lab, hosts)
    cluster.install(sim_gpus=sim_gpus, slots=slots, settings=settings or {}, files=files or {}, others=others)
    if start:
        cluster.start()
    return cluster


def _texts(hosts: list[str], sim_gpus: str, slots: int, settings: Mapping[str, str]) -> dict[str, str]:
    """The configuration: that of a private cluster, with other folders, a port, and what `settings` says."""
    texts = private_texts(
        NewConfiguration(
            cluster=CLUSTER,
            hosts=hosts,
            slots=slots,
            folders=FOLDERS,
            gpu_provider=f"sim:{SIMULATED}" if sim_gpus else "none",
            gpu_resources=bool(sim_gpus),
            administrators=[SERVICE_USER],
        )
    )
    wanted = {"LSB_MBD_PORT": str(PORT), "LSF_MASTER_LIST": hosts[0], "LSF_ROOT_USER": "N", **settings}
    texts = {Path(name).name: text for name, text in texts.items()}
    kept = [line for line in texts["lsf.conf"].splitlines() if line.partition("=")[0] not in wanted]
    texts["lsf.conf"] = "\n".join([*kept, *(f"{name}={value}" for name, value in wanted.items()), ""])
    return texts
