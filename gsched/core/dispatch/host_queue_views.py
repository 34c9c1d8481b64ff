"""Views of hosts and queues, made from state, configuration and observation. Jobs make their own (Job.view)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from gsched.base.coded_text import AnyText, coded, listed
from gsched.base.ids import attempt_name, show_job
from gsched.base.idset import format_idset
from gsched.core.dispatch.load_control import beyond
from gsched.core.resources.closed_gpus import without_closed
from gsched.core.resources.exit_counts import exit_limit, exits_at
from gsched.core.resources.observed_hosts import Observation
from gsched.core.resources.resource_values import host_model, host_type, host_values, slot_limit
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.hosts.host import COUNTER_OF_MODE, Gpu, GpuProcess, GpuReport, HostConfig, HostState
from gsched.model.hosts.resource import GPU_COUNTERS, LOAD_INDICES, ResourceType
from gsched.model.hosts.topology import Topology
from gsched.model.jobs.job import JobState
from gsched.model.ledgers.allocation import COUNTER_OF_CLAIM
from gsched.model.ledgers.devices import MIG_CLAIMS
from gsched.model.ledgers.host_ledger import AttemptKey, HostLedger
from gsched.model.queues.container import RUNTIMES_RESOURCE
from gsched.model.queues.window import is_open, minute_of_week, windows_text
from gsched.model.views.view import GpuView, HostView, OrphanView, ResourceValue
from gsched.resreq.judging.host_types import TYPE_NAMES

_FACTS = ("nprocs", "ncores", "nthreads", "ostype", "osrel", "osver", RUNTIMES_RESOURCE, TYPE_NAMES)

MOST_NOTED = 20
"""Notes about attempts without a record; `gadmin orphans` lists all."""


def host_state(host: HostConfig, config: ClusterConfig, state: ClusterState, seen: Observation) -> HostState:
    """STATUS of the host. Source of the precedence: bhosts(1)."""
    if not seen.connected:
        return HostState.UNREACH if host.server and not seen.lost else HostState.UNAVAIL
    if host.name in state.closed_hosts:
        return HostState.CLOSED_ADM
    ledger = state.ledger.host(host.name)
    for (job_id, _), part in ledger.held.items():
        job = state.jobs.get(job_id)
        if job is not None and part.exclusive:
            return HostState.CLOSED_EXCL if job.spec.exclusive and part.slots else HostState.CLOSED_CU_EXCL
    if host.dispatch_window and not is_open(host.dispatch_window, minute_of_week(seen.last_heard)):
        return HostState.CLOSED_WIND
    if ledger.free_slots == 0:
        return HostState.CLOSED_FULL
    if host.thresholds and any(
        True for _ in beyond(host.thresholds, host_values(config, host, seen), config, stop=False)
    ):
        return HostState.CLOSED_BUSY
    return HostState.OK


def closed_reason(host: HostConfig, state: ClusterState, seen: Observation) -> AnyText:
    """Why the host takes no jobs, as a pending reason; empty when it does. A full host is judged job by job."""
    if host.server and host.name in state.closed_hosts:
        return coded("host.closed_by_admin")
    return closed_anyway(host, seen)


def closed_anyway(host: HostConfig, seen: Observation) -> AnyText:
    """Why the host would take no jobs even if no administrator had closed it; empty when it would."""
    if not host.server:
        return coded("host.no_server")
    if not seen.connected:
        return coded("host.unreachable")
    return "" if seen.load is not None else coded("host.no_load")


def host_view(host: HostConfig, config: ClusterConfig, state: ClusterState, seen: Observation) -> HostView:
    """The host as ghosts and gload show it."""
    ledger = state.ledger.host(host.name)
    values = host_values(config, host, seen)
    run, by_system, by_user = _job_slots(state, ledger)
    reserved = ledger.reserved
    offered = without_closed(host.name, seen.gpus, state.closed_gpus)
    closed_by, comment = state.closed_hosts.get(host.name, ("", ""))
    return HostView(
        name=host.name,
        status=host_state(host, config, state, seen).value,
        cpu_factor=host.cpu_factor,
        type=host_type(host),
        model=host_model(host),
        ncpus=seen.load.ncpus if seen.load is not None else 0,
        max_slots=slot_limit(host, seen),
        user_slots=host.user_slots,
        slots_free=ledger.free_slots,
        njobs=ledger.slots_used,
        run=run,
        ssusp=by_system,
        ususp=by_user,
        load=_load(values, reserved),
        reserved={index.name: reserved[index.name] for index in LOAD_INDICES if index.name in reserved},
        externals=tuple(_external(name, config, ledger, values.get(name)) for name in _counted_on(host, config)),
        shared=tuple(_shared(host, config, values, reserved)),
        gpus=tuple(_gpu_views(host, state, ledger, offered)),
        gpu_provider=seen.gpus.provider if seen.gpus is not None else "",
        gpu_driver=seen.gpus.driver if seen.gpus is not None else "",
        notes=tuple(_notes(host, config, ledger, seen, offered, closed_by)),
        comment=comment,
        closed_by=closed_by,
        affinity=(format_idset(host.affinity) or "all") if host.affinity is not None else "",
        topology=Topology(ledger.processors, seen.topology.memory if seen.topology is not None else ()),
        cpu_jobs={cpu: show_job(job) for (job, _), part in ledger.held.items() if part.bindings for cpu in part.cpus},
        max_mem_mib=_amount(values["maxmem"]),
        max_swp_mib=_amount(values["maxswp"]),
        max_tmp_mib=_amount(values["maxtmp"]),
        server=host.server,
        resources=host.resources,
        exclusive_resources=host.exclusive_resources,
        values=_static_values(host, config),
        facts={name: value for name in _FACTS if isinstance(value := values[name], float | str)},
        thresholds={name: each.text for name, each in host.thresholds.items()},
        dispatch_window=windows_text(host.dispatch_window),
        orphans=tuple(_unrecorded(seen)),
        exit_limit=exit_limit(host, config, seen),
        exits=exits_at(seen, config, seen.last_heard),
    )


def _load(values: Mapping[str, object], reserved: Mapping[str, float]) -> dict[str, float]:
    """The load indices that are known, without what jobs have reserved of them."""
    return {
        index.name: max(0.0, float(value) - reserved.get(index.name, 0.0))
        for index in LOAD_INDICES
        if isinstance(value := values.get(index.name), float | int)
    }


def _shared(
    host: HostConfig, config: ClusterConfig, values: Mapping[str, object], reserved: Mapping[str, float]
) -> Iterable[ResourceValue]:
    """Resources that the host shares with others."""
    for name, instance in config.shared_on(host.name).items():
        total, held = _amount(values.get(name)), reserved.get(name, 0.0)
        yield ResourceValue(name=name, total=total, reserved=held, consumable=instance.consumable)


def _gpu_views(
    host: HostConfig, state: ClusterState, ledger: HostLedger, offered: GpuReport | None
) -> Iterable[GpuView]:
    holders = _holders(ledger)
    for gpu in offered.gpus if offered is not None else ():
        held_by = tuple(attempt_name(*key) for key in sorted(holders.get(gpu.uuid, ())))
        yield GpuView(gpu=gpu, holders=held_by, closure=state.closed_gpus.get((host.name, gpu.uuid)))


def _unrecorded(seen: Observation) -> Iterable[OrphanView]:
    for key, attempt in sorted(seen.unrecorded.items()):
        part = attempt.part
        gpus = tuple(sorted({gpu.index for gpu in part.gpus})) if part is not None else ()
        slots = part.slots if part is not None else 0
        yield OrphanView(name=attempt_name(*key), slots=slots, gpus=gpus, over=part is None)


def _unrecorded_note(attempt: OrphanView) -> AnyText:
    if attempt.over:
        return coded("remark.unrecorded_over", attempt.name)
    holds = coded("remark.slot" if attempt.slots == 1 else "remark.slots", attempt.slots)
    if attempt.gpus:
        holds = coded("remark.with_gpus", holds, " ".join(map(str, attempt.gpus)))
    return coded("remark.unrecorded", attempt.name, holds)


def _holders(ledger: HostLedger) -> dict[str, set[AttemptKey]]:
    """UUID of a GPU -> the attempts that hold it, or a part of it by MIG."""
    found: dict[str, set[AttemptKey]] = {}
    for key, part in ledger.held.items():
        for held in part.gpus:
            found.setdefault(held.board, set()).add(key)
    return found


def _counted_on(host: HostConfig, config: ClusterConfig) -> list[str]:
    """Resources of the host itself of which the amount may change: by elims, or by what jobs take."""
    own = {*config.external_on(host.name)} | {
        name
        for name, value in host.values.items()
        if isinstance(value, float | int) and name in config.resources and config.resources[name].consumable
    }
    return [name for name in config.resources if name in own and name not in config.shared]


def _static_values(host: HostConfig, config: ClusterConfig) -> dict[str, float | str]:
    """Its own, and those of shared resources."""
    shared = {name: each.value for name, each in config.shared_on(host.name).items() if each.value is not None}
    return {**host.values, **shared}


def _amount(value: object) -> float | None:
    return float(value) if isinstance(value, float | int) else None


def _job_slots(state: ClusterState, ledger: HostLedger) -> tuple[int, int, int]:
    """Slots of jobs that run, that the system has suspended, and that somebody has."""
    slots = {JobState.SSUSP: 0, JobState.USUSP: 0, JobState.RUN: 0}
    for (job_id, _), part in ledger.held.items():
        job = state.jobs.get(job_id)
        suspended = job is not None and job.state in (JobState.SSUSP, JobState.USUSP)
        slots[job.state if job is not None and suspended else JobState.RUN] += part.slots
    return slots[JobState.RUN], slots[JobState.SSUSP], slots[JobState.USUSP]


def _external(name: str, config: ClusterConfig, ledger: HostLedger, value: object) -> ResourceValue:
    resource = config.resources[name]
    if name in GPU_COUNTERS:
        counter = ledger.counter(name)
        if counter is None:
            return ResourceValue(name=name, consumable=resource.consumable)
        return ResourceValue(name=name, total=counter.total, reserved=counter.reserved, consumable=resource.consumable)
    if resource.type is ResourceType.STRING:
        return ResourceValue(name=name, text=str(value) if value is not None else "")
    if not isinstance(value, float | int):
        return ResourceValue(name=name, consumable=resource.consumable)
    held = ledger.reserved.get(name, 0.0)
    return ResourceValue(name=name, total=max(0.0, float(value) - held), reserved=held, consumable=resource.consumable)


def _set_modes(report: GpuReport) -> Iterable[AnyText]:
    """What is done about compute modes for jobs."""
    for gpu in report.gpus:
        if gpu.standing_mode is not None:
            yield coded("remark.mode_set", gpu.index, str(gpu.mode), str(gpu.standing_mode))
    if report.gpus and report.modes_note:
        yield coded("remark.modes_not_set", report.modes_note)


def _changed_modes(ledger: HostLedger) -> Iterable[AnyText]:
    """GPUs whose mode somebody changed under the job that holds them."""
    for uuid, holders in ledger.holders.items():
        gpu = ledger.gpus.get(uuid)
        if gpu is None or gpu.mode is None:
            continue
        for (job_id, _), claim in holders.items():
            # Of modes that are set for jobs the agent knows which is meant; before it is set it is another.
            is_meant = claim in MIG_CLAIMS or (gpu.mode_settable and gpu.mode_given is None)
            if not is_meant and COUNTER_OF_CLAIM.get(claim, claim) not in ("ngpus", COUNTER_OF_MODE[gpu.mode]):
                yield coded("remark.mode_changed", gpu.index, claim, job_id, gpu.mode.value)


def _used_by(gpu: Gpu) -> AnyText:
    """GPU_FOREIGN=warn: foreign processes on a GPU that is offered all the same."""
    found = [_process(each) for each in gpu.processes if each.pid in gpu.foreign_pids]
    return coded("remark.foreign", gpu.index, gpu.uuid, listed(found))


def _process(process: GpuProcess) -> AnyText:
    user = process.user or "?"
    if process.used_mib is None:
        return coded("remark.process_unseen", process.pid, user)
    return coded("remark.process", process.pid, user, process.used_mib)


def _not_offered(report: GpuReport) -> Iterable[AnyText]:
    """One line for each GPU; a single one where all have the same problem."""
    problems = {gpu.problem for gpu in report.gpus}
    if len(report.gpus) > 1 and len(problems) == 1 and "" not in problems:
        yield coded("remark.no_gpu_offered", problems.pop())
    else:
        for gpu in report.gpus:
            if gpu.problem:
                yield coded("remark.gpu_not_offered", gpu.index, gpu.uuid, gpu.problem)


def _kept_gpu_notes(seen: Observation, report: GpuReport) -> Iterable[AnyText]:
    """The same as the last time where it is the same report: a host has a new view at each start and end."""
    if seen.kept_notes is None or seen.kept_notes[0] is not report:
        seen.kept_notes = (report, tuple(_gpu_notes(report)))
    return seen.kept_notes[1]


def _gpu_notes(report: GpuReport) -> Iterable[AnyText]:
    if not report.known:
        yield coded("remark.gpus_unknown", report.reason)
    elif report.provider == "simulated":
        yield coded("remark.gpus_simulated", len(report.gpus))
    elif not report.gpus:
        yield coded("remark.no_gpus_why", report.reason) if report.reason else coded("remark.no_gpus")
    if report.gpus and report.unfenced:
        yield coded("remark.not_fenced", report.unfenced)
    yield from _not_offered(report)
    yield from _set_modes(report)
    yield from (_used_by(gpu) for gpu in report.gpus if gpu.foreign_pids and not gpu.problem)
    if report.unheard:
        yield coded("remark.xids_unheard", report.unheard)


def _notes(
    host: HostConfig,
    config: ClusterConfig,
    ledger: HostLedger,
    seen: Observation,
    offered: GpuReport | None,
    closed_by: str,
) -> Iterable[AnyText]:
    """Lines that explain what the numbers do not."""
    if not seen.connected:
        yield coded("remark.no_agent", host.name)
        if closed_by:
            yield coded("remark.closed_by", closed_by)
        return
    if seen.only_user and config.is_shared:
        yield coded("remark.only_user", seen.only_user)
    yield from islice(map(_unrecorded_note, _unrecorded(seen)), MOST_NOTED)
    yield from _kept_gpu_notes(seen, offered) if offered is not None else (coded("gpus.not_probed"),)
    yield from _changed_modes(ledger)
    if seen.load is not None:
        yield from seen.load.notes
        for name in config.external_on(host.name):
            claimed = seen.load.external.get(name)
            if name in GPU_COUNTERS and ledger.gpus_known and isinstance(claimed, float):
                there = ledger.devices_in_mode(name)
                if claimed == there or any(gpu.standing_mode is not None for gpu in ledger.gpus.values()):
                    continue  # an elim sees the modes that are set for jobs
                yield coded("remark.elim_disagrees", name, claimed, there)
