"""A record of lsb.acct as the event that this cluster's history keeps of it, and a finished job as such a record."""

from __future__ import annotations

import re
from collections import Counter

from gsched.base.errors import BadRequest
from gsched.base.ids import LARGEST_JOB_NUMBER, array_of, element_id, index_of
from gsched.dialect.accounting.job_finish import DONE, EXIT, AcctValue, Record
from gsched.dialect.spec_values import MAX_SLOTS
from gsched.model.event import PastJobRecorded
from gsched.model.jobs.job import AttemptResult, JobSpec, JobState, Usage
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.views.view import JobView

TERM_REASONS = {
    1: "TERM_PREEMPT",
    2: "TERM_WINDOW",
    3: "TERM_LOAD",
    4: "TERM_OTHER",
    5: "TERM_RUNLIMIT",
    6: "TERM_DEADLINE",
    7: "TERM_PROCESSLIMIT",
    8: "TERM_FORCE_OWNER",
    9: "TERM_FORCE_ADMIN",
    10: "TERM_REQUEUE_OWNER",
    11: "TERM_REQUEUE_ADMIN",
    12: "TERM_CPULIMIT",
    13: "TERM_CHKPNT",
    14: "TERM_OWNER",
    15: "TERM_ADMIN",
    16: "TERM_MEMLIMIT",
    17: "TERM_EXTERNAL_SIGNAL",
    19: "TERM_ZOMBIE",
    20: "TERM_SWAP",
    21: "TERM_THREADLIMIT",
    25: "TERM_CWD_NOTEXIST",
    27: "TERM_ORPHAN_SYSTEM",
}
"""exitInfo -> keyword. Source: lsbatch.h, as bacct(1) names them."""
_CODES = {name: code for code, name in TERM_REASONS.items()}
_KIB = 1024
_LAST_TIME = 253_370_764_800
"""UTC seconds, the year 9999: no time zone makes a year with five digits of it, which nothing could show."""
_MOST = {
    **dict.fromkeys(("eventTime", "submitTime", "beginTime", "termTime", "startTime"), _LAST_TIME),
    **dict.fromkeys(("numProcessors", "maxNumProcessors"), MAX_SLOTS),
    **dict.fromkeys(("runLimit", "exitStatus", "idx"), (1 << 31) - 1),
    **dict.fromkeys(("maxRMem", "maxRSwap", "avgMem"), 1 << 50),
    **dict.fromkeys(("ru_utime", "ru_stime"), 10**15),
}
"""Times in UTC seconds, sizes in KiB, the rest in seconds or as counts."""
_MOST_NAMED_SLOTS = 4_096
"""Slots of a job whose hosts are written once for each slot, as LSF does without SHORT_EVENTFILE."""
_ARRAY_NAME = re.compile(r"\s*\[[^\[\]]*\](%[0-9]+)?$")
"""What LSF has behind the name of an array: the indices of all."""
_SHORT_HOSTS = re.compile(r"([0-9]{1,7})\*(.+)")


def past_job(record: Record, cluster: str, now: float) -> PastJobRecorded:
    """What the history keeps of it. `cluster`: whose job it was. Raises BadRequest for what no job can be."""
    _check_bounds(record)
    number, index = _whole(record, "jobId"), _whole(record, "idx")
    # Behind it there has to be a number for the next job.
    if not 0 < number < LARGEST_JOB_NUMBER or index < 0:
        raise BadRequest(f"jobId: {number}[{index}] is no number of a job")
    status = _whole(record, "jStatus")
    if status & (DONE | EXIT) == 0:
        raise BadRequest(f"jStatus: {status} is neither DONE (64) nor EXIT (32)")
    submitted_at, ended_at = float(_whole(record, "submitTime")), float(_whole(record, "eventTime"))
    started_at = float(_whole(record, "startTime")) or None
    if not 0 < submitted_at <= ended_at or not submitted_at <= (started_at or submitted_at) <= ended_at:
        raise BadRequest("submitTime, startTime and the time of the event do not follow each other")
    return PastJobRecorded(
        at=now,
        job_id=element_id(number, index),
        cluster=cluster,
        spec=_spec(record),
        state=(JobState.DONE if status & DONE else JobState.EXIT).value,
        submitted_at=submitted_at,
        dispatched_at=started_at,
        finished_at=ended_at,
        allocation=_allocation(record) if started_at is not None else None,
        effective_req=_text(record, "effectiveResReq"),
        result=_result(record, status, ended_at, started_at),
    )


