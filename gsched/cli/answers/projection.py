"""From the master's views to the records that the layouts print. Pure; nothing is asked, nothing computed anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gsched.base.ids import array_of, index_of
from gsched.cli.options.size_units import shown_in
from gsched.cli.render.text.layout_records import (
    AffinityUnit,
    GpuOfJob,
    HostSlots,
    MessageRow,
    ShownJob,
)
from gsched.cli.render.text.reason_lines import DEFAULT_LEVEL, reason_texts
from gsched.model.allocation import Allocation, CpuBinding, HeldGpu, HostAllocation
from gsched.model.host import Gpu, MigDevice
from gsched.model.job import FINISHED, AttemptResult, JobSpec, Usage
from gsched.model.view import JobView

SOON_S = 5.0
"""A job that was dispatched begins within that time, unless something keeps it."""
_SUSPENDED = frozenset({"USUSP", "SSUSP"})


def _reserved_mem(allocation: Allocation | None) -> float | None:
    """MiB of memory reserved on all hosts; None where there is no such reservation."""
    amounts = [part.amounts["mem"] for part in allocation.hosts if "mem" in part.amounts] if allocation else []
    return sum(amounts) if amounts else None


def placed(allocation: Allocation | None) -> tuple[HostSlots, ...]:
    """The hosts of an allocation with their slots, first execution host first."""
    if allocation is None:
        return ()
    return tuple(HostSlots(part.host, part.slots) for part in allocation.hosts)


def job_record(
    view: JobView,
    external_indices: tuple[str, ...] = (),
    *,
    level: int = DEFAULT_LEVEL,
    with_hosts: bool = False,
    unit: str = "M",
    now: float | None = None,
    thresholds: Mapping[str, str] | None = None,
) -> ShownJob:
    """A job as gjobs prints it. `external_indices` and `thresholds` are for the threshold tables of -l; `level` and
    `with_hosts` say how much of the pending reasons is told (reason_lines); `unit`, a letter, is that of
    sizes in requirements. `now`, in seconds since 1970, has it told what a job waits for that should have begun.
    """
    has_ended = view.state in FINISHED
    ending = _ending(view.result) if has_ended else {}
    gpus = view.allocation.gpu_message() if view.allocation is not None else ""
    count = sum(len(part.gpus) for part in view.allocation.hosts) if view.allocation is not None else 0
    return ShownJob(
        **_submitted(view.job_id, view.spec, view.submitted_at),
        stat=view.state,
        started_at=view.dispatched_at,
        placed=placed(view.allocation),
        reserved_mem_mib=_reserved_mem(view.allocation),
        gpus=gpus,
        gpu_count=count,
        exec_home=view.exec_home,
        exec_cwd=view.exec_cwd,
        usage=_usage(view),
        share_group=view.share_group,
        kill_reason=view.kill_reason,
        ended_at=view.finished_at if has_ended else None,
        pending_reasons=reason_texts(view.pending_reasons, level, with_hosts=with_hosts),
        suspending_reasons=_suspending(view),
        planned=view.planned,
        combined_gpu_req=view.spec.combined_gpu_req,
        combined_req=shown_in(unit, shown_with_gpus(view.spec.combined_req, view.spec.combined_gpu_req)),
        effective_req=shown_in(
            unit, shown_with_gpus(view.effective_req, view.spec.combined_gpu_req, is_effective=True)
        ),
        external_indices=external_indices,
        thresholds=dict(thresholds or {}),
        messages=tuple(
            MessageRow(
                box=each.box,
                user=each.user,
                posted_at=each.posted_at,
                text=each.text,
                attached=bool(each.attachment),
            )
            for each in view.messages
        ),
        warnings=(
            *view.spec.warnings,
            *(note for note in view.notes if note not in view.spec.warnings),
            *_still_held(view),
            *(() if now is None else _not_begun(view, now)),
        ),
        **ending,
    )


def _still_held(view: JobView) -> Iterator[str]:
    """What a finished job has on its other hosts until its parts there have ended."""
    for part in view.allocation.hosts if view.allocation is not None else ():
        if part.host in view.leaving:
            held = f"{part.slots} slot{'s' * (part.slots > 1)}"
            if part.gpus:
                held += f" and GPU{'s' * (len(part.gpus) > 1)} {','.join(str(gpu.index) for gpu in part.gpus)}"
            yield f"{held} of host {part.host} are still held: what the job had there has not ended"


def _not_begun(view: JobView, now: float) -> Iterator[str]:
    """Which hosts a job waits for that was dispatched a while ago: LSF's state for it is RUN."""
    if not view.awaited or view.dispatched_at is None or now - view.dispatched_at < SOON_S:
        return
    first = view.allocation.first_host if view.allocation is not None else ""
    if view.awaited == (first,):
        yield f"starting: waiting for the job's files (input, output, working directory) on host {first}"
    else:
        hosts = f"host{'s' * (len(view.awaited) > 1)} {', '.join(view.awaited)}"
        yield f"starting: waiting for {hosts} to open what the job has there"


def gpus_of(view: JobView, known: Mapping[str, Gpu]) -> tuple[GpuOfJob, ...]:
    """The GPUs that the job holds, or held; `known`: the devices of all hosts by UUID, as their probes see them now."""
    parts = view.allocation.hosts if view.allocation is not None else ()
    return tuple(_gpu_of(part, held, known.get(held.board)) for part in parts for held in part.gpus)


