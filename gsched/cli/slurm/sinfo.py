"""`sinfo`: queues and their hosts, as Slurm's command of that name shows partitions and nodes.

Source: sinfo(1) of Slurm 22.05.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.base.node_lists import expand_nodes, fold_nodes
from gsched.cli.session.call import Call
from gsched.cli.session.session import connected
from gsched.cli.slurm.formats import FormatColumn, by_letters
from gsched.cli.slurm.slurm_call import GENERAL, fails_as_slurm, read_listing
from gsched.dialect.slurm.gnu_options import GnuOption, GnuOptions, GnuWords, refused
from gsched.dialect.slurm.slurm_values import show_duration
from gsched.model.hosts.reported_resources import model_word
from gsched.model.views.view import HostView, QueueView

TABLE = GnuOptions(
    summary="show queues and hosts, as Slurm's sinfo does",
    operands="",
    options=(
        GnuOption("partition", "p", "NAMES", "only these queues", variable="SINFO_PARTITION"),
        GnuOption("nodes", "n", "NODES", "only these nodes"),
        GnuOption("states", "t", "STATES", "only nodes in these states: idle, mix, alloc, drain, down"),
        GnuOption("format", "o", "FORMAT", "what is shown", variable="SINFO_FORMAT"),
        GnuOption("Node", "N", help="a line for each node"),
        GnuOption("long", "l", help="more columns"),
        GnuOption("summarize", "s", help="a line for each queue, with counts of nodes"),
        GnuOption("noheader", "h", help="no heading"),
        GnuOption("responding", "r", help="only nodes that answer"),
        GnuOption("dead", "d", help="only nodes that do not"),
        GnuOption("exact", "e", help="taken: nothing is rounded"),
        GnuOption("all", "a", help="taken: no queue is hidden"),
        *GENERAL,
        *refused("Format/O", "json", "yaml", because="--format says what is shown"),
        GnuOption("noconvert", help="taken: nothing is converted"),
        GnuOption("clusters", "M", "all", "taken: there is one cluster"),
        *refused("federation", "local", because="there is one cluster"),
        *refused("list-reasons/R", "reservation/T", "sort/S", "iterate/i", "hide", "cluster", "verbose/v", "future/F"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -N -l", "PROGRAM -o '%n %t %G' --nodes gpu01"),
)
_DEFAULT = "%9P %.5a %.10l %.6D %.6t %N"
_LONG = "%9P %.5a %.10l %.6D %.11T %.4c %.8m %.16G %N"
_NODES = "%10N %.6D %.9P %.6t"
_NODES_LONG = "%10N %.6D %.9P %.11T %.4c %.8m %.16G %f"
_SUMMARY = "%9P %.5a %.10l %.16F %N"
SHORT = {"allocated": "alloc", "mixed": "mix", "drained": "drain", "draining": "drng"}


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Hosts of a queue that are shown in one line."""

    queue: QueueView
    is_default: bool
    hosts: tuple[HostView, ...]
    state: str


@fails_as_slurm
def main(call: Call) -> int:
    """Run `sinfo`."""
    words = read_listing(call, TABLE)
    with connected(call) as session:
        queues, hosts = session.client.queues(), session.client.hosts()
        default = session.client.cluster().default_queue.split()
    rows = _rows(words, queues, hosts, default[0] if default else "")
    layout = by_letters(words.value("format", _format(words)), COLUMNS)
    for line in layout.lines(rows, header=not words.has("noheader")):
        call.write(line)
    return 0


def _format(words: GnuWords) -> str:
    if words.has("summarize"):
        return _SUMMARY
    if words.has("Node"):
        return _NODES_LONG if words.has("long") else _NODES
    return _LONG if words.has("long") else _DEFAULT


def node_state(host: HostView) -> str:
    """As Slurm calls it: down, draining and drained (closed by an administrator), idle, mixed or allocated."""
    is_used = bool(host.njobs)
    if host.status.startswith("un"):
        return "down"
    if host.closed_by or host.status == "closed_Adm":
        return "draining" if is_used else "drained"
    if not is_used:
        return "idle"
    is_full = host.slots_free == 0 or host.status.startswith("closed")
    return "allocated" if is_full else "mixed"


