"""Completes a submitted spec by what queue and cluster say, or refuses what they do not allow. Texts are LSF's.

Whether the resources can ever be had is admission's question. It changes nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gsched.base.coded_text import AnyText, coded, has_code
from gsched.base.errors import BadRequest, PermissionDenied, about
from gsched.base.indices import parse_indices
from gsched.core.authorization import queue_closed_to_user, some
from gsched.core.control.administration import group_path
from gsched.core.control.service_class_access import attached_class
from gsched.core.pending.dependency_check import resolve
from gsched.core.state.cluster_state import ClusterState
from gsched.core.submission.container_check import CONTAINER_FIELDS, check_container, site_container
from gsched.core.submission.job_folders import FOLDERS, site_folders
from gsched.model.config import ClusterConfig, Params
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.job_service import AUTO_PORT, LEAST_PORT, MOST_PORT, MOST_USERS, is_service
from gsched.model.jobs.job_signal import MOST_SAVE_S, read_save_signal
from gsched.model.jobs.notice import MAIL
from gsched.model.jobs.notice_targets import check_wishes
from gsched.model.jobs.requeue_exits import RESTART_CAUSES
from gsched.model.queues.application import Application
from gsched.model.queues.queue import Queue
from gsched.model.texts_of_before import is_no_mail
from gsched.resreq.ast import Compound
from gsched.resreq.parsing.syntax import parse_any

_PLAIN = JobSpec(command="", user="", queue="")
_DEFAULTED = ("run_limit_s", "rerunnable", "requeue_exit_values", "priority", "estimate_s", "application", "resizable")
"""Fields, beside limits and slots, that queue or cluster fill in where the user says nothing."""


def as_asked(spec: JobSpec) -> JobSpec:
    """The spec without what queue and cluster filled in before; that no -n was given is still known."""
    if not spec.defaulted:
        return spec
    names = set(spec.defaulted)
    changes: dict[str, Any] = {name: getattr(_PLAIN, name) for name in _DEFAULTED if name in names}
    if "slots" in names:
        changes |= {"slots": 1, "max_slots": 0}
    if "warning_signal" in names:
        changes |= _NO_SAVING
    if "container" in names:
        changes |= dict.fromkeys(CONTAINER_FIELDS, ()) | {"container": ""}
    changes |= {name: "" for name in (*FOLDERS, "service_class") if name in names}
    limits = {name: value for name, value in spec.limits.items() if f"limits.{name}" not in names}
    defaulted = ("slots",) if "slots" in names else ()
    return msgspec.structs.replace(spec, **changes, limits=limits, defaulted=defaulted)


_NO_SAVING = {"warning_signal": "", "warning_s": None, "warns_main": False, "saves_on_signal": False}


def _saving(spec: JobSpec, queue: Queue) -> dict[str, Any]:
    """CHKPNT_SIGNAL, else JOB_WARNING_ACTION, for a job that names no signal itself; else empty."""
    found = read_save_signal(queue.save_signal)
    if spec.warning_signal or spec.interactive:
        return {}
    if found is None:
        warned = bool(queue.warning_signal) and queue.warning_s is not None
        return {"warning_signal": queue.warning_signal, "warning_s": queue.warning_s} if warned else {}
    return {
        "warning_signal": found.name,
        "warning_s": found.seconds,
        "warns_main": found.main_only,
        "saves_on_signal": True,
    }


_FILLED = ("warning_signal", "container", *FOLDERS, "service_class")
"""Fields that stand for all that CHKPNT_SIGNAL, JOB_WARNING_ACTION, CONTAINER, the site's folders and AUTO_ATTACH fill
in."""
_ADMITTING = ("service_class", "queue", "user_group", "application", "project")
"""What ACCESS_CONTROL of a service class looks at."""


def _check_container(
    spec: JobSpec, filled: dict[str, Any], user: str, config: ClusterConfig, old: JobSpec | None
) -> None:
    """--container and --container-mount, whoever has written them. Raises BadRequest."""
    is_of_site = "container" in filled
    if is_of_site or _is_new((*CONTAINER_FIELDS, "cwd", "specified_cwd"), spec, old):
        whole = msgspec.structs.replace(spec, **filled)
        check_container(whole, config.params, is_of_site=is_of_site or user in config.administrators)


def _defaulted(asked: JobSpec, limits: dict[str, float]) -> tuple[str, ...]:
    fields = [name for name in _DEFAULTED if getattr(asked, name) in (None, "")]
    return (*asked.defaulted, *fields, *(f"limits.{name}" for name in limits if name not in asked.limits))


def queue_names(spec: JobSpec, config: ClusterConfig) -> tuple[str, ...]:
    """The queues that the job may go to, the first that accepts it: those it names, else the default ones.

    Raises BadRequest if it names one that does not exist, whether or not it would come to it.
    """
    named = tuple(spec.queue.split())
    with about("queue"):
        for name in named:
            if name not in config.queues:
                raise BadRequest(f"{name}: No such queue")
    return named or config.params.default_queues


def queue_of(name: str, user: str, config: ClusterConfig, state: ClusterState, old: JobSpec | None = None) -> Queue:
    """The queue of that name. Raises BadRequest or PermissionDenied; a job that is in it already may stay."""
    queue = config.queues.get(name)
    with about("queue"):
        if queue is None:
            raise BadRequest(f"{name}: No such queue")
        if old is not None and old.queue == name:
            return queue
        queue_state = state.queue_states.get(name)
        if queue_state is not None and not queue_state.is_open:
            raise BadRequest(coded("refusal.queue_closed", name))
        if not queue.admits(user) and user not in config.administrators:
            raise PermissionDenied(queue_closed_to_user(queue, config))
    return queue


def complete(
    asked: JobSpec,
    user: str,
    queue: Queue,
    config: ClusterConfig,
    state: ClusterState,
    now: float,
    old: JobSpec | None = None,
) -> JobSpec:
    """The spec with hosts, limits, priority, dependency and the like resolved.

    `old`: what the job was before a modification; names in it that stay as they were are not looked up again, for
    what they mean was settled then.
    """
    params = config.params
    spec = as_asked(asked)
    _check_idle_ok(spec, queue, old)
    _check_service(spec)
    hosts, levels = _hosts(spec, queue, config) if _is_new(("queue", *_HOSTS), spec, old) else _as_before(spec)
    profile = _application(spec, config)
    asked, spec = spec, with_profile(spec, profile)
    limits = _limits(spec, queue)
    filled = _saving(spec, queue) | site_container(spec, queue, profile) | site_folders(spec, profile, params)
    filled |= attached_class(spec, user, queue, config, is_new=_is_new(_ADMITTING, spec, old))
    _check_restarts(spec)
    _check_container(spec, filled, user, config, old)
    run_limit_s = _run_limit(spec, queue)
    return msgspec.structs.replace(
        spec,
        **filled,
        defaulted=(*_defaulted(asked, limits), *(name for name in _FILLED if name in filled)),
        slots=_slots(asked, queue, profile),
        user=user,
        queue=queue.name,
        project=spec.project or params.default_project,
        hosts=hosts,
        host_levels=levels,
        run_limit_s=run_limit_s,
        limits=limits,
        rerunnable=_rerunnable(spec, queue),
        resizable=spec.resizable or queue.resizable or params.resizable,
        requeue_exit_values=spec.requeue_exit_values or queue.requeue_exit_values,
        exclusive=_exclusive(spec, queue),
        priority=_priority(spec, params),
        aging_per_s=_aging(params),
        indices=_indices(spec, params),
        group=_group(spec, user, params, old),
        user_group=_user_group(spec, user, config) if _is_new(("user_group",), spec, old) else spec.user_group,
        reservation=(
            _reservation(spec, user, config, state) if _is_new(("reservation",), spec, old) else spec.reservation
        ),
        terminate_at=_times(spec, now),
        warnings=(
            *(each for each in spec.warnings if not is_no_mail(each) and not has_code(each, *_MADE_ANEW)),
            *dict.fromkeys((*_mail(spec, params, queue), *_notices(spec, params))),
            *([coded(_NO_GPU_IDLE, queue.name)] if spec.gpu_idle_ok and queue.gpu_idle is None else ()),
            *_early_signal(spec, filled, run_limit_s),
        ),
        conditions=(_conditions(spec, user, config, state) if _is_new(("dependency",), spec, old) else spec.conditions),
    )


_UNITS = {
    "CPULIMIT": " s",
    **dict.fromkeys(("MEMLIMIT", "SWAPLIMIT"), " MB"),
    **dict.fromkeys(("FILELIMIT", "DATALIMIT", "STACKLIMIT", "CORELIMIT"), " KB"),
}
"""What limits are counted in, as a refusal says it; the others are numbers."""
WATCHED = frozenset({"MEMLIMIT", "SWAPLIMIT", "CPULIMIT", "PROCESSLIMIT", "THREADLIMIT"})
"""Limits that a job is watched for while it runs; the others its processes were given at their start, by the kernel."""


def complete_started(asked: JobSpec, queue: Queue, old: JobSpec, config: ClusterConfig) -> JobSpec:
    """The spec of a started job in that queue: what it holds stays as it is, and so do limits that are not changed.

    Raises BadRequest for a limit that can no longer be changed, or that the queue does not allow.
    """
    spec = as_asked(asked)
    _check_idle_ok(spec, queue, old)
    _check_service(spec)
    filled = attached_class(spec, old.user, queue, config, is_new=_is_new(_ADMITTING, spec, old))
    defaulted = [name for name in asked.defaulted if name != "service_class"] + list(filled)
    run_limit_s = asked.run_limit_s
    if run_limit_s != old.run_limit_s:
        run_limit_s = _run_limit(asked, queue)
        defaulted += ["run_limit_s"] if asked.run_limit_s is None else []
    resizable = asked.resizable
    if not resizable and old.resizable:  # -arn
        profile = config.applications.get(asked.application)
        resizable = (profile.resizable if profile is not None else "") or queue.resizable or config.params.resizable
        defaulted += ["resizable"]
    limits = {}
    for name in (*old.limits, *(name for name in asked.limits if name not in old.limits)):
        wanted = asked.limits.get(name)
        if wanted == old.limits.get(name):
            limits[name] = old.limits[name]
            continue
        if name not in WATCHED:
            raise BadRequest(f"Job has already started: its processes got their {name} when they began")
        alone = msgspec.structs.replace(asked, limits={} if wanted is None else {name: wanted})
        limits |= {each: value for each, value in _limits(alone, queue).items() if each == name}
        defaulted += [f"limits.{name}"] if wanted is None and name in limits else []
    return msgspec.structs.replace(
        asked,
        queue=queue.name,
        service_class=filled.get("service_class", spec.service_class),
        rerunnable=queue.rerunnable if spec.rerunnable is None else spec.rerunnable,
        requeue_exit_values=spec.requeue_exit_values or queue.requeue_exit_values,
        resizable=resizable,
        run_limit_s=run_limit_s,
        limits=limits,
        defaulted=tuple(dict.fromkeys(defaulted)),
    )


def _check_service(spec: JobSpec) -> None:
    """--service and --service-users, whoever has written them. Raises BadRequest."""
    with about("service"):
        if spec.service and not is_service(spec.service):
            raise BadRequest(
                f"{spec.service}: the port of a service is {AUTO_PORT} or from {LEAST_PORT} to {MOST_PORT}"
            )
    with about("service_users"):
        if spec.service_users and not spec.service:
            raise BadRequest("The job has no service (--service): there is nothing that others could use")
        if len(spec.service_users) > MOST_USERS:
            raise BadRequest(f"Too many users of a service: {MOST_USERS} are the most")


def _check_restarts(spec: JobSpec) -> None:
    """--restart-on and --max-restarts, whoever has written them. Raises BadRequest."""
    with about("restart_on"):
        for cause in spec.restart_on:
            if cause not in RESTART_CAUSES:
                raise BadRequest(f"'{cause[:40]}' is no cause of restarts: {', '.join(RESTART_CAUSES)} are")
        if spec.interactive and (spec.restart_on or spec.max_restarts is not None):
            raise BadRequest("Interactive job cannot be rerunnable")
    with about("max_restarts"):
        if spec.max_restarts is not None and spec.max_restarts < 0:
            raise BadRequest(f"Bad argument: {spec.max_restarts} restarts")
    with about("warning_signal"):
        if spec.warning_signal and f"SIG{spec.warning_signal}" not in signal.Signals.__members__:
            raise BadRequest(f"Bad argument: there is no signal {spec.warning_signal[:40]}")
        if spec.saves_on_signal and not (spec.warning_signal and 1 <= (spec.warning_s or 0) <= MOST_SAVE_S):
            raise BadRequest(
                f"Bad argument: a job is asked to save by a signal 1 to {MOST_SAVE_S} seconds before its end"
            )


def _check_idle_ok(spec: JobSpec, queue: Queue, old: JobSpec | None) -> None:
    """--gpu-idle-ok, and a queue for a job that has it: the queue must let jobs say so. Raises BadRequest."""
    if not spec.gpu_idle_ok or not _is_new(("queue", "gpu_idle_ok"), spec, old):
        return
    with about("gpu_idle_ok"):
        if queue.gpu_idle is not None and not queue.gpu_idle.may_ask:
            raise BadRequest(coded("refusal.gpu_idle_ok", queue.name))


_NO_GPU_IDLE = "warning.no_gpu_idle"
_HOSTS = ("hosts", "host_levels", "other_hosts", "first_hosts")


def _is_new(fields: tuple[str, ...], spec: JobSpec, old: JobSpec | None) -> bool:
    return old is None or any(getattr(spec, name) != getattr(old, name) for name in fields)


def _as_before(spec: JobSpec) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return spec.hosts, spec.host_levels


@about("application")
def _application(spec: JobSpec, config: ClusterConfig) -> Application:
    """The job's application profile; one that says nothing for a job without."""
    name = spec.application or config.params.default_application
    found = config.applications.get(name)
    if name and found is None:
        raise BadRequest(f"{name}: No such application profile")
    return found or Application(name="")


