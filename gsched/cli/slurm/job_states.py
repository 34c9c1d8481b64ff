"""States and reasons of jobs in Slurm's words.

Source: squeue(1) and sacct(1) of Slurm 22.05, "JOB STATE CODES" and "JOB REASON CODES".
"""

from __future__ import annotations

from gsched.base.coded_text import order_of
from gsched.base.errors import BadRequest
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
    "pending.restart_pause": "BeginTime",
    "pending.waits_for_save": "Resources",
    "pending.waits_for_lent": "Resources",
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
_END_REASONS = {
    "FAILED": "NonZeroExitCode",
    "TIMEOUT": "TimeLimit",
    "OUT_OF_MEMORY": "OutOfMemory",
    "NODE_FAIL": "NodeDown",
    "DEADLINE": "DeadLine",
}
REASON_SHOWN = frozenset({"PENDING", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"})
"""States of which squeue shows the reason instead of the nodes."""
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
        return _END_REASONS.get(state, "None")
    if not job.pending_reasons:
        return "None"
    code = order_of(job.pending_reasons[0].text)[0]
    return _REASONS.get(code) or _KINDS.get(code.partition(".")[0]) or "Resources"


def named_states(text: str) -> set[str] | None:
    """The states of a list such as `PD,running`; None: all. Raises BadRequest for one that Slurm does not have."""
    found: set[str] = set()
    for item in text.upper().replace(",", " ").split():
        if item == "ALL":
            return None
        names = {name for name, code in CODES.items() if item in (name, code)}
        if not names and item not in OTHER_STATES:
            raise BadRequest(f"Invalid job state specified: {item[:40]}")
        found |= names or {item}
    return found
