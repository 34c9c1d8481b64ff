"""Stopping, restarting and starting the daemons of a shared cluster's hosts.

What has a session with the master is told through that, so no way into the host is needed, only an administrator of
the cluster. What has none, because it does not run or is a door, is started and stopped by its host's systemd: here, or
by LSF_RSH (ssh) as in LSF, whose keys and rights are the caller's. Jobs go on in any case.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from gsched.app.clusters.private_home import host_name
from gsched.app.installation.units import AGENT_UNIT, DOOR_UNIT, MASTER_UNIT
from gsched.base.envdir import read_setting
from gsched.model.config import ClusterConfig
from gsched.model.hosts.fleet import STOP
from gsched.wire.calls.client import Client

DEFAULT_RSH = "ssh -o BatchMode=yes -o ConnectTimeout=10"
PATIENCE_S = 60.0
AT_A_TIME = 16


def units_of(config: ClusterConfig, host: str) -> list[str]:
    """The units that a host of this cluster has."""
    found = [MASTER_UNIT] if host in config.master_hosts else []
    return [*found, DOOR_UNIT, *([AGENT_UNIT] if config.hosts[host].server else [])]


def start(config: ClusterConfig, units: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Start units, host by host; host -> what is wrong, empty where all is well."""
    return _each(config, "start", units)


def _each(config: ClusterConfig, word: str, units: Mapping[str, Sequence[str]]) -> dict[str, str]:
    rsh = shlex.split(read_setting(config.locations.conf_dir, "LSF_RSH") or DEFAULT_RSH)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        problems = pool.map(lambda host: _systemctl(rsh, host, [word, *units[host]]), units)
    return dict(zip(units, problems, strict=True))


def _systemctl(rsh: list[str], host: str, words: Sequence[str]) -> str:
    words = ["systemctl", *words]
    if host != host_name():
        words = [*rsh, host, shlex.join(words)]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        return f"{words[0]}: there is no such program here"
    except OSError as problem:
        return f"{words[0]}: {problem.strerror}"
    except subprocess.TimeoutExpired:
        return f"{shlex.join(words)}: no answer within {PATIENCE_S:.0f} s"
    if done.returncode == 0:
        return ""
    said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
    return f"{said} (gadmin install-units makes the units)" if "not found" in said else said


def order(client: Client, action: str, hosts: Iterable[str]) -> dict[str, str]:
    """`stop` or `restart` the agents; host -> what is wrong, empty where it is done."""
    wanted = list(hosts)
    answers = {answer.name: answer.error for answer in client.fleet.daemons(action, wanted)} if wanted else {}
    return {host: answers.get(host, "the master did not say what became of it") for host in wanted}


def end_master(client: Client, action: str) -> None:
    """`stop` or `restart` the master."""
    client.fleet.daemons(action, (), master=True)


def start_agents(config: ClusterConfig, hosts: Sequence[str]) -> dict[str, str]:
    """Start the agents of these hosts; host -> what is wrong, empty where it is done."""
    return start(config, dict.fromkeys(hosts, (AGENT_UNIT,)))


def start_all(config: ClusterConfig) -> dict[str, str]:
    """Every unit of every host, the master's first; host -> what is wrong."""
    first = config.master_host
    found = start(config, {first: units_of(config, first)})
    return found | start(config, {host: units_of(config, host) for host in config.hosts if host != first})


def stop_all(client: Client, config: ClusterConfig) -> dict[str, str]:
    """Every agent that runs, the masters that wait, then the one that leads. Host -> what is wrong."""
    leader = client.cluster().master_host
    waiting = {host: (MASTER_UNIT,) for host in config.masters if host != leader}
    servers = [host.name for host in config.hosts.values() if host.server]
    away = {daemon.host for daemon in client.fleet.versions() if daemon.kind == "agent" and daemon.pid == 0}
    found = order(client, STOP, [host for host in servers if host not in away])
    for host, problem in _each(config, "stop", waiting).items():  # else one of them would lead then
        if problem:
            found[host] = f"its master goes on: {problem}"
    end_master(client, STOP)
    return found


def stop_doors(config: ClusterConfig) -> dict[str, str]:
    """The door of every host, after all that is told through one. Host -> what is wrong."""
    return _each(config, "stop", dict.fromkeys(config.hosts, (DOOR_UNIT,)))


def here(config: ClusterConfig, word: str) -> int:
    """`start`, `stop`, `restart` or `status` of this host's units; the exit code of systemctl, which says the rest."""
    words = ["systemctl", "--no-pager", word, *units_of(config, host_name())]
    return subprocess.run(words, stdin=subprocess.DEVNULL, check=False).returncode
