"""May this job enter? Completes a submitted spec or refuses it with LSF's text and what to do about it.

It answers what can never run at once, instead of leaving it pending. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from gsched.base.errors import BadRequest, PermissionDenied
from gsched.core.judgement import Judge
from gsched.core.observed import Observation
from gsched.core.values import slot_limit
from gsched.model.config import ClusterConfig, GpuUnrequested
from gsched.model.host import ComputeMode, HostConfig, LoadReport
from gsched.model.job import JobSpec
from gsched.model.queue import Queue
from gsched.policy.demand import gpu_claims

Observed = Callable[[str], Observation]
"""What is known about the host of a name."""

MAX_TEXT = 1 << 20
_MODE_WORDS = {
    "ngpus_excl_p": (ComputeMode.EXCLUSIVE_PROCESS, "Exclusive_Process"),
    "ngpus_excl_t": (ComputeMode.EXCLUSIVE_THREAD, "Exclusive_Thread"),
    "ngpus_shared": (ComputeMode.DEFAULT, "Default"),
}


def admit(spec: JobSpec, user: str, config: ClusterConfig, observed: Observed, judge: Judge) -> JobSpec:
    """The completed spec. Raises BadRequest, RequirementError, PermissionDenied (no full stop at the end)."""
    if not spec.command.strip():
        raise BadRequest("No command is specified")
    if len(spec.command) > MAX_TEXT:
        raise BadRequest(f"Command line too long ({len(spec.command)} characters, at most {MAX_TEXT})")
    if user == "root" and not config.params.root_may_submit:
        raise PermissionDenied("Root job submission is disabled")
    queue = _queue(spec, user, config)
    _check_hosts(spec, queue, config)
    _check_slots(spec, queue, config, observed)
    judged = judge(spec.res_req, queue.name, spec.slots)
    _check_amounts(judged.amounts, spec, queue, config, observed)
    claims = gpu_claims(judged.amounts)
    _check_devices(claims, spec, queue, config, observed)
    return msgspec.structs.replace(
        spec,
        user=user,
        queue=queue.name,
        project=spec.project or config.params.default_project,
        run_limit_s=_run_limit(spec, queue),
        combined_req=judged.text,
        auto_gpu=not claims and config.params.gpu_unrequested is GpuUnrequested.AUTO,
    )


def _queue(spec: JobSpec, user: str, config: ClusterConfig) -> Queue:
    name = spec.queue or config.params.default_queue
    queue = config.queues.get(name)
    if queue is None:
        raise BadRequest(f"{name}: No such queue")
    if queue.users is not None and user not in queue.users and user not in config.administrators:
        raise PermissionDenied(f"{name}: User cannot use the queue")
    return queue


def _check_hosts(spec: JobSpec, queue: Queue, config: ClusterConfig) -> None:
    for host in spec.hosts:
        if host not in config.hosts:
            raise BadRequest(f"{host}: Bad host name, host group name or cluster name")
        if not config.hosts[host].server:
            raise BadRequest(f"{host}: Host does not run jobs")
        if queue.hosts is not None and host not in queue.hosts:
            raise BadRequest(f"{host}: Host or host group is not used by the queue")


def _usable(spec: JobSpec, queue: Queue, config: ClusterConfig) -> Iterator[HostConfig]:
    """Hosts that the job may use."""
    for host in config.hosts.values():
        asked = not spec.hosts or host.name in spec.hosts
        if host.server and asked and (queue.hosts is None or host.name in queue.hosts):
            yield host


def _check_slots(spec: JobSpec, queue: Queue, config: ClusterConfig, observed: Observed) -> None:
    if spec.slots < 1:
        raise BadRequest(f"-n {spec.slots}: Bad argument")
    for name, allowed in (
        ("QJOB_LIMIT", queue.job_limit),
        ("UJOB_LIMIT", queue.user_limit),
        ("HJOB_LIMIT", queue.host_limit),
    ):
        if allowed and spec.slots > allowed:  # 0 drains the queue: its jobs wait
            where = f"queue {queue.name} allows {allowed} slots ({name})"
            raise BadRequest(f"Too many processors requested: -n {spec.slots}, {where}")
    most = 1  # hosts may be drained with MXJ 0: a job of one slot waits
    for host in _usable(spec, queue, config):
        seen = observed(host.name)
        limit = slot_limit(host, seen)
        if limit is None or limit >= spec.slots or (host.max_slots is None and seen.load is None):
            return  # it fits, or that is not known yet
        most = max(most, limit)
    raise BadRequest(f"Too many processors requested: -n {spec.slots}, the largest usable host has {most} slots")


def _run_limit(spec: JobSpec, queue: Queue) -> int | None:
    wanted = spec.run_limit_s if spec.run_limit_s is not None else queue.default_run_limit_s
    if wanted is not None and queue.run_limit_s is not None and wanted > queue.run_limit_s:
        allowed = f"-W {wanted // 60} minutes, queue {queue.name} allows {queue.run_limit_s // 60}"
        raise BadRequest(f"Cannot exceed queue's hard limit(s): {allowed}")
    return wanted if wanted is not None else queue.run_limit_s


def _has(host: HostConfig, name: str, config: ClusterConfig) -> bool:
    """Whether the host is given the resource; built-in ones every host has."""
    return (
        name not in config.resources
        or name in host.values
        or host.name in config.mapped.get(name, ())
        or host.name in config.shared_values.get(name, {})
    )


def _check_amounts(
    amounts: Mapping[str, float], spec: JobSpec, queue: Queue, config: ClusterConfig, observed: Observed
) -> None:
    """Refuse reservations that no usable host could meet even if nothing of the resource were taken."""
    for name, amount in amounts.items():
        known: dict[str, float] = {}
        for host in _usable(spec, queue, config) if amount > 0 else ():
            if not _has(host, name, config):
                continue
            total = _total(host, name, observed(host.name))
            if total is None or total >= amount:
                break  # it may be had here, for all that is known
            known[host.name] = total
        else:
            if amount > 0:
                raise BadRequest(f"No host can ever provide {name}={amount:.10g}: {_best(name, known, config)}")


def _best(name: str, totals: Mapping[str, float], config: ClusterConfig) -> str:
    if not totals:
        return f"no host that the job may use has {name} (ResourceMap of lsf.cluster.{config.cluster})"
    best = max(totals, key=lambda host: (totals[host], host))
    return f"{best} has the most, {totals[best]:.10g}"


_MOST: Mapping[str, Callable[[LoadReport], float | None]] = {
    "mem": lambda load: load.maxmem_mib,
    "swp": lambda load: load.maxswp_mib,
    "tmp": lambda load: load.maxtmp_mib,
}


def _total(host: HostConfig, name: str, seen: Observation) -> float | None:
    """All that the host has of the resource; None when that changes or is not known."""
    fixed = host.values.get(name)
    if isinstance(fixed, float | int):
        return float(fixed)
    most = _MOST.get(name)
    return most(seen.load) if most is not None and seen.load is not None else None


def _check_devices(
    claims: Mapping[str, int], spec: JobSpec, queue: Queue, config: ClusterConfig, observed: Observed
) -> None:
    """Refuse claims that no host's devices could meet even if all were free; silent while a host is unknown."""
    if not claims:
        return
    inventories: dict[str, list[ComputeMode]] = {}
    for host in _usable(spec, queue, config):
        if not all(_has(host, name, config) for name in claims):
            continue
        report = observed(host.name).gpus
        if report is None or not report.known or any(gpu.mode is None for gpu in report.gpus):
            return
        modes = [gpu.mode for gpu in report.gpus if gpu.mode is not None]
        if _could_hold(modes, claims):
            return
        inventories[host.name] = modes
    if not inventories:
        raise BadRequest(f"No host can ever provide {', '.join(claims)} together: no usable host has all of them")
    raise BadRequest(_impossible(claims, inventories))


