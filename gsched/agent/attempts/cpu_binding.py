"""What a job with affinity[...] is bound to on its hosts, and how it is told.

Source: LSF's environment variables of batch jobs; the file that LSB_AFFINITY_HOSTFILE names has a line per task, `HOST
CPUS`, and with membind= the NUMA nodes and the policy (1 localonly, 2 localprefer) behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gsched.model.ledgers.allocation import Allocation, CpuBinding, HostAllocation, TaskCpus
from gsched.resreq.parsing.syntax import parse

LOCAL_ONLY = "localonly"
_POLICIES = {LOCAL_ONLY: 1, "localprefer": 2}


def bound_to(part: HostAllocation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """CPUs that the job's processes are bound to on the host, and NUMA nodes of which alone they may have memory.

    Both are empty for a job without affinity[]; the nodes are also without membind=localonly for all its tasks.
    """
    tasks = [task for binding in part.bindings for task in binding.tasks]
    is_local = bool(tasks) and all(_membind(binding) == LOCAL_ONLY for binding in part.bindings)
    return _joined(task.bound for task in tasks), _joined(task.nodes for task in tasks) if is_local else ()


def affinity_lines(allocation: Allocation) -> str:
    """The lines of all tasks, in the order of execution hosts; empty for a job without affinity[]."""
    return "".join(
        _line(part.host, task, _membind(binding))
        for part in allocation.hosts
        for binding in part.bindings
        for task in binding.tasks
    )


def affinity_variables(allocation: Allocation, part: HostAllocation, hostfile: str) -> Mapping[str, str]:
    """The variables of a job with affinity[]; none for another one. `hostfile`: where `affinity_lines` are."""
    if not any(each.bindings for each in allocation.hosts):
        return {}
    found = {"LSB_AFFINITY_HOSTFILE": hostfile} if hostfile else {}
    tasks = [task for binding in part.bindings for task in binding.tasks]
    if tasks:
        found["LSB_BIND_CPU_LIST"] = _listed(_joined(task.bound for task in tasks))
        policies = {_membind(binding) for binding in part.bindings}
        if len(policies) == 1 and (policy := policies.pop()):
            found["LSB_BIND_MEM_LIST"] = _listed(_joined(task.nodes for task in tasks))
            found["LSB_BIND_MEM_POLICY"] = policy
    return found


def _line(host: str, task: TaskCpus, policy: str) -> str:
    memory = f" {_listed(task.nodes)} {_POLICIES[policy]}" if policy else ""
    return f"{host} {_listed(task.bound)}{memory}\n"


def _membind(binding: CpuBinding) -> str:
    affinity = parse(binding.affinity).affinity
    return "" if affinity is None else affinity.membind


def _joined(numbers: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(sorted({number for each in numbers for number in each}))


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
