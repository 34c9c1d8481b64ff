"""Fields of sinfo, by names (-O) and letters (-o), of hosts that are shown in one line.

Source: sinfo(1) of Slurm 22.05.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gsched import __version__
from gsched.base.node_lists import fold_nodes
from gsched.cli.slurm.facts.node_facts import (
    SHORT_STATES,
    all_cpus,
    cpu_counts,
    features_of,
    full_state,
    gres_of,
    gres_used,
    node_counts,
    partition_state,
    reason_of_node,
)
from gsched.cli.slurm.formats import FormatColumn
from gsched.dialect.slurm.slurm_values import show_duration
from gsched.model.views.view import HostView, QueueView


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Hosts of a queue that are shown in one line."""

    queue: QueueView
    is_default: bool
    hosts: tuple[HostView, ...]
    state: str
    cluster: str = ""


_Value = Callable[[NodeGroup], str]


def _both(values: Iterable[str]) -> str:
    """The one value of all of them; of several the first with a plus."""
    found = list(dict.fromkeys(values))
    return f"{found[0]}{'+' if len(found) > 1 else ''}" if found else "0"


def _each(value: Callable[[HostView], str]) -> _Value:
    return lambda row: _both(map(value, row.hosts))


def _fixed(text: str) -> _Value:
    return lambda row: text


def _names(row: NodeGroup) -> str:
    return ",".join(host.name for host in row.hosts)


def _part_of(counts: str) -> str:
    """Allocated and idle."""
    return "/".join(counts.split("/")[:2])


def _limit(seconds: int | None) -> str:
    return "infinite" if seconds is None else show_duration(seconds)


def _preempts(row: NodeGroup) -> str:
    return "REQUEUE" if any("PREEMPT" in policy for policy in row.queue.policies) else "OFF"


def _user_long(host: HostView) -> str:
    return host.closed_by or "Unknown"


_FIELDS: tuple[tuple[str, str, str, _Value], ...] = (
    ("AllocMem", "", "ALLOCMEM", _each(lambda host: f"{host.reserved.get('mem', 0.0):.0f}")),
    ("AllocNodes", "S", "ALLOCNODES", _fixed("all")),
    ("Available", "a", "AVAIL", lambda row: partition_state(row.queue)),
    ("Cluster", "V", "CLUSTER", lambda row: row.cluster),
    ("Comment", "", "COMMENT", _fixed("(null)")),
    ("Cores", "Y", "CORES", _each(lambda host: f"{host.facts.get('ncores', host.ncpus)}".removesuffix(".0"))),
    ("CPUs", "c", "CPUS", _each(lambda host: str(all_cpus(host)))),
    ("CPUsLoad", "O", "CPU_LOAD", _each(lambda host: f"{host.load['r1m']:.2f}" if "r1m" in host.load else "N/A")),
    ("CPUsState", "C", "CPUS(A/I/O/T)", lambda row: cpu_counts(row.hosts)),
    ("DefaultTime", "L", "DEFAULTTIME", lambda row: _limit(row.queue.default_run_limit_s)),
    ("Disk", "d", "TMP_DISK", _each(lambda host: f"{host.max_tmp_mib or 0:.0f}")),
    ("Extra", "", "EXTRA", _fixed("(null)")),
    ("Features", "f", "AVAIL_FEATURES", _each(features_of)),
    ("features_act", "b", "ACTIVE_FEATURES", _each(features_of)),
    ("FreeMem", "e", "FREE_MEM", _each(lambda host: f"{host.load['mem']:.0f}" if "mem" in host.load else "N/A")),
    ("Gres", "G", "GRES", _each(gres_of)),
    ("GresUsed", "", "GRES_USED", _each(gres_used)),
    ("Groups", "g", "GROUPS", lambda row: ",".join(row.queue.users) or "all"),
    ("MaxCPUsPerNode", "B", "MAX_CPUS_PER_NODE", _fixed("UNLIMITED")),
    ("Memory", "m", "MEMORY", _each(lambda host: f"{host.max_mem_mib or 0:.0f}")),
    ("NodeAddr", "o", "NODE_ADDR", _names),
    ("NodeAI", "A", "NODES(A/I)", lambda row: _part_of(node_counts(row.hosts))),
    ("NodeAIOT", "F", "NODES(A/I/O/T)", lambda row: node_counts(row.hosts)),
    ("NodeHost", "n", "HOSTNAMES", _names),
    ("NodeList", "N", "NODELIST", lambda row: fold_nodes(host.name for host in row.hosts)),
    ("Nodes", "D", "NODES", lambda row: str(len(row.hosts))),
    ("OverSubscribe", "h", "OVERSUBSCRIBE", _fixed("NO")),
    ("Partition", "P", "PARTITION", lambda row: row.queue.name + ("*" if row.is_default else "")),
    ("PartitionName", "R", "PARTITION", lambda row: row.queue.name),
    ("Port", "", "PORT", _fixed("0")),
    ("PreemptMode", "M", "PREEMPT_MODE", _preempts),
    ("PriorityJobFactor", "I", "PRIO_JOB_FACTOR", _fixed("1")),
    ("PriorityTier", "p", "PRIO_TIER", lambda row: str(row.queue.priority)),
    ("Reason", "E", "REASON", _each(reason_of_node)),
    ("Root", "r", "ROOT", _fixed("no")),
    ("Size", "s", "JOB_SIZE", _fixed("1-infinite")),
    ("SocketCoreThread", "z", "S:C:T", _each(lambda host: f"1:{all_cpus(host)}:1")),
    ("Sockets", "X", "SOCKETS", _fixed("1")),
    ("StateCompact", "t", "STATE", lambda row: SHORT_STATES.get(row.state, row.state)),
    ("StateLong", "T", "STATE", lambda row: row.state),
    ("StateComplete", "", "STATECOMPLETE", _each(lambda host: full_state(host).lower())),
    ("Threads", "Z", "THREADS", _fixed("1")),
    ("Time", "l", "TIMELIMIT", lambda row: _limit(row.queue.run_limit_s)),
    ("TimeStamp", "H", "TIMESTAMP", _fixed("Unknown")),
    ("User", "u", "USER", _each(_user_long)),
    ("UserLong", "U", "USER", _each(_user_long)),
    ("Version", "v", "VERSION", _fixed(__version__)),
    ("Weight", "w", "WEIGHT", _fixed("1")),
)
SinfoColumns = Mapping[str, FormatColumn[NodeGroup]]
_FREE = frozenset({"Reason"})
"""Whose texts administrators choose."""
NODE_BY_NAME: SinfoColumns = {
    name.lower(): FormatColumn(heading, value, name in _FREE) for name, _, heading, value in _FIELDS
} | {"priority": FormatColumn("PRIO_TIER", lambda row: str(row.queue.priority))}
NODE_BY_LETTER: SinfoColumns = {
    letter: FormatColumn(heading, value, name in _FREE) for name, letter, heading, value in _FIELDS if letter
}