def _gpu_of(part: HostAllocation, held: HeldGpu, gpu: Gpu | None) -> GpuOfJob:
    linked = gpu.links if gpu is not None and not held.parent else ()
    part_mib = {each.uuid: each.memory_mib for each in gpu.mig_devices} if gpu is not None else {}
    return GpuOfJob(
        host=part.host,
        index=held.index,
        model=gpu.model if gpu is not None else "",
        memory_mib=part_mib.get(held.uuid) if held.parent else gpu.memory_mib if gpu is not None else None,
        reserved_mib=held.gmem_mib,
        socket=gpu.numa if gpu is not None else None,
        sizes=MigDevice(uuid=held.uuid, profile=held.profile).sizes,
        links=tuple("-" if each.uuid == held.uuid else "Y" if each.uuid in linked else "N" for each in part.gpus),
    )


def affinity_units(view: JobView) -> tuple[AffinityUnit, ...]:
    """The processor units of a job with affinity[], task by task."""
    parts = view.allocation.hosts if view.allocation is not None else ()
    return tuple(unit for part in parts for binding in part.bindings for unit in _units(part.host, binding))


_POLICIES = {"localonly": "local", "localprefer": "pref"}


def _units(host: str, binding: CpuBinding) -> Iterator[AffinityUnit]:
    from gsched.resreq.syntax import parse  # only now: the language takes long to import

    asked = parse(binding.affinity).affinity
    if asked is None:
        return
    for task in binding.tasks:
        for unit in task.units:
            yield AffinityUnit(
                host=host,
                type=asked.unit,
                level=asked.cpubind,
                exclusive=asked.exclusive[0],
                unit=unit,
                policy=_POLICIES.get(asked.membind, ""),
                nodes=",".join(map(str, task.nodes)) if asked.membind else "",
            )


def shown_with_gpus(text: str, gpu: str, *, is_effective: bool = False) -> str:
    """A combined requirement as LSF shows it for a job with -gpu."""
    if not gpu:
        return text
    from gsched.resreq.shown import with_gpus  # only now: the language takes long to import

    return with_gpus(text, gpu, is_effective=is_effective)


def _suspending(view: JobView) -> tuple[str, ...]:
    if view.state not in _SUSPENDED:
        return ()
    return (view.suspending_reason or (BY_USER if view.state == "USUSP" else BY_SYSTEM),)


BY_USER = "The job was suspended by user"
BY_SYSTEM = "The job was suspended by the system"


def _submitted(job_id: int, spec: JobSpec, submitted_at: float) -> dict[str, Any]:
    limit = f"%{spec.array_limit}" if spec.array_limit else ""
    return {
        "job_id": array_of(job_id),
        "index": index_of(job_id),
        "array_spec": f"[{spec.indices}]{limit}" if spec.indices and not index_of(job_id) else "",
        "name": spec.name,
        "user": spec.user,
        "queue": spec.queue,
        "project": spec.project,
        "command": spec.command,
        "submit_host": spec.submit_host,
        "submitted_at": submitted_at,
        "hold": spec.hold,
        "cwd": spec.cwd,
        "specified_cwd": spec.specified_cwd,
        "home": spec.home,
        "input_file": spec.input_file,
        "output_file": spec.output_file,
        "output_overwrite": spec.output_overwrite,
        "error_file": spec.error_file,
        "error_overwrite": spec.error_overwrite,
        "slots": spec.slots,
        "max_slots": spec.max_slots,
        "res_req": spec.res_req,
        "gpu_req": spec.gpu_req,
        "hosts_asked": tuple(_asked_hosts(spec)),
        "run_limit_s": spec.run_limit_s,
        "exclusive": spec.exclusive,
        "rerunnable": bool(spec.rerunnable),
        "dependency": spec.dependency,
        "user_group": spec.user_group,
        "group": spec.group,
        "priority": spec.priority,
        "description": spec.description,
        "begin_at": spec.begin_at,
        "terminate_at": spec.terminate_at,
        "reservation": spec.reservation,
        "requeue_exit_values": spec.requeue_exit_values,
        "estimate_s": spec.estimate_s,
        "limits": spec.limits,
        "application": spec.application,
        "mail_user": spec.mail_user,
        "notify": "/".join(
            word
            for word, is_set in (("begins", spec.notify_begin), ("ends", spec.notify_end or spec.notify_error))
            if is_set
        ),
        "file_copies": spec.file_copies,
        "login_shell": spec.login_shell,
        "pre_exec": spec.pre_exec,
        "post_exec": spec.post_exec,
        "output_dir": spec.output_dir,
        "warning_signal": spec.warning_signal,
        "warning_s": spec.warning_s,
        "interactive": spec.interactive,
    }


def _asked_hosts(spec: JobSpec) -> Iterator[str]:
    """The hosts of -m as they may be typed again."""
    levels = spec.host_levels or (0,) * len(spec.hosts)
    yield from (f"{host}!" for host in spec.first_hosts if host not in spec.hosts)
    for host, level in zip(spec.hosts, levels, strict=False):
        yield host + ("!" if host in spec.first_hosts else "") + (f"+{level}" if level else "")
    if spec.other_hosts:
        yield "others"


def submitted_record(job_id: int, spec: JobSpec, submitted_at: float, usage: Usage | None = None) -> ShownJob:
    """What a job's history says of it besides its events."""
    return ShownJob(**_submitted(job_id, spec, submitted_at), stat="", usage=usage or Usage())


def _ending(result: AttemptResult | None) -> dict[str, Any]:
    if result is None:
        return {"ran": False}
    return {
        "exit_code": result.exit_code,
        "signal": result.signal,
        "term_reason": result.term_reason,
        "ran": result.started,
    }


def _usage(view: JobView) -> Usage:
    if view.state in FINISHED and view.result is not None:
        return view.result.usage
    return view.usage or Usage()