def _rows(words: GnuWords, queues: Sequence[QueueView], hosts: Sequence[HostView], default: str) -> Iterator[NodeGroup]:
    wanted = {name for name in words.value("partition").split(",") if name}
    unknown = wanted - {queue.name for queue in queues}
    if unknown:
        raise BadRequest(f"Invalid partition specified: {min(unknown)[:60]}")
    states = {SHORT.get(each, each) for each in words.value("states").lower().split(",") if each and each != "all"}
    nodes = set(expand_nodes(words.value("nodes"))) if words.has("nodes") else None
    servers = [host for host in hosts if host.server and (nodes is None or host.name in nodes)]
    for queue in queues:
        if wanted and queue.name not in wanted:
            continue
        mine = [host for host in servers if not queue.hosts or host.name in _names(queue)]
        groups = _groups(mine, words)
        for state, group in groups.items():
            if states and SHORT.get(state, state) not in states:
                continue
            if (words.has("responding") and state == "down") or (words.has("dead") and state != "down"):
                continue
            for part in [(host,) for host in group] if words.has("Node") else [tuple(group)]:
                yield NodeGroup(queue, queue.name == default, part, state)
        if not groups and not words.has("Node", "states", "responding", "dead", "nodes"):
            yield NodeGroup(queue, queue.name == default, (), "n/a")


def _names(queue: QueueView) -> set[str]:
    return {name.partition("+")[0] for name in queue.hosts}


def _groups(hosts: Iterable[HostView], words: GnuWords) -> Mapping[str, list[HostView]]:
    """State -> hosts in it; all together with --summarize."""
    found: dict[str, list[HostView]] = {}
    for host in hosts:
        found.setdefault("" if words.has("summarize") else node_state(host), []).append(host)
    return found


def _gres(host: HostView) -> str:
    """`gpu:Tesla_T4:4`, or `(null)`."""
    models: dict[str, int] = {}
    for view in host.gpus:
        model = model_word(view.gpu.model)
        models[model] = models.get(model, 0) + 1
    return ",".join(f"gpu:{model}:{count}" if model else f"gpu:{count}" for model, count in models.items()) or "(null)"


def _both(values: Iterable[str]) -> str:
    """The one value of all of them; of several the first with a plus."""
    found = list(dict.fromkeys(values))
    return f"{found[0]}{'+' if len(found) > 1 else ''}" if found else "0"


def _cpus(row: NodeGroup) -> str:
    """Allocated, idle, other and all slots."""
    total = sum(host.max_slots or 0 for host in row.hosts)
    used = sum(host.njobs for host in row.hosts)
    other = total - used if row.state in ("down", "drained", "draining") else 0
    return f"{used}/{total - used - other}/{other}/{total}"


def _nodes(row: NodeGroup) -> str:
    """Allocated, idle, other and all nodes."""
    states = [node_state(host) for host in row.hosts]
    used = sum(state in ("allocated", "mixed", "draining") for state in states)
    idle = states.count("idle")
    return f"{used}/{idle}/{len(states) - used - idle}/{len(states)}"


COLUMNS: Mapping[str, FormatColumn[NodeGroup]] = {
    "P": FormatColumn("PARTITION", lambda row: row.queue.name + ("*" if row.is_default else "")),
    "R": FormatColumn("PARTITION", lambda row: row.queue.name),
    "a": FormatColumn("AVAIL", lambda row: "up" if row.queue.status == "Open:Active" else "down"),
    "l": FormatColumn(
        "TIMELIMIT",
        lambda row: "infinite" if row.queue.run_limit_s is None else show_duration(row.queue.run_limit_s),
    ),
    "D": FormatColumn("NODES", lambda row: str(len(row.hosts))),
    "F": FormatColumn("NODES(A/I/O/T)", _nodes),
    "t": FormatColumn("STATE", lambda row: SHORT.get(row.state, row.state)),
    "T": FormatColumn("STATE", lambda row: row.state),
    "N": FormatColumn("NODELIST", lambda row: fold_nodes(host.name for host in row.hosts)),
    "n": FormatColumn("HOSTNAMES", lambda row: ",".join(host.name for host in row.hosts)),
    "c": FormatColumn("CPUS", lambda row: _both(str(host.max_slots or 0) for host in row.hosts)),
    "C": FormatColumn("CPUS(A/I/O/T)", _cpus),
    "m": FormatColumn("MEMORY", lambda row: _both(f"{host.max_mem_mib or 0:.0f}" for host in row.hosts)),
    "G": FormatColumn("GRES", lambda row: _both(_gres(host) for host in row.hosts)),
    "f": FormatColumn("AVAIL_FEATURES", lambda row: _both(",".join(host.resources) or "(null)" for host in row.hosts)),
    "E": FormatColumn("REASON", lambda row: _both(host.comment or "none" for host in row.hosts)),
}