def with_profile(spec: JobSpec, profile: Application) -> JobSpec:
    """The spec with what the profile says where the job says nothing."""
    return msgspec.structs.replace(
        spec,
        application=profile.name,
        run_limit_s=spec.run_limit_s if spec.run_limit_s is not None else profile.run_limit_s,
        estimate_s=spec.estimate_s if spec.estimate_s is not None else profile.estimate_s,
        limits=profile.limits | spec.limits,
        rerunnable=profile.rerunnable if spec.rerunnable is None else spec.rerunnable,
        resizable=spec.resizable or profile.resizable,
        requeue_exit_values=spec.requeue_exit_values or profile.requeue_exit_values,
    )


@about("group")
def _group(spec: JobSpec, user: str, params: Params, old: JobSpec | None) -> str:
    """The job group's path; of a new job that names none the site's. %p and %u in it are project and user, each as one
    part of the path, whatever it is called.
    """
    text = spec.group or (params.default_job_group if old is None else "")
    project = _part_of_path(spec.project or params.default_project)
    return group_path(text.replace("%p", project).replace("%u", _part_of_path(user))) if text else ""


def _part_of_path(name: str) -> str:
    part = name.strip().replace("/", "_").replace("%", "_")
    return "_" if part in (".", "..") else part


def _slots(spec: JobSpec, queue: Queue, profile: Application) -> int:
    """-n; where it was not given the terms of a compound -R, or TASKLIMIT of profile or queue, say how many."""
    limit = profile.task_limit or queue.task_limit
    if limit is None or "slots" not in spec.defaulted or _counts_tasks(spec):
        return spec.slots
    return limit[1]


