"""The parameters of lsb.queues that one line sets and one field of Queue keeps: how each is read, and how it is shown.

lsb_queues reads queues by this table, and the master shows by it what gqueues -l lists; so a new parameter
is a field of Queue, a row here, and its effect; a name that LSF has leaves the list of those that are not supported
(lsf_names.QUEUE). What one line says for several fields, or several lines for one, is
read in gsched.config.files.lsb_queues. Source: lsb.queues(5).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from gsched.base.errors import BadRequest
from gsched.config.files.host_groups import HostNames
from gsched.config.files.lsb_users import UserNames
from gsched.config.grammar.values import (
    KeyValues,
    command_line,
    integer,
    interactive_jobs,
    minutes,
    nice,
    plain_text,
    real,
    seconds,
    yes_or_no,
)
from gsched.config.grammar.windows import parse_windows
from gsched.config.parameters.containers import site_container
from gsched.config.parameters.gpu_idle import gpu_idle
from gsched.config.parameters.job_limits import resizable_jobs, resizable_text, time_s
from gsched.config.parameters.job_surroundings import job_controls
from gsched.config.parameters.preemption import preemption
from gsched.config.parameters.requirements import RequirementJudge, gpu_requirement
from gsched.config.parameters.reservation import reservation, reservation_text
from gsched.config.parameters.retries import (
    exit_values,
    retries,
    retry_action,
    save_signal,
    success_values,
    warning_signal,
)
from gsched.config.parameters.shares import fairshare, other_queues, queue_order
from gsched.config.parameters.thresholds import terminate_when
from gsched.model.config import Timing
from gsched.model.hosts.resource import Resource
from gsched.model.queues.application import Application
from gsched.model.queues.gpu_idle_policy import GpuIdlePolicy
from gsched.model.queues.job_controls import JobControls
from gsched.model.queues.queue import Preemption, Queue
from gsched.model.queues.window import windows_text


class Known(msgspec.Struct, frozen=True):
    """What queues refer to. `sleep_s` is MBD_SLEEP_TIME, the unit of reservations and of JOB_ACCEPT_INTERVAL."""

    hosts: HostNames
    users: UserNames
    resources: Mapping[str, Resource]
    judge: RequirementJudge
    sleep_s: float
    applications: Collection[str] = ()
    """Names of application profiles."""
    gpu_use_s: float = Timing().gpu_use_s
    """GSCHED_GPU_USE_INTERVAL."""
    reserved_jobs: int | None = None
    """LSB_TIME_RESERVE_NUMJOBS: RESERVATION of queues that set none; None: as ever."""


Reader = Callable[[str], Any]


class QueueParameter(msgspec.Struct, frozen=True):
    """A parameter of lsb.queues."""

    name: str
    field: str
    """Of Queue; its default there is what counts where the parameter is not set."""
    reader: Callable[[Known], Reader]
    """Gives what turns the text into the field's value or raises BadRequest."""
    shown: Callable[[Any], str] | None = None
    """Writes the value for gqueues -l; None: it is shown in a column, or among the policies."""
    shown_as: str = ""
    """What gqueues -l calls it, where that is not its name."""


def _always(reader: Reader) -> Callable[[Known], Reader]:
    return lambda _: reader


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _number(value: float) -> str:
    return f"{value:.6g}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} min"


def _preemption(value: Preemption) -> str:
    parts = []
    lower, higher = value.preemptive, value.preemptable_by
    if lower is not None:
        names = " ".join(f"{name}+{level}" if level else name for name, level in lower)
        parts.append(f"PREEMPTIVE[{names}]" if names else "PREEMPTIVE")
    if higher is not None:
        parts.append(f"PREEMPTABLE[{' '.join(higher)}]" if higher else "PREEMPTABLE")
    return " ".join(parts)


def _gpu_idle(value: GpuIdlePolicy) -> str:
    return value.text


def _controls(value: JobControls) -> str:
    return value.text


def _reserve_limits(limits: Mapping[str, tuple[float, float]]) -> str:
    return " ".join(
        f"[{name}={least:g},{most:g}]" if least else f"[{name}={most:g}]" for name, (least, most) in limits.items()
    )


def exit_or_suspend(ends: bool) -> str:
    """LOCAL_MAX_PREEXEC_RETRY_ACTION as it is written."""
    return "EXIT" if ends else "SUSPEND"


def _at_least_a_minute(text: str) -> int:
    found = time_s(text)
    if not found:
        raise BadRequest(f"'{text}': it is at least one minute")
    return found


_LIMIT = _always(integer(0, 2**31 - 2))

