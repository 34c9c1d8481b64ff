"""May this job enter? Completes a submitted spec or refuses it with LSF's text and what to do about it.

It answers what can never run at once, instead of leaving it pending. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import msgspec

from gsched.base.coded_text import AnyText, CodedText, coded, listed
from gsched.base.errors import BadRequest, PermissionDenied, about
from gsched.core.dispatch.task_limits import task_limits
from gsched.core.resources.observed_hosts import Observation, Observed
from gsched.core.resources.resource_values import affinity_processors, slot_limit
from gsched.core.state.cluster_state import ClusterState
from gsched.core.submission.container_check import check_runtime
from gsched.core.submission.device_fit import Offered, never_met
from gsched.core.submission.gpu_range_check import check_range
from gsched.core.submission.requirement_check import CheckedRequirement, CheckRequirement, LeastUse, lasting
from gsched.core.submission.spec_defaults import complete, queue_names, queue_of
from gsched.core.submission.spec_sizes import check_form
from gsched.model.config import ClusterConfig, GpuUnrequested
from gsched.model.hosts.host import ComputeMode, GpuReport, HostConfig, LoadReport
from gsched.model.hosts.resource import GPU_COUNTERS
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.devices import MODE_BY_OPTION, SETTABLE_MODES
from gsched.model.queues.queue import Queue
from gsched.model.texts_of_before import is_about_sudo, is_of_hosts

_MODE_WORDS = {
    "ngpus_excl_p": (ComputeMode.EXCLUSIVE_PROCESS, "Exclusive_Process"),
    "ngpus_excl_t": (ComputeMode.EXCLUSIVE_THREAD, "Exclusive_Thread"),
    "ngpus_shared": (ComputeMode.DEFAULT, "Default"),
    "gpu_excl": (ComputeMode.EXCLUSIVE_PROCESS, "Exclusive_Process"),
    "gpu_jexcl": (ComputeMode.DEFAULT, "Default"),
    "gpu_shared": (ComputeMode.DEFAULT, "Default"),
}


@dataclass(frozen=True, slots=True)
class AdmissionContext:
    """Whose job it is, and what it is held against."""

    user: str
    config: ClusterConfig
    state: ClusterState
    observed: Observed
    judge: CheckRequirement
    now: float
    old: JobSpec | None = None
    """What the job was before a modification."""


def admit(spec: JobSpec, around: AdmissionContext) -> JobSpec:
    """The completed spec, in the first of its queues that accepts it.

    Raises BadRequest, RequirementError, PermissionDenied (no full stop at the end).
    """
    check_form(spec)
    user, config, old = around.user, around.config, around.old
    if old is None and user == "root" and not config.params.root_may_submit:
        raise PermissionDenied("Root job submission is disabled: LSF_ROOT_USER=Y in lsf.conf lets root submit")

    if old is None and spec.resize_to > 0:
        raise BadRequest("resize_to: more slots are asked for by gresize request alone, of a job that has started")

    def admitted_to(name: str) -> JobSpec:
        return _admit_to(queue_of(name, user, config, around.state, old), spec, around)

    return first_that_accepts(queue_names(spec, config), admitted_to)


Accepted = TypeVar("Accepted")


def first_that_accepts(names: Sequence[str], enter: Callable[[str], Accepted]) -> Accepted:
    """What `enter` gives for the first queue that does not refuse. Raises what they say, each."""
    refusals: dict[str, BadRequest | PermissionDenied] = {}
    for name in names:
        try:
            return enter(name)
        except (BadRequest, PermissionDenied) as error:
            refusals[name] = error
    first = refusals[names[0]]
    if len({error.said for error in refusals.values()}) == 1:
        raise first
    denied = all(isinstance(error, PermissionDenied) for error in refusals.values())
    text = listed([_of_queue(name, error.said) for name, error in refusals.items()], "list.semicolon")
    with about(*dict.fromkeys(field for error in refusals.values() for field in error.about)):
        raise PermissionDenied(text) if denied else BadRequest(text)


def _of_queue(name: str, refusal: AnyText) -> AnyText:
    """A refusal that says which queue it is of."""
    code = refusal.code if isinstance(refusal, CodedText) else ""
    names_it = code.startswith("refusal.") and not code.startswith("refusal.profile_")
    return refusal if names_it else coded("refusal.queues", name, refusal)


def _admit_to(queue: Queue, spec: JobSpec, around: AdmissionContext) -> JobSpec:
    """The spec completed for that queue. Raises as `admit`."""
    config, observed = around.config, around.observed
    spec = complete(spec, around.user, queue, config, around.state, around.now, around.old)
    with about(*_requirements(spec)):
        judged = around.judge(spec.res_req, spec.gpu_req, queue.name, spec.slots, spec.application)
    with about("slots"):
        spec = _check_slots(spec, queue, config, observed, judged)
    with about("gpu_req"):
        check_range(spec, judged)
    with about(*_requirements(spec)):
        _check_choices(judged, spec, queue, config, observed)
    check_runtime(spec, (observed(host.name) for host in _usable(spec, queue, config)))
    usable = _usable(spec, queue, config) if judged.wishes else ()
    note = never_met(judged.wishes, {host.name: _offered(host, observed(host.name)) for host in usable})
    own = [text for text in lasting(spec.warnings) if not is_of_hosts(text)]
    if any(map(is_about_sudo, own)) and _all_fenced([observed(host.name) for host in _usable(spec, queue, config)]):
        own = [text for text in own if not is_about_sudo(text)]
    return msgspec.structs.replace(
        spec,
        combined_req=judged.text,
        combined_gpu_req=judged.gpu_text,
        auto_gpu=judged.takes_unasked and config.params.gpu_unrequested is GpuUnrequested.AUTO,
        warnings=tuple(dict.fromkeys((*own, *judged.warnings, *([note] if note else [])))),
    )


def _requirements(spec: JobSpec) -> tuple[str, ...]:
    """The fields that say what the job needs of its hosts."""
    return tuple(name for name in ("res_req", "gpu_req") if getattr(spec, name))


def _all_fenced(seen: Sequence[Observation]) -> bool:
    """Whether a job reaches its own GPUs alone wherever it may be placed. What is not known yet is not fenced."""
    return all(each.gpus is not None and not (each.gpus.gpus and each.gpus.unfenced) for each in seen)


def _offered(host: HostConfig, seen: Observation) -> Offered:
    """What the host has of GPUs and, for jobs with affinity[], of processors."""
    is_unknown = host.affinity is not None and (not seen.connected or seen.topology is None)
    return Offered(seen.gpus, None if is_unknown else affinity_processors(host, seen))


def _check_choices(
    judged: CheckedRequirement, spec: JobSpec, queue: Queue, config: ClusterConfig, observed: Observed
) -> None:
    """One of the alternatives must be one that hosts could meet; otherwise the first one's reason is raised."""
    first: BadRequest | None = None
    for choice in judged.choices:
        try:
            for term in choice:
                _check_term(term, spec, queue, config, observed)
            return
        except BadRequest as error:
            first = first or error
    if first is not None:
        raise first


