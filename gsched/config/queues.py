"""lsb.queues: one section per queue, with all its policies. Source: lsb.queues(5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.config.exits import exit_values
from gsched.config.findings import Findings, SourcePlace, show
from gsched.config.hostgroups import HostNames
from gsched.config.joblimits import default_and_maximum, job_limits, tasks, time_s
from gsched.config.preemption import check_preemption, preemption
from gsched.config.queuehosts import QueueHosts, queue_hosts
from gsched.config.requirements import RequirementJudge, gpu_requirement
from gsched.config.sections import ConfigSection, KeyValue, read_entries
from gsched.config.shares import FACTORS, fairshare, read_factors
from gsched.config.tables import THRESHOLDS
from gsched.config.thresholds import load_names, threshold
from gsched.config.unsupported import REFUSED_QUEUE
from gsched.config.users import UserNames
from gsched.config.values import (
    KeyValues,
    command_line,
    integer,
    interactive_jobs,
    nice,
    plain_text,
    queue_name,
    real,
    seconds,
    yes_or_no,
)
from gsched.config.windows import parse_windows
from gsched.model.queue import Preemption, Queue, Threshold
from gsched.model.resource import Resource

_LIMIT = integer(0, 2**31 - 2)
_EXCLUSIVE_UNITS = re.compile(r"CU(?:\s*\[\s*([^\[\]\s]*)\s*\])?", re.IGNORECASE)
_RESERVE = re.compile(r"MAX_RESERVE_TIME\s*\[\s*([0-9]{1,6})\s*\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Known:
    """What queues refer to. `sleep_s` is MBD_SLEEP_TIME, the unit of reservations and of JOB_ACCEPT_INTERVAL."""

    hosts: HostNames
    users: UserNames
    resources: Mapping[str, Resource]
    judge: RequirementJudge
    sleep_s: float


def read_queues(sections: Sequence[ConfigSection], known: Known, findings: Findings) -> dict[str, Queue]:
    """All queues by name in file order. Every problem goes to `findings`; that there is no queue is the caller's."""
    queues: dict[str, Queue] = {}
    preempting: dict[str, SourcePlace] = {}
    for section in sections:
        if findings.is_full(section.at.path):
            break
        if section.name.casefold() != "queue":
            findings.error(section.at, f"unknown section {section.name} in lsb.queues; it holds Queue")
            continue
        entries = read_entries(section, findings)
        thresholds, rest = _apart(entries, known.resources)
        settings = KeyValues(rest, findings, where="section Queue")
        queue = _read_queue(section, settings, _thresholds(thresholds, known, findings), known, findings)
        if not queue.name:
            continue
        if queue.name in queues:
            findings.error(section.at, f"queue {queue.name} is defined twice (first at {queues[queue.name].source})")
            continue
        queues[queue.name] = queue
        at = settings.place("PREEMPTION")
        if at is not None:
            preempting[queue.name] = at
    check_preemption(queues, preempting, findings)
    return queues


