"""May this job enter? Completes a submitted spec or refuses it with LSF's text and what to do about it.

It answers what can never run at once, instead of leaving it pending. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from gsched.base.errors import BadRequest, PermissionDenied, RequirementError
from gsched.core.observed import Observation
from gsched.core.values import slot_limit
from gsched.model.config import ClusterConfig, GpuUnrequested
from gsched.model.host import ComputeMode
from gsched.model.job import JobSpec
from gsched.model.queue import Queue
from gsched.model.resource import ALIASES, BUILTIN, GPU_COUNTERS, ResourceType, gpu_counter_claims
from gsched.resreq.ast import Requirement
from gsched.resreq.combine import combine
from gsched.resreq.evaluate import rusage_amounts
from gsched.resreq.names import check_names
from gsched.resreq.syntax import parse

MAX_TEXT = 1 << 20
_MODE_WORDS = {
    "ngpus_excl_p": (ComputeMode.EXCLUSIVE_PROCESS, "Exclusive_Process"),
    "ngpus_excl_t": (ComputeMode.EXCLUSIVE_THREAD, "Exclusive_Thread"),
    "ngpus_shared": (ComputeMode.DEFAULT, "Default"),
}


def admit(spec: JobSpec, user: str, config: ClusterConfig, observed: Callable[[str], Observation]) -> JobSpec:
    """The completed spec. Raises BadRequest, RequirementError, PermissionDenied (no full stop at the end)."""
    if not spec.command.strip():
        raise BadRequest("No command is specified")
    if len(spec.command) > MAX_TEXT:
        raise BadRequest(f"Command line too long ({len(spec.command)} characters, at most {MAX_TEXT})")
    if user == "root" and not config.params.root_may_submit:
        raise PermissionDenied("Root job submission is disabled")
    queue = _queue(spec, user, config)
    _check_hosts(spec, queue, config)
    _check_slots(spec, config, observed)
    requirement = _requirement(spec, queue, config)
    amounts = rusage_amounts(requirement)
    _check_amounts(spec, amounts, requirement, config)
    claims = {name: int(amounts[name]) for name in gpu_counter_claims() if amounts.get(name, 0) > 0}
    _check_devices(claims, spec, queue, config, observed)
    auto = not claims and config.params.gpu_unrequested is GpuUnrequested.AUTO
    return msgspec.structs.replace(
        spec,
        user=user,
        queue=queue.name,
        project=spec.project or config.params.default_project,
        run_limit_s=_run_limit(spec, queue),
        combined_req=requirement.source,
        auto_gpu=auto,
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
        if queue.hosts is not None and host not in queue.hosts:
            raise BadRequest(f"{host}: Host or host group is not used by the queue")


def _check_slots(spec: JobSpec, config: ClusterConfig, observed: Callable[[str], Observation]) -> None:
    if spec.slots < 1:
        raise BadRequest(f"-n {spec.slots}: Bad argument")
    most = 0
    for host in config.hosts.values():
        limit = slot_limit(host, observed(host.name))
        if limit is None or (host.max_slots is None and observed(host.name).load is None):
            return  # no limit, or not known yet
        most = max(most, limit)
    if spec.slots > most:
        raise BadRequest(f"Too many processors requested: -n {spec.slots}, the largest host has {most} slots")


def _run_limit(spec: JobSpec, queue: Queue) -> int | None:
    wanted = spec.run_limit_s if spec.run_limit_s is not None else queue.default_run_limit_s
    if wanted is not None and queue.run_limit_s is not None and wanted > queue.run_limit_s:
        allowed = f"-W {wanted // 60} minutes, queue {queue.name} allows {queue.run_limit_s // 60}"
        raise BadRequest(f"Cannot exceed queue's hard limit(s): {allowed}")
    return wanted if wanted is not None else queue.run_limit_s


def _requirement(spec: JobSpec, queue: Queue, config: ClusterConfig) -> Requirement:
    def is_boolean(name: str) -> bool:
        resource = config.resource(name)
        return resource is not None and resource.type is ResourceType.BOOLEAN

    def is_text(name: str) -> bool:
        resource = config.resource(name)
        return resource is not None and resource.type is ResourceType.STRING

    known = [*BUILTIN, *config.resources]
    asked = parse(spec.res_req)
    check_names(asked, lambda name: config.resource(ALIASES.get(name, name)) is not None, known, is_text=is_text)
    combined = combine(spec.res_req, queue.res_req, is_boolean=is_boolean)
    return replace(combined.requirement, source=combined.text)


def _check_amounts(
    spec: JobSpec, amounts: Mapping[str, float], requirement: Requirement, config: ClusterConfig
) -> None:
    for item in requirement.rusage:
        position = max(0, spec.res_req.find(item.name))
        if item.name == "ngpuprohibited":
            raise RequirementError(
                "Bad resource name",
                "ngpuprohibited cannot be reserved: a prohibited GPU is never used",
                spec.res_req,
                position,
            )
        amount = amounts[item.name]
        if item.name in GPU_COUNTERS:
            if amount != int(amount):
                detail = f"{item.name}={item.text}: GPUs are claimed whole"
                raise RequirementError("Bad resource requirement syntax", detail, spec.res_req, position)
            continue
        resource = config.resource(item.name)
        if resource is not None and not resource.consumable:
            where = f": set CONSUMABLE to Y in {resource.source}" if resource.source else " (it is built in)"
            detail = f"{item.name} is not consumable and cannot be reserved by rusage{where}"
            raise RequirementError("Bad resource name", detail, spec.res_req, position)


def _check_devices(
    claims: Mapping[str, int],
    spec: JobSpec,
    queue: Queue,
    config: ClusterConfig,
    observed: Callable[[str], Observation],
) -> None:
    """Refuse claims that no host's devices could meet even if all were free; silent while a host is unknown."""
    if not claims:
        return
    names = [name for name in config.hosts if not spec.hosts or name in spec.hosts]
    names = [name for name in names if queue.hosts is None or name in queue.hosts]
    reports = {name: observed(name).gpus for name in names}
    if not reports or any(report is None or not report.known for report in reports.values()):
        return
    inventories = {name: [gpu.mode for gpu in report.gpus] for name, report in reports.items() if report is not None}
    if any(_could_hold(modes, claims) for modes in inventories.values()):
        return
    raise BadRequest(_impossible(claims, inventories))