def _check_term(
    term: tuple[LeastUse, ...], spec: JobSpec, queue: Queue, config: ClusterConfig, observed: Observed
) -> None:
    first: BadRequest | None = None
    for usage in term:
        try:
            _check_amounts(usage.amounts, spec, queue, config, observed)
            _check_devices(usage.claims, spec, queue, config, observed)
            return
        except BadRequest as error:
            first = first or error
    if first is not None:
        raise first


def _usable(spec: JobSpec, queue: Queue, config: ClusterConfig) -> Iterator[HostConfig]:
    """Hosts that the job may use."""
    for host in config.hosts.values():
        asked = not spec.hosts or spec.other_hosts or host.name in spec.hosts
        if host.server and asked and (queue.hosts is None or host.name in queue.hosts):
            yield host


def _check_slots(
    spec: JobSpec, queue: Queue, config: ClusterConfig, observed: Observed, judged: CheckedRequirement
) -> JobSpec:
    """The spec with the slots that it gets; refuses what limits and hosts could never give."""
    least = judged.tasks or spec.slots
    most = max(least, spec.max_slots)
    if spec.slots < 1 or (spec.max_slots and spec.max_slots < spec.slots):
        raise BadRequest(f"{spec.slots}{f',{spec.max_slots}' if spec.max_slots else ''} processors: Bad argument")
    for limit in task_limits(spec.application, queue.name, config):
        refused = limit.wrong_size(least, most) or limit.too_many(least) or limit.too_few(most)
        if refused is not None:
            raise BadRequest(refused)
        least, most = max(least, limit.fewest), min(most, limit.most)
    for name, allowed in (("QJOB_LIMIT", queue.job_limit), ("UJOB_LIMIT", queue.user_limit)):
        if allowed and least > allowed:  # 0 drains the queue: its jobs wait
            raise BadRequest(coded("refusal.slots", queue.name, least, allowed, name))
    for block in judged.blocks:
        if most // block * block < least:
            asked = f"{least}" + (f" to {most}" if most > least else "") + " processors"
            raise BadRequest(f"Bad argument: {asked} make no whole blocks of span[block={block}]")
    _check_hosts_slots(least, spec, queue, config, observed, judged)
    return msgspec.structs.replace(spec, slots=least, max_slots=most if most > least else 0)