PARAMETERS = (
    QueueParameter("PRIORITY", "priority", _always(integer(1, 2**31 - 2))),
    QueueParameter("DESCRIPTION", "description", _always(plain_text)),
    QueueParameter("NICE", "nice", _always(nice)),
    QueueParameter("ADMINISTRATORS", "administrators", lambda known: known.users.listed),
    QueueParameter("QJOB_LIMIT", "job_limit", _LIMIT),
    QueueParameter("UJOB_LIMIT", "user_limit", _LIMIT),
    QueueParameter("HJOB_LIMIT", "host_limit", _LIMIT),
    QueueParameter("PJOB_LIMIT", "processor_limit", _always(real(0, 1e6))),
    QueueParameter("DEFAULT_RUNLIMIT", "estimate_s", _always(time_s), _minutes),
    QueueParameter("RES_REQ", "res_req", lambda known: known.judge.requirement),
    QueueParameter("GPU_REQ", "gpu_req", lambda known: gpu_requirement(known.judge.unit)),
    QueueParameter("RESRSV_LIMIT", "reserve_limits", lambda known: known.judge.reserve_limits, _reserve_limits),
    QueueParameter("PRE_EXEC", "pre_exec", _always(command_line), str),
    QueueParameter("POST_EXEC", "post_exec", _always(command_line), str),
    QueueParameter("HOST_PRE_EXEC", "host_pre_exec", _always(command_line), str),
    QueueParameter("HOST_POST_EXEC", "host_post_exec", _always(command_line), str),
    QueueParameter("JOB_STARTER", "job_starter", _always(command_line), str),
    QueueParameter("JOB_CONTROLS", "controls", _always(job_controls), _controls),
    QueueParameter("CONTAINER", "container", _always(site_container), str),
    QueueParameter("INTERACTIVE", "interactive", _always(interactive_jobs)),
    QueueParameter("RERUNNABLE", "rerunnable", _always(yes_or_no), _yes),
    QueueParameter("RESIZABLE_JOBS", "resizable", _always(resizable_jobs), resizable_text),
    QueueParameter("REQUEUE_EXIT_VALUES", "requeue_exit_values", _always(exit_values), str),
    QueueParameter("SUCCESS_EXIT_VALUES", "success_exit_values", _always(success_values), str),
    QueueParameter("LOCAL_MAX_PREEXEC_RETRY_ACTION", "preexec_exit", _always(retry_action), exit_or_suspend),
    QueueParameter("JOB_WARNING_ACTION", "warning_signal", _always(warning_signal), str),
    QueueParameter("JOB_ACTION_WARNING_TIME", "warning_s", _always(_at_least_a_minute), _minutes),
    QueueParameter("MAX_JOB_REQUEUE", "max_requeue", _LIMIT, _number),
    QueueParameter("CHKPNT_SIGNAL", "save_signal", _always(save_signal), str),
    QueueParameter("RETRY", "retry", _always(retries), str),
    QueueParameter(
        "GPU_IDLE",
        "gpu_idle",
        lambda known: gpu_idle(known.users.listed, known.applications, known.gpu_use_s),
        _gpu_idle,
    ),
    QueueParameter("SERVICE_IDLE", "service_idle_s", _always(_at_least_a_minute), _minutes),
    QueueParameter("JOB_OVERRUN", "job_overrun_s", _always(minutes)),
    QueueParameter("JOB_UNDERRUN", "job_underrun_s", _always(minutes)),
    QueueParameter("JOB_IDLE", "job_idle", _always(real(0, 1))),
    QueueParameter("ORPHAN_JOB_TERM_GRACE_PERIOD", "orphan_grace_s", _always(seconds(0)), _number),
    QueueParameter("RUN_WINDOW", "run_window", _always(parse_windows), windows_text, "RUN_WINDOWS"),
    QueueParameter("DISPATCH_WINDOW", "dispatch_window", _always(parse_windows), windows_text),
    QueueParameter("TERMINATE_WHEN", "terminate_when", _always(terminate_when), " ".join),
    QueueParameter("SLA_GUARANTEES_IGNORE", "ignores_guarantees", _always(yes_or_no), _yes),
    QueueParameter("STOP_COND", "stop_cond", lambda known: known.judge.condition, str),
    QueueParameter("RESUME_COND", "resume_cond", lambda known: known.judge.condition, str),
    QueueParameter("FAIRSHARE", "fairshare", lambda known: lambda text: fairshare(text, known.users.groups)),
    QueueParameter("FAIRSHARE_QUEUES", "share_queues", _always(other_queues)),
    QueueParameter("DISPATCH_ORDER", "serves_queues_in_order", _always(queue_order)),
    QueueParameter("PREEMPTION", "preemption", _always(preemption), _preemption),
    QueueParameter("RESERVATION", "reserved_jobs", _always(reservation), reservation_text),
    QueueParameter("MAX_PLAN_DELAY", "plan_delay", _always(real(0, 1000)), _number),
    QueueParameter("BACKFILL", "backfill", _always(yes_or_no)),
    QueueParameter("NEW_JOB_SCHED_DELAY", "new_job_delay_s", _always(seconds(0)), _number),
    QueueParameter(
        "JOB_ACCEPT_INTERVAL",
        "accept_interval_s",
        lambda known: lambda text: real(0, 1e6)(text) * known.sleep_s,
        _number,
    ),
)

_UNSET = Queue(name="")


def read_parameters(settings: KeyValues, known: Known) -> dict[str, Any]:
    """Field of Queue -> value, of every parameter."""
    unset = msgspec.structs.asdict(_UNSET)
    if known.reserved_jobs is not None:
        unset["reserved_jobs"] = known.reserved_jobs
    return {each.field: settings.take(each.name, each.reader(known), unset[each.field]) for each in PARAMETERS}


def shown_parameters(queue: Queue) -> Iterator[tuple[str, str]]:
    """(name, value) of those that are set and that no column shows."""
    yield from shared_with_profiles(queue)
    for each in PARAMETERS:
        value = getattr(queue, each.field)
        if each.shown is not None and value != getattr(_UNSET, each.field):
            yield each.shown_as or each.name, each.shown(value)


def shared_with_profiles(read: Queue | Application) -> Iterator[tuple[str, str]]:
    """(name, value) of what queues and application profiles set alike and several lines say."""
    if read.max_preexec_retry is not None:
        yield "LOCAL_MAX_PREEXEC_RETRY", str(read.max_preexec_retry)
    if read.sparing.most is not None:
        yield "MAX_JOB_PREEMPT", str(read.sparing.most)
    if read.sparing.interval_s is not None:
        yield "NO_PREEMPT_INTERVAL", f"{read.sparing.interval_s // 60} min"
    for name, spared in (("NO_PREEMPT_RUN_TIME", read.sparing.run), ("NO_PREEMPT_FINISH_TIME", read.sparing.finish)):
        if spared is not None:
            yield name, spared.text
