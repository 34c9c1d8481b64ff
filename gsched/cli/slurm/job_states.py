"""States and reasons of jobs in Slurm's words.

Source: squeue(1) and sacct(1) of Slurm 22.05, "JOB STATE CODES" and "JOB REASON CODES".
"""

from __future__ import annotations

from gsched.base.coded_text import order_of
from gsched.model.views.view import JobView

CODES = {
    "PENDING": "PD",
    "RUNNING": "R",
    "SUSPENDED": "S",
    "COMPLETING": "CG",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
    "NODE_FAIL": "NF",
    "PREEMPTED": "PR",
    "OUT_OF_MEMORY": "OOM",
    "DEADLINE": "DL",
}
"""State -> its short form."""
OTHER_STATES = frozenset(
    {
        *("BF", "BOOT_FAIL", "CF", "CONFIGURING", "RD", "RESV_DEL_HOLD", "RF", "REQUEUE_FED", "RH", "REQUEUE_HOLD"),
        *("RQ", "REQUEUED", "RS", "RESIZING", "RV", "REVOKED", "SI", "SIGNALING", "SE", "SPECIAL_EXIT"),
        *("SO", "STAGE_OUT", "ST", "STOPPED"),
    }
)
"""States of Slurm that no job here is ever in."""
_WAITING = {"PEND": "PENDING", "PSUSP": "PENDING", "USUSP": "SUSPENDED", "SSUSP": "SUSPENDED", "DONE": "COMPLETED"}
_ENDS = {
    "TERM_RUNLIMIT": "TIMEOUT",
    "TERM_DEADLINE": "DEADLINE",
    "TERM_MEMLIMIT": "OUT_OF_MEMORY",
    "TERM_PREEMPT": "PREEMPTED",
    **dict.fromkeys(("TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER", "TERM_FORCE_ADMIN"), "CANCELLED"),
    **dict.fromkeys(("TERM_REQUEUE_OWNER", "TERM_REQUEUE_ADMIN", "TERM_ORPHAN_SYSTEM"), "CANCELLED"),
}
_REASONS = {
    "pending.suspended": "JobHeldUser",
    "pending.suspended_by_admin": "JobHeldAdmin",
    "pending.start_time": "BeginTime",
    "pending.reserved_for": "Priority",
    "pending.suspended_first": "Priority",
    "pending.no_host": "PartitionNodeLimit",
    "pending.not_in_queue": "PartitionNodeLimit",
    "pending.bad_requirement": "BadConstraints",
    "pending.reservation_inactive": "Reservation",
    "pending.kept_for_reservation": "Reservation",
    "pending.not_reserved": "Reservation",
    "dependency.invalid": "DependencyNeverSatisfied",
    "host.closed_by_admin": "ReqNodeNotAvail",
    "host.unreachable": "ReqNodeNotAvail",
    "host.no_load": "ReqNodeNotAvail",
    "queue.window_closed": "PartitionInactive",
    "queue.inactivated": "PartitionInactive",
    "queue.inactivated_why": "PartitionInactive",
    "queue.gone": "PartitionDown",
    "limit.array_full": "JobArrayTaskLimit",
    "pending.new": "None",
}
_KINDS = {"dependency": "Dependency", "limit": "AssocGrpJobsLimit"}


def state_of(job: JobView) -> str:
    """PENDING, RUNNING, TIMEOUT …"""
    if job.state in _WAITING:
        return _WAITING[job.state]
    if job.state != "EXIT":
        return "RUNNING"
    result = job.result
    if result is None:
        return "CANCELLED"
    if result.host_down:
        return "NODE_FAIL"
    if result.oom_kills and not result.term_reason:
        return "OUT_OF_MEMORY"
    return _ENDS.get(result.term_reason, "FAILED")


def reason_of(job: JobView) -> str:
    """Why it waits, or how it ended; `None` of one that runs."""
    if job.state not in ("PEND", "PSUSP"):
        state = state_of(job)
        ends = {"FAILED": "NonZeroExitCode", "TIMEOUT": "TimeLimit", "OUT_OF_MEMORY": "OutOfMemory"}
        return ends.get(state, "None")
    if not job.pending_reasons:
        return "None"
    code = order_of(job.pending_reasons[0].text)[0]
    return _REASONS.get(code) or _KINDS.get(code.partition(".")[0]) or "Resources"