def _read_queue(
    section: ConfigSection, settings: KeyValues, thresholds: dict[str, Threshold], known: Known, findings: Findings
) -> Queue:
    """The queue; its name is empty when it has none that can be used (which is reported)."""
    name = settings.take("QUEUE_NAME", queue_name, "")
    if not name and settings.place("QUEUE_NAME") is None:
        findings.error(section.at, "the queue has no QUEUE_NAME")
    default_run_limit, run_limit = settings.take("RUNLIMIT", default_and_maximum(time_s), (None, None))
    hosts = settings.take("HOSTS", lambda text: queue_hosts(text, known.hosts), QueueHosts())
    users, excluded = settings.take("USERS", known.users.choose, (None, ()))
    exclusive, exclusive_units = settings.take("EXCLUSIVE", lambda text: _exclusive(text, known.judge), (False, ""))
    queue = Queue(
        name=name,
        priority=settings.take("PRIORITY", integer(1, 2**31 - 2), 1),
        description=settings.take("DESCRIPTION", plain_text, ""),
        nice=settings.take("NICE", nice, 0),
        hosts=hosts.hosts,
        host_levels=dict(hosts.levels),
        users=users,
        excluded_users=excluded,
        administrators=settings.take("ADMINISTRATORS", known.users.listed, ()),
        job_limit=settings.take("QJOB_LIMIT", _LIMIT, None),
        user_limit=settings.take("UJOB_LIMIT", _LIMIT, None),
        host_limit=settings.take("HJOB_LIMIT", _LIMIT, None),
        processor_limit=settings.take("PJOB_LIMIT", real(0, 1e6), None),
        task_limit=tasks(settings, findings),
        run_limit_s=run_limit,
        default_run_limit_s=default_run_limit,
        limits=job_limits(settings, known.judge.unit),
        res_req=settings.take("RES_REQ", known.judge.requirement, ""),
        gpu_req=settings.take("GPU_REQ", gpu_requirement(known.judge.unit), ""),
        pre_exec=settings.take("PRE_EXEC", command_line, ""),
        post_exec=settings.take("POST_EXEC", command_line, ""),
        job_starter=settings.take("JOB_STARTER", command_line, ""),
        exclusive=exclusive,
        exclusive_units=exclusive_units,
        interactive=settings.take("INTERACTIVE", interactive_jobs, "YES"),
        rerunnable=settings.take("RERUNNABLE", yes_or_no, False),
        requeue_exit_values=settings.take("REQUEUE_EXIT_VALUES", exit_values, ""),
        max_requeue=settings.take("MAX_JOB_REQUEUE", _LIMIT, None),
        run_window=settings.take("RUN_WINDOW", parse_windows, ()),
        dispatch_window=settings.take("DISPATCH_WINDOW", parse_windows, ()),
        thresholds=thresholds,
        stop_cond=settings.take("STOP_COND", known.judge.condition, ""),
        resume_cond=settings.take("RESUME_COND", known.judge.condition, ""),
        fairshare=settings.take("FAIRSHARE", lambda text: fairshare(text, known.users.groups), None),
        factors=read_factors(settings),
        preemption=settings.take("PREEMPTION", preemption, Preemption()),
        backfill=settings.take("BACKFILL", yes_or_no, False),
        reserve_s=_reserve(settings, known.sleep_s, findings),
        new_job_delay_s=settings.take("NEW_JOB_SCHED_DELAY", seconds(0), 0.0),
        accept_interval_s=settings.take("JOB_ACCEPT_INTERVAL", lambda text: real(0, 1e6)(text) * known.sleep_s, None),
        source=str(section.at),
    )
    settings.finish(REFUSED_QUEUE, {}, load_names(known.resources))
    _note(settings, queue, findings)
    return queue


def _note(settings: KeyValues, queue: Queue, findings: Findings) -> None:
    """What is allowed but seldom meant."""
    at = settings.place("HOSTS")
    if at is not None and queue.hosts == ():
        findings.note(at, "HOSTS: none: no job of this queue will ever start")
    for name in FACTORS if settings.place("FAIRSHARE") is None else ():
        at = settings.place(name)
        if at is not None:
            findings.note(at, f"{name} has no effect: the queue has no FAIRSHARE")


def _apart(entries: Sequence[KeyValue], resources: Mapping[str, Resource]) -> tuple[list[KeyValue], list[KeyValue]]:
    """(lines that set thresholds, the others). Names of resources are told apart by case, LSF's parameters are not."""
    known = load_names(resources)
    loads: list[KeyValue] = []
    rest: list[KeyValue] = []
    for entry in entries:
        if entry.key.casefold() in THRESHOLDS:
            loads.append(KeyValue(entry.key.casefold(), entry.value, entry.at))
        else:
            (loads if entry.key in known else rest).append(entry)
    return loads, rest


def _thresholds(entries: Sequence[KeyValue], known: Known, findings: Findings) -> dict[str, Threshold]:
    settings = KeyValues(entries, findings, where="section Queue", fold_case=False)
    names = dict.fromkeys(entry.key for entry in entries)
    unit = known.judge.unit
    return {name: settings.take(name, threshold(name, known.resources, unit), Threshold()) for name in names}


def _reserve(settings: KeyValues, sleep_s: float, findings: Findings) -> float | None:
    """Seconds. RESOURCE_RESERVE counts where both are given, as in LSF."""
    times = {name: settings.take(name, _reserve_times, None) for name in ("RESOURCE_RESERVE", "SLOT_RESERVE")}
    at = settings.place("SLOT_RESERVE")
    if at is not None and settings.place("RESOURCE_RESERVE") is not None:
        findings.note(at, "SLOT_RESERVE has no effect: RESOURCE_RESERVE is set")
    found = times["RESOURCE_RESERVE"] if times["RESOURCE_RESERVE"] is not None else times["SLOT_RESERVE"]
    return None if found is None else found * sleep_s


def _reserve_times(text: str) -> int:
    found = _RESERVE.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise BadRequest(f"'{show(text)}' is not of the form MAX_RESERVE_TIME[NUMBER]")
    return int(found[1])


def _exclusive(text: str, judge: RequirementJudge) -> tuple[bool, str]:
    """Whether -x may be used, and the type of compute units that cu[excl] may be used with."""
    found = _EXCLUSIVE_UNITS.fullmatch(text)
    if found is None:
        return yes_or_no(text), ""
    return True, judge.unit_type(found[1] or "")