def _counts_tasks(spec: JobSpec) -> bool:
    with about("res_req"):
        return "*" in spec.res_req and isinstance(parse_any(spec.res_req), Compound)


@about("hosts")
def _hosts(spec: JobSpec, queue: Queue, config: ClusterConfig) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """-m with groups resolved, and each host's preference; where -m says nothing, the queue's preferences."""
    levels: dict[str, int] = {}
    if refused := config.params.too_many_hosts(spec.hosts):
        raise BadRequest(refused)
    passes_over = config.params.host_intersection and queue.hosts is not None
    for number, word in enumerate(spec.hosts):
        level = spec.host_levels[number] if number < len(spec.host_levels) else 0
        for name in config.host_groups.get(word, (word,)):
            if passes_over and name in config.hosts and name not in (queue.hosts or ()):
                continue
            _check_host(name, word, queue, config)
            levels.setdefault(name, level)
    for name in spec.first_hosts:
        _check_host(name, name, queue, config)
        levels.setdefault(name, 0)
    if not levels:
        if spec.hosts and not spec.other_hosts:
            raise BadRequest(f"{spec.hosts[0]}: Host or host group is not used by the queue")
        return (), ()
    has_levels = len(set(levels.values())) > 1 or spec.other_hosts
    return tuple(levels), tuple(levels.values()) if has_levels else ()


