"""lsb.queues: one section per queue, with all its policies. Source: lsb.queues(5).

Parameters of one line and one field are rows of queue_parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gsched.base.errors import BadRequest
from gsched.config.files.queue_hosts import QueueHosts, queue_hosts
from gsched.config.files.queue_parameters import Known, read_parameters
from gsched.config.grammar.findings import Findings, SourcePlace, show
from gsched.config.grammar.sections import ConfigSection, KeyValue, read_entries
from gsched.config.grammar.tables import THRESHOLDS
from gsched.config.grammar.unsupported import AS_HERE_QUEUE, REFUSED_QUEUE, WITHOUT_EFFECT_QUEUE
from gsched.config.grammar.values import (
    KeyValues,
    queue_name,
    yes_or_no,
)
from gsched.config.parameters.job_limits import default_and_maximum, job_limits, job_sizes, tasks, time_s
from gsched.config.parameters.preemption import check_preemption, read_sparing
from gsched.config.parameters.requirements import RequirementJudge
from gsched.config.parameters.retries import preexec_retries
from gsched.config.parameters.shares import FACTORS, SHARE_QUEUES, read_factors, with_shared_trees
from gsched.config.parameters.thresholds import load_names, threshold
from gsched.model.hosts.resource import Resource
from gsched.model.queues.queue import Queue, Threshold

_EXCLUSIVE_UNITS = re.compile(r"CU(?:\s*\[\s*([^\[\]\s]*)\s*\])?", re.IGNORECASE)
_RESERVE = re.compile(r"MAX_RESERVE_TIME\s*\[\s*([0-9]{1,6})\s*\]", re.IGNORECASE)


def read_queues(sections: Sequence[ConfigSection], known: Known, findings: Findings) -> dict[str, Queue]:
    """All queues by name in file order. Every problem goes to `findings`; that there is no queue is the caller's."""
    queues: dict[str, Queue] = {}
    places: dict[str, dict[str, SourcePlace]] = {name: {} for name in ("PREEMPTION", "FAIRSHARE", SHARE_QUEUES)}
    """Parameter that concerns other queues -> queue -> where it is set."""
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
        for name, of_queues in places.items():
            if (at := settings.place(name)) is not None:
                of_queues[queue.name] = at
    check_preemption(queues, places["PREEMPTION"], findings)
    return with_shared_trees(queues, places[SHARE_QUEUES], places["FAIRSHARE"], findings)


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
    sizes = settings.take("JOB_SIZE_LIST", job_sizes, ())
    queue = Queue(
        name=name,
        hosts=hosts.hosts,
        host_levels=dict(hosts.levels),
        users=users,
        excluded_users=excluded,
        task_limit=tasks(settings, sizes, findings),
        job_sizes=sizes,
        run_limit_s=run_limit,
        default_run_limit_s=default_run_limit,
        limits=job_limits(settings, known.judge.unit),
        exclusive=exclusive,
        exclusive_units=exclusive_units,
        thresholds=thresholds,
        factors=read_factors(settings),
        reserve_s=_reserve(settings, known.sleep_s, findings),
        max_preexec_retry=preexec_retries(settings),
        sparing=read_sparing(settings),
        source=str(section.at),
        **read_parameters(settings, known),
    )
    settings.finish(REFUSED_QUEUE, WITHOUT_EFFECT_QUEUE, load_names(known.resources), AS_HERE_QUEUE)
    _check_estimate(settings, queue, findings)
    _note(settings, queue, findings)
    return queue


def _check_estimate(settings: KeyValues, queue: Queue, findings: Findings) -> None:
    """DEFAULT_RUNLIMIT is for jobs that RUNLIMIT gives no limit: there are none where it is set."""
    at = settings.place("DEFAULT_RUNLIMIT")
    if at is None or queue.estimate_s is None or queue.run_limit_s is None:
        return
    if queue.estimate_s > queue.run_limit_s:
        text = f"DEFAULT_RUNLIMIT: {queue.estimate_s // 60} min exceed the {queue.run_limit_s // 60} min of RUNLIMIT"
        findings.error(at, text)
    else:
        findings.note(at, "DEFAULT_RUNLIMIT has no effect: RUNLIMIT gives every job of the queue a limit")


def _note(settings: KeyValues, queue: Queue, findings: Findings) -> None:
    """What is allowed but seldom meant."""
    at = settings.place("HOSTS")
    if at is not None and queue.hosts == ():
        findings.note(at, "HOSTS: none: no job of this queue will ever start")
    for name in ("RESOURCE_RESERVE", "SLOT_RESERVE") if not queue.reserved_jobs else ():
        at = settings.place(name)
        if at is not None:
            findings.note(at, f"{name} has no effect: RESERVATION is none")
    for name, other in (("JOB_WARNING_ACTION", queue.warning_s), ("JOB_ACTION_WARNING_TIME", queue.warning_signal)):
        at = settings.place(name)
        if at is not None and not other:
            findings.note(at, f"{name} has no effect: JOB_WARNING_ACTION and JOB_ACTION_WARNING_TIME belong together")
    at = settings.place("MAX_PLAN_DELAY")
    if at is not None and not queue.reserved_jobs:
        findings.note(at, "MAX_PLAN_DELAY has no effect: RESERVATION is none")
    at = settings.place("DISPATCH_ORDER")
    if at is not None and not queue.share_queues:
        findings.note(at, f"DISPATCH_ORDER has no effect: the queue has no {SHARE_QUEUES}")
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