def _check_bounds(record: Record) -> None:
    """Raises BadRequest for the first number that is more than any job has: readers of the history rely on that."""
    for name, most in _MOST.items():
        if _number(record, name) > most:
            raise BadRequest(f"{name}: {record[name]} is more than {most}")


def _spec(record: Record) -> JobSpec:
    limit = _whole(record, "runLimit")
    return JobSpec(
        command=_text(record, "command"),
        user=_text(record, "userName") or str(_whole(record, "userId")),
        queue=_text(record, "queue"),
        queue_named=True,
        name=_ARRAY_NAME.sub("", _text(record, "jobName")) if _whole(record, "idx") else _text(record, "jobName"),
        project=_text(record, "projectName") or "default",
        slots=max(1, _whole(record, "numProcessors")),
        max_slots=max(0, _whole(record, "maxNumProcessors")),
        res_req=_text(record, "resReq"),
        dependency=_text(record, "dependCond"),
        hosts=tuple(str(host) for (host,) in _groups(record, "askedHosts")),
        begin_at=float(_whole(record, "beginTime")) or None,
        terminate_at=float(_whole(record, "termTime")) or None,
        pre_exec=_text(record, "preExecCmd"),
        post_exec=_text(record, "postExecCmd"),
        submit_host=_text(record, "fromHost"),
        cwd=_text(record, "cwd"),
        input_file=_text(record, "inFile"),
        output_file=_text(record, "outFile"),
        error_file=_text(record, "errFile"),
        login_shell=_text(record, "loginShell"),
        mail_user=_text(record, "mailUser"),
        application=_text(record, "app"),
        group=_text(record, "jobGroupName"),
        description=_text(record, "jobDescription"),
        requeue_exit_values=_text(record, "requeueEvalues"),
        run_limit_s=limit if limit > 0 else None,
    )


def _allocation(record: Record) -> Allocation | None:
    slots: Counter[str] = Counter()
    for (host,) in _groups(record, "execHosts"):
        short = _SHORT_HOSTS.fullmatch(str(host))  # SHORT_EVENTFILE
        if short and not int(short[1]):
            raise BadRequest(f"execHosts: '{short[0][:40]}' is no slot")
        slots[short[2] if short else str(host)] += int(short[1]) if short else 1
    if slots.total() > MAX_SLOTS:
        raise BadRequest(f"execHosts: {slots.total()} slots are more than {MAX_SLOTS}")
    return Allocation(hosts=tuple(HostAllocation(host=host, slots=n) for host, n in slots.items())) if slots else None


def _result(record: Record, status: int, ended_at: float, started_at: float | None) -> AttemptResult:
    waited = _whole(record, "exitStatus")
    reason = _whole(record, "exitInfo")
    used = sum(max(0.0, _number(record, name)) for name in ("ru_utime", "ru_stime"))
    usage = Usage(
        cpu_s=used,
        max_mem_mib=_mib(record, "maxRMem"),
        max_swap_mib=_mib(record, "maxRSwap"),
        avg_mem_mib=_mib(record, "avgMem"),
    )
    exit_code, signal = None, None
    if status & DONE:
        exit_code = 0
    elif started_at is not None:
        # As wait(2) tells it.
        exit_code, signal = ((waited >> 8) & 0xFF, None) if not waited & 0x7F else (None, waited & 0x7F)
    return AttemptResult(
        exit_code=exit_code,
        signal=signal,
        ended_at=ended_at,
        run_s=ended_at - started_at if started_at is not None else 0.0,
        usage=usage,
        term_reason=TERM_REASONS.get(reason, "") if not status & DONE else "",
        started=started_at is not None,
    )