def _could_hold(modes: list[ComputeMode | None], claims: Mapping[str, int]) -> bool:
    return all(_countable(modes, claim) >= wanted for claim, wanted in claims.items()) and sum(claims.values()) <= len(
        modes
    )


def _countable(modes: list[ComputeMode | None], claim: str) -> int:
    if claim == "ngpus":
        return sum(mode is not None and mode is not ComputeMode.PROHIBITED for mode in modes)
    return modes.count(_MODE_WORDS[claim][0])


def _impossible(claims: Mapping[str, int], inventories: Mapping[str, list[ComputeMode | None]]) -> str:
    """One line: what cannot be met, and what to set or to ask instead."""
    claim, wanted = next(iter(claims.items()))
    for name, amount in claims.items():
        if all(_countable(modes, name) < amount for modes in inventories.values()):
            claim, wanted = name, amount
            break
    best = max(inventories, key=lambda name: (_countable(inventories[name], claim), name))
    most = _countable(inventories[best], claim)
    text = f"No host can ever provide {claim}={wanted}: "
    if most:
        return text + f"{best} has the most such GPUs, {most}; ask for at most {claim}={most}"
    if claim == "ngpus":
        return text + "no host has a GPU that may be used"
    text += f"no GPU is in {_MODE_WORDS[claim][1]} mode"
    others = {
        name: max(_countable(modes, name) for modes in inventories.values()) for name in _MODE_WORDS if name != claim
    }
    offer = max(others, key=lambda name: others[name])
    ask = f"; ask for {offer}={min(wanted, others[offer])} instead" if others[offer] else ""
    if claim == "ngpus_excl_t":
        advice = ask or "; set Exclusive_Process mode (nvidia-smi -c 3) and ask for ngpus_excl_p"
        return f"{text} (today's drivers no longer have it){advice}"
    number = {"ngpus_excl_p": 3, "ngpus_shared": 0}[claim]
    return f"{text}{ask}, or have an administrator set it (nvidia-smi -c {number})"