def _check_host(name: str, word: str, queue: Queue, config: ClusterConfig) -> None:
    if name not in config.hosts:
        raise BadRequest(f"{word}: Bad host name, host group name or cluster name")
    if not config.hosts[name].server:
        raise BadRequest(f"{name}: Host does not run jobs")
    if queue.hosts is not None and name not in queue.hosts:
        raise BadRequest(f"{word}: Host or host group is not used by the queue")


@about("run_limit_s")
def _run_limit(spec: JobSpec, queue: Queue) -> int | None:
    if spec.run_limit_s is not None and spec.run_limit_s < 1:
        raise BadRequest(f"Bad argument: a run limit of {spec.run_limit_s} seconds")
    wanted = spec.run_limit_s if spec.run_limit_s is not None else queue.default_run_limit_s
    if wanted is not None and queue.run_limit_s is not None and wanted > queue.run_limit_s:
        raise BadRequest(coded("refusal.run_limit", queue.name, wanted // 60, queue.run_limit_s // 60))
    return wanted if wanted is not None else queue.run_limit_s


def _limits(spec: JobSpec, queue: Queue) -> dict[str, float]:
    limits = dict(spec.limits)
    for name, value in limits.items():
        if not value >= 0 or (value == 0 and name != "CORELIMIT"):
            with about(f"limits.{name}"):
                raise BadRequest(f"Bad argument: {name} {value:g}")
    for name, given in queue.limits.items():
        wanted = limits.get(name, given.default)
        if wanted is not None and given.maximum is not None and wanted > given.maximum:
            unit = _UNITS.get(name, "")
            with about(f"limits.{name}"):
                raise BadRequest(coded("refusal.limit", queue.name, name, wanted, unit, given.maximum))
        final = wanted if wanted is not None else given.maximum
        if final is not None:
            limits[name] = final
    return limits


@about("exclusive")
def _exclusive(spec: JobSpec, queue: Queue) -> bool:
    if spec.exclusive and not queue.exclusive:
        raise BadRequest(coded("refusal.exclusive", queue.name))
    return spec.exclusive


@about("interactive")
def _rerunnable(spec: JobSpec, queue: Queue) -> bool:
    """An interactive job is not: the queue's word is for those that may be. Raises BadRequest where the queue does not
    take such a job at all."""
    if spec.interactive and queue.interactive == "NO":
        raise BadRequest(coded("refusal.interactive", queue.name))
    if not spec.interactive and queue.interactive == "ONLY":
        raise BadRequest(coded("refusal.not_interactive", queue.name))
    if spec.interactive:
        return False
    return queue.rerunnable if spec.rerunnable is None else spec.rerunnable


@about("priority")
def _priority(spec: JobSpec, params: Params) -> int | None:
    if params.max_user_priority is None:
        if spec.priority is not None:
            raise BadRequest("Job priority control undefined: the cluster sets no MAX_USER_PRIORITY")
        return None
    if spec.priority is None:
        return params.max_user_priority // 2
    if not 1 <= spec.priority <= params.max_user_priority:
        raise BadRequest(f"Bad user priority: {spec.priority}, 1 to {params.max_user_priority} are allowed")
    return spec.priority


def _aging(params: Params) -> float:
    if params.max_user_priority is None or params.priority_over_time is None:
        return 0.0
    gain, minutes = params.priority_over_time
    return gain / (60.0 * minutes)


@about("indices")
def _indices(spec: JobSpec, params: Params) -> str:
    if not spec.indices:
        if spec.array_limit:
            raise BadRequest("Job array index error: a slot limit without an index list")
        return ""
    if spec.array_limit < 0:
        raise BadRequest(f"Job array index error: a slot limit of {spec.array_limit}")
    return str(parse_indices(spec.indices, params.max_array_size))


@about("user_group")
def _user_group(spec: JobSpec, user: str, config: ClusterConfig) -> str:
    name = spec.user_group or config.params.default_user_group
    if not name:
        return ""
    group = config.user_groups.get(name)
    if group is None:
        raise BadRequest(f"{name}: Bad user group name")
    if user not in group.users and "all" not in group.users:
        raise BadRequest(f"{name}: User not in the specified user group")
    return name


@about("reservation")
def _reservation(spec: JobSpec, user: str, config: ClusterConfig, state: ClusterState) -> str:
    if not spec.reservation:
        return ""
    found = state.reservations.get(spec.reservation)
    if found is None:
        raise BadRequest(f"{spec.reservation}: there is no such advance reservation")
    if user not in set(config.members_of(found.users)):
        may = some(sorted(set(config.members_of(found.users))))
        raise PermissionDenied(f"{spec.reservation}: User cannot use the advance reservation: for {may}")
    return spec.reservation


def _mail(spec: JobSpec, params: Params, queue: Queue) -> Iterator[AnyText]:
    """What is to be said of -B, -N, -Ne and -u where they do not do what they say."""
    if spec.notify_begin or spec.notify_end or spec.notify_error:
        if not params.mail_program and not params.mail_server:
            yield coded("warning.no_mail_program")
    elif spec.mail_user and queue.gpu_idle is None:  # else that may be a reason for mail
        yield coded("warning.no_mail_time")


NO_NOTICES = "warning.no_notices"
_EARLY_SIGNAL = "warning.early_signal"
_MADE_ANEW = (_NO_GPU_IDLE, NO_NOTICES, _EARLY_SIGNAL)
"""Codes of warnings that hold for this queue and these fields; others stay with the job."""


def _early_signal(spec: JobSpec, filled: Mapping[str, Any], run_limit_s: int | None) -> Iterator[AnyText]:
    """What is to be said of a signal that is to come before the run limit, and earlier than the job starts."""
    name, before_s = (filled.get(each, getattr(spec, each)) for each in ("warning_signal", "warning_s"))
    if name and before_s and run_limit_s and before_s >= run_limit_s:
        yield coded(_EARLY_SIGNAL, name, run_limit_s, before_s)


@about("notices")
def _notices(spec: JobSpec, params: Params) -> Iterator[AnyText]:
    """What is to be said of ways in which no notice can be sent. Raises BadRequest."""
    check_wishes(spec.notices)
    for wish in spec.notices:
        if wish.way not in params.notice_ways:
            yield coded(NO_NOTICES, wish.way)
        elif wish.way == MAIL and not params.mail_program and not params.mail_server:
            yield coded("warning.no_mail_program")


@about("terminate_at", "begin_at")
def _times(spec: JobSpec, now: float) -> float | None:
    if spec.terminate_at is not None:
        if spec.begin_at is not None and spec.begin_at >= spec.terminate_at:
            raise BadRequest("Start time is later than termination time")
        if spec.terminate_at <= now:
            raise BadRequest("Bad time specification: the termination time is over")
    return spec.terminate_at


@about("dependency")
def _conditions(spec: JobSpec, user: str, config: ClusterConfig, state: ClusterState) -> str:
    if not spec.dependency:
        return ""
    return resolve(
        spec.dependency,
        user,
        state,
        newest_only=config.params.dependency_last_only,
        indices=_indices(spec, config.params),
        is_admin=user in config.administrators,
    )