def _mib(record: Record, name: str) -> float | None:
    found = _whole(record, name)
    return found / _KIB if found > 0 else None


def _text(record: Record, name: str) -> str:
    return str(record[name])


def _whole(record: Record, name: str) -> int:
    found = record[name]
    assert isinstance(found, int)
    return found


def _number(record: Record, name: str) -> float:
    found = record[name]
    assert isinstance(found, int | float)
    return float(found)


def _groups(record: Record, name: str) -> list[tuple[object, ...]]:
    found = record[name]
    assert isinstance(found, list)
    return [tuple(each) for each in found]


def record_of(job: JobView, user_id: int) -> Record:
    """A finished job as a record of lsb.acct. `user_id` of its user; -1 where there is no such account."""
    spec, result, usage = job.spec, job.result, job.result.usage if job.result is not None else Usage()
    hosts = _hosts_by_slot(job.allocation)
    ended_at, is_done = job.finished_at or job.submitted_at, job.state == JobState.DONE
    started_at = job.dispatched_at
    record: Record = {
        "eventTime": int(ended_at),
        "jobId": array_of(job.job_id),
        "idx": index_of(job.job_id),
        "userId": user_id,
        "numProcessors": spec.slots,
        "maxNumProcessors": spec.max_slots or spec.slots,
        "submitTime": int(job.submitted_at),
        "beginTime": int(spec.begin_at or 0),
        "termTime": int(spec.terminate_at or 0),
        "startTime": int(started_at or 0),
        "userName": spec.user,
        "queue": spec.queue,
        "resReq": spec.res_req,
        "dependCond": spec.dependency,
        "preExecCmd": spec.pre_exec,
        "postExecCmd": spec.post_exec,
        "fromHost": spec.submit_host,
        "cwd": spec.cwd,
        "inFile": spec.input_file,
        "outFile": spec.output_file,
        "errFile": spec.error_file,
        "askedHosts": [(host,) for host in spec.hosts],
        "execHosts": list(hosts),
        "allocSlots": list(hosts),
        "jStatus": DONE if is_done else EXIT,
        "jobName": spec.name,
        "command": spec.command,
        "ru_utime": usage.cpu_s,
        "ru_stime": 0.0,
        "mailUser": spec.mail_user,
        "projectName": spec.project,
        "exitStatus": _wait_status(result),
        "loginShell": spec.login_shell,
        "maxRMem": round((usage.max_mem_mib or 0.0) * _KIB),
        "maxRSwap": round((usage.max_swap_mib or 0.0) * _KIB),
        "avgMem": round((usage.avg_mem_mib or 0.0) * _KIB),
        "exitInfo": _CODES.get(result.term_reason, 0) if result is not None else 0,
        "app": spec.application,
        "jobGroupName": spec.group,
        "requeueEvalues": spec.requeue_exit_values,
        "jobDescription": spec.description,
        "runLimit": spec.run_limit_s or 0,
        "runTime": int(ended_at) - int(started_at) if started_at is not None else 0,
        "effectiveResReq": job.effective_req,
    }
    return record


def _hosts_by_slot(allocation: Allocation | None) -> list[tuple[AcctValue, ...]]:
    parts = allocation.hosts if allocation is not None else ()
    if sum(part.slots for part in parts) > _MOST_NAMED_SLOTS:
        return [(f"{part.slots}*{part.host}",) for part in parts]
    return [(part.host,) for part in parts for _ in range(part.slots)]


def _wait_status(result: AttemptResult | None) -> int:
    if result is None:
        return 0
    return result.signal if result.signal is not None else (result.exit_code or 0) << 8
