"""What `scontrol show` shows, by name; and its small answers: hostnames, hostlist, config, daemons.

Source: scontrol(1) of Slurm 22.05, SHOW COMMAND.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gsched import __version__
from gsched.base.errors import BadRequest
from gsched.base.node_lists import MOST_CHARACTERS, expand_lists, fold_in_order, fold_nodes
from gsched.cli.slurm.control.scontrol_call import ScontrolCall
from gsched.cli.slurm.control.shown_jobs import show_jobs, show_steps
from gsched.cli.slurm.control.shown_nodes import show_licenses, show_nodes, show_partitions, show_reservations
from gsched.cli.slurm.facts.slurm_clock import clock_of

_MOST_BYTES = 2 * MOST_CHARACTERS
"""Of a file with names: commas and ends of lines stand between them."""


def _hostnames(asked: ScontrolCall) -> int:
    """A name in each line, of a list, or of the job that it is called in."""
    words = asked.words or (asked.call.env.get("SLURM_JOB_NODELIST") or asked.call.env.get("SLURM_NODELIST", ""),)
    names = expand_lists(words)
    if not names:
        raise BadRequest("show hostnames: give a list of nodes; there is no SLURM_JOB_NODELIST")
    asked.call.write("".join(f"{name}\n" for name in names))
    return 0


def _names(asked: ScontrolCall) -> list[str]:
    if not asked.words:
        raise BadRequest("show hostlist: give names of nodes")
    text = asked.words[0]
    if text.startswith("/") and len(asked.words) == 1:
        try:
            content = asked.call.read_file(text)
        except OSError as problem:
            raise BadRequest(f"show hostlist: {text[:200]}: {problem.strerror}") from None
        if len(content) > _MOST_BYTES:
            raise BadRequest(f"show hostlist: {text[:200]}: the file has more than {_MOST_BYTES} bytes")
        return expand_lists(content.decode("utf-8", "replace").split())
    return expand_lists(asked.words)


def _hostlist(asked: ScontrolCall) -> int:
    asked.call.write(fold_in_order(_names(asked)) + "\n")
    return 0


def _sorted_hostlist(asked: ScontrolCall) -> int:
    asked.call.write(fold_nodes(_names(asked)) + "\n")
    return 0


def _config(asked: ScontrolCall) -> int:
    """What clients look for, in Slurm's names; the whole configuration is shown by gparams and gadmin showconf."""
    view = asked.session.client.cluster(parameters=True)
    values = {each.name: each.value for each in view.parameters}
    largest = values.get("MAX_JOB_ARRAY_SIZE", "")
    kept = values.get("CLEAN_PERIOD", "")
    found = {
        "ClusterName": view.cluster,
        "MaxArraySize": str(int(largest) + 1) if largest.isdigit() else largest or "(null)",
        "MinJobAge": f"{kept} sec" if kept else "(null)",
        "SlurmctldHost[0]": view.master_host,
        "SLURM_VERSION": f"gsched {__version__}",
        "AccountingStorageType": "accounting_storage/gsched",
        "AccountingStorageTRES": "cpu,mem,node,billing,gres/gpu",
        "GresTypes": "gpu",
        "SchedulerType": "sched/gsched",
        "SelectType": "select/cons_tres",
        "TopologyPlugin": "topology/none",
        "DefMemPerNode": "UNLIMITED",
        "MaxMemPerNode": "UNLIMITED",
    }
    asked.call.write(f"Configuration data as of {clock_of(asked.call).moment(clock_of(asked.call).now)}\n")
    for name, value in sorted(found.items(), key=lambda item: item[0].lower()):
        asked.call.write(f"{name:<23} = {value}\n")
    asked.call.write(f"\nSlurmctld(primary) at {view.master_host} is UP\n")
    return 0


def _daemons(asked: ScontrolCall) -> int:
    """Those of this host."""
    view = asked.session.client.cluster()
    is_host = any(host.name == asked.call.hostname for host in asked.session.client.hosts())
    names = [*(["slurmctld"] if view.master_host == asked.call.hostname else []), *(["slurmd"] if is_host else [])]
    asked.call.write(" ".join(names) + "\n")
    return 0


def _refused(because: str) -> Callable[[ScontrolCall], int]:
    def show(asked: ScontrolCall) -> int:
        raise BadRequest(f"show: {because}")

    return show


SHOWN: Mapping[str, Callable[[ScontrolCall], int]] = {
    "job": show_jobs,
    "jobs": show_jobs,
    "node": show_nodes,
    "nodes": show_nodes,
    "partition": show_partitions,
    "partitions": show_partitions,
    "reservation": show_reservations,
    "reservations": show_reservations,
    "licenses": show_licenses,
    "step": show_steps,
    "steps": show_steps,
    "config": _config,
    "daemons": _daemons,
    "hostnames": _hostnames,
    "hostlist": _hostlist,
    "hostlistsorted": _sorted_hostlist,
    "aliases": _refused("every node goes by one name"),
    "assoc_mgr": _refused("there are no associations: gusers shows what users may have"),
    "bbstat": _refused("there are no burst buffers"),
    "burstbuffer": _refused("there are no burst buffers"),
    "dwstat": _refused("there are no burst buffers"),
    "federation": _refused("there is one cluster"),
    "frontend": _refused("there are no front ends"),
    "slurmd": _refused("ghosts -l shows what a host reports"),
    "topology": _refused("gmgroup shows groups of hosts and compute units"),
}
"""Entity -> what shows it."""
