"""Hosts and queues as Slurm's nodes and partitions: states, GPUs, counts.

Source: sinfo(1), scontrol(1) of Slurm 22.05.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gsched.cli.slurm.facts.slurm_clock import long_duration
from gsched.model.hosts.reported_resources import model_word
from gsched.model.views.view import GpuView, HostView, QueueView

SHORT_STATES = {"allocated": "alloc", "mixed": "mix", "drained": "drain", "draining": "drng"}
CLOSED = ("down", "drained", "draining")
"""States in which a node takes no jobs."""


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


def full_state(host: HostView) -> str:
    """As scontrol writes it: `IDLE+DRAIN`, `MIXED+DRAIN`, `DOWN*`."""
    state = node_state(host)
    full = {"drained": "IDLE+DRAIN", "draining": "MIXED+DRAIN", "down": "DOWN*"}
    return full.get(state, state.upper())


def gres_of(host: HostView) -> str:
    """`gpu:Tesla_T4:4`, or `(null)`."""
    return _gres(host.gpus) or "(null)"


def gres_used(host: HostView) -> str:
    """`gpu:Tesla_T4:2`, of those that jobs hold, or `gpu:0`."""
    return _gres(view for view in host.gpus if view.holders) or ("gpu:0" if host.gpus else "(null)")


def _gres(gpus: Iterable[GpuView]) -> str:
    models: dict[str, int] = {}
    for view in gpus:
        model = model_word(view.gpu.model)
        models[model] = models.get(model, 0) + 1
    return ",".join(f"gpu:{model}:{count}" if model else f"gpu:{count}" for model, count in models.items())


def features_of(host: HostView) -> str:
    """What --constraint may name."""
    return ",".join(host.resources) or "(null)"


def reason_of_node(host: HostView) -> str:
    """Why it is closed."""
    return host.comment or ("Not responding" if node_state(host) == "down" else "none")


def all_cpus(host: HostView) -> int:
    """Slots of a host; one without a limit has as many as processors."""
    return host.max_slots if host.max_slots is not None else host.ncpus


def cpu_counts(hosts: Iterable[HostView]) -> str:
    """Allocated, idle, other and all CPUs."""
    used = idle = total = 0
    for host in hosts:
        total += all_cpus(host)
        used += host.njobs
        idle += max(0, all_cpus(host) - host.njobs) if node_state(host) not in CLOSED else 0
    return f"{used}/{idle}/{max(0, total - used - idle)}/{total}"


def node_counts(hosts: Iterable[HostView]) -> str:
    """Allocated, idle, other and all nodes."""
    states = [node_state(host) for host in hosts]
    used = sum(state in ("allocated", "mixed", "draining") for state in states)
    idle = states.count("idle")
    return f"{used}/{idle}/{len(states) - used - idle}/{len(states)}"


def hosts_of_queue(queue: QueueView, hosts: Sequence[HostView]) -> list[HostView]:
    """The hosts where jobs of the queue may run."""
    names = {name.partition("+")[0] for name in queue.hosts}
    return [host for host in hosts if host.server and (not names or host.name in names)]


def partition_state(queue: QueueView) -> str:
    """`up`, `down` (jobs wait), `drain` (none is taken) or `inact` (both)."""
    opened, _, active = queue.status.partition(":")
    if opened == "Open":
        return "up" if active == "Active" else "down"
    return "drain" if active == "Active" else "inact"


def time_limit(seconds: int | None, unlimited: str) -> str:
    """A run limit."""
    return unlimited if seconds is None else long_duration(seconds)