def _check_hosts_slots(
    least: int, spec: JobSpec, queue: Queue, config: ClusterConfig, observed: Observed, judged: CheckedRequirement
) -> None:
    """Refuse more slots than the hosts that the job may use have: each of them for span[hosts=1], else together."""
    tile = judged.per_host
    largest, total = 1, 0  # hosts may be drained with MXJ 0: a job of one slot waits
    for host in _usable(spec, queue, config):
        seen = observed(host.name)
        limit = slot_limit(host, seen)
        if limit is None or (host.max_slots is None and seen.load is None):
            if tile is None:
                return  # no limit, or not known yet
            limit = tile
        if queue.host_limit is not None:
            limit = min(limit, queue.host_limit or limit)
        largest, total = max(largest, limit), total + min(limit, tile or limit)
    if judged.on_one_host and least > largest:
        raise BadRequest(f"Too many processors requested: {least}, the largest usable host has {largest} slots")
    if least > max(total, 1):
        tiled = f" with {judged.tiling}" if judged.tiling else ""
        where = f"the usable hosts have {total} slots together{tiled}"
        raise BadRequest(f"Too many processors requested: {least}, {where}")


def _has(host: HostConfig, name: str, config: ClusterConfig) -> bool:
    """Whether the host is given the resource; built-in ones every host has."""
    return (
        name not in config.resources
        or name in host.values
        or host.name in config.mapped.get(name, ())
        or name in config.shared_on(host.name)
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
            shared = config.shared_on(host.name).get(name)
            total = total_of(host, name, observed(host.name)) if shared is None else shared.value
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


def total_of(host: HostConfig, name: str, seen: Observation) -> float | None:
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
    inventories: dict[str, _Inventory] = {}
    for host in _usable(spec, queue, config):
        if not all(name not in GPU_COUNTERS or _has(host, name, config) for name in claims):
            continue
        report = observed(host.name).gpus
        if report is None or not report.known or any(gpu.mode is None for gpu in report.gpus):
            return
        inventory = inventories[host.name] = _inventory(report)
        if _could_hold(inventory, claims):
            return
    if not inventories and len(claims) == 1:
        (name,) = claims
        raise BadRequest(f"No host can ever provide {_as_asked(name, claims[name])}: {_best(name, {}, config)}")
    if not inventories:
        raise BadRequest(f"No host can ever provide {', '.join(claims)} together: no usable host has all of them")
    raise BadRequest(_impossible(claims, inventories))


def _as_asked(claim: str, amount: int) -> str:
    """A claim as the user writes it."""
    mode = {"gpu_shared": "shared", "gpu_jexcl": "shared:j_exclusive=yes", "gpu_excl": "exclusive_process"}.get(claim)
    return f"{claim}={amount}" if mode is None else f'-gpu "num={amount}:mode={mode}"'


class _Inventory(NamedTuple):
    """The GPUs of a host as far as claims by mode go."""

    modes: list[ComputeMode]
    sets_modes: bool
    """Whether default and exclusive_process are as good as each other for -gpu."""
    why_not: AnyText


def _inventory(report: GpuReport) -> _Inventory:
    modes = [gpu.counted_mode for gpu in report.gpus if gpu.counted_mode is not None]
    return _Inventory(modes, report.sets_modes, report.modes_note)


def _could_hold(inventory: _Inventory, claims: Mapping[str, int]) -> bool:
    each = all(_countable(inventory, claim) >= wanted for claim, wanted in claims.items())
    return each and sum(claims.values()) <= _countable(inventory, "ngpus")


def _countable(inventory: _Inventory, claim: str) -> int:
    if claim == "ngpus":
        return sum(mode is not ComputeMode.PROHIBITED for mode in inventory.modes)
    if inventory.sets_modes and claim in MODE_BY_OPTION:
        return sum(mode in SETTABLE_MODES for mode in inventory.modes)
    return inventory.modes.count(_MODE_WORDS[claim][0])


def _impossible(claims: Mapping[str, int], inventories: Mapping[str, _Inventory]) -> str:
    """One line: what cannot be met, and what to set or to ask instead."""
    usable = {name: _countable(inventory, "ngpus") for name, inventory in inventories.items()}
    largest = max(usable, key=lambda name: (usable[name], name))
    lacking = [
        name
        for name, amount in claims.items()
        if all(_countable(inventory, name) < amount for inventory in inventories.values())
    ]
    if not lacking:
        wanted = ",".join(_as_asked(name, amount) for name, amount in claims.items())
        return f"No host can ever provide {wanted} at once: {largest} has the most usable GPUs, {usable[largest]}"
    text = f"No host can ever provide {_as_asked(lacking[0], claims[lacking[0]])}: "
    if not usable[largest] and any(inventory.modes for inventory in inventories.values()):
        return text + "every GPU is in Prohibited mode; have an administrator set another (nvidia-smi -c 3)"
    if not usable[largest]:
        return text + "no host has a GPU that may be used"
    return text + _nearest(lacking[0], claims[lacking[0]], inventories)


def _nearest(claim: str, wanted: int, inventories: Mapping[str, _Inventory]) -> str:
    """The nearest thing that can be had, for one claim that cannot."""
    best = max(inventories, key=lambda name: (_countable(inventories[name], claim), name))
    most = _countable(inventories[best], claim)
    if most:
        return f"{best} has the most such GPUs, {most}; ask for at most {_as_asked(claim, most)}"
    text = f"no GPU is in {_MODE_WORDS[claim][1]} mode"
    others = {
        name: max(_countable(inventory, name) for inventory in inventories.values())
        for name in _MODE_WORDS
        if name in GPU_COUNTERS and name != claim
    }
    offer = max(others, key=lambda name: others[name])
    ask = f"ask for {offer}={min(wanted, others[offer])} instead"
    if claim.startswith("gpu_"):
        mode = "shared" if claim == "gpu_excl" else "exclusive_process"
        ask = f'ask for -gpu "num={min(wanted, others[offer])}:mode={mode}" instead'
        if why_not := inventories[best].why_not:
            text = f"{text}, and {best} sets none for jobs ({why_not})"
    if claim == "ngpus_excl_t":
        return f"{text} (today's drivers no longer have it); {ask}"
    number = 3 if _MODE_WORDS[claim][0] is ComputeMode.EXCLUSIVE_PROCESS else 0
    return f"{text}; {ask}, or have an administrator set it (nvidia-smi -c {number})"