def _could_hold(modes: list[ComputeMode], claims: Mapping[str, int]) -> bool:
    each = all(_countable(modes, claim) >= wanted for claim, wanted in claims.items())
    return each and sum(claims.values()) <= _countable(modes, "ngpus")


def _countable(modes: list[ComputeMode], claim: str) -> int:
    if claim == "ngpus":
        return sum(mode is not None and mode is not ComputeMode.PROHIBITED for mode in modes)
    return modes.count(_MODE_WORDS[claim][0])


def _impossible(claims: Mapping[str, int], inventories: Mapping[str, list[ComputeMode]]) -> str:
    """One line: what cannot be met, and what to set or to ask instead."""
    usable = {name: _countable(modes, "ngpus") for name, modes in inventories.items()}
    largest = max(usable, key=lambda name: (usable[name], name))
    lacking = [
        name
        for name, amount in claims.items()
        if all(_countable(modes, name) < amount for modes in inventories.values())
    ]
    if not lacking:
        wanted = ",".join(f"{name}={amount}" for name, amount in claims.items())
        return f"No host can ever provide {wanted} at once: {largest} has the most usable GPUs, {usable[largest]}"
    text = f"No host can ever provide {lacking[0]}={claims[lacking[0]]}: "
    if not usable[largest] and any(inventories.values()):
        return text + "every GPU is in Prohibited mode; have an administrator set another (nvidia-smi -c 3)"
    if not usable[largest]:
        return text + "no host has a GPU that may be used"
    return text + _nearest(lacking[0], claims[lacking[0]], inventories)


def _nearest(claim: str, wanted: int, inventories: Mapping[str, list[ComputeMode]]) -> str:
    """The nearest thing that can be had, for one claim that cannot."""
    best = max(inventories, key=lambda name: (_countable(inventories[name], claim), name))
    most = _countable(inventories[best], claim)
    if most:
        return f"{best} has the most such GPUs, {most}; ask for at most {claim}={most}"
    text = f"no GPU is in {_MODE_WORDS[claim][1]} mode"
    others = {
        name: max(_countable(modes, name) for modes in inventories.values()) for name in _MODE_WORDS if name != claim
    }
    offer = max(others, key=lambda name: others[name])
    ask = f"ask for {offer}={min(wanted, others[offer])} instead"
    if claim == "ngpus_excl_t":
        return f"{text} (today's drivers no longer have it); {ask}"
    number = {"ngpus_excl_p": 3, "ngpus_shared": 0}[claim]
    return f"{text}; {ask}, or have an administrator set it (nvidia-smi -c {number})"
