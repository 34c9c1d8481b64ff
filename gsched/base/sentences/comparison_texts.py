"""What gadmin why-not says of two jobs: {0} is the one that waits or stands behind, unless said otherwise."""

from __future__ import annotations

COMPARISON_TEXTS: dict[str, str] = {
    "why_not.own": "job {0} does not wait for a place yet: {1}",
    "why_not.other_not_ready": "job {1} stands before nobody: {2}",
    "why_not.started_before": "job {1} had its place before job {0} could have one",
    "why_not.queue": "the queue {1} of job {0} starts nothing now: {2}",
    "why_not.limit": "a limit stops job {0}, and not job {1}: {2}",
    "why_not.limit_too_small": "a limit has too little left for job {0}: {2}",
    "why_not.hosts": "job {0} can never use {2}, where job {1} runs: {3}",
    "why_not.rights": "the agent on {2} starts the jobs of user {3} only",
    "why_not.preemption": "job {1} has taken the place of job {2} by preemption",
    "why_not.reservation": "job {1} runs within the advance reservation {2}, which job {0} does not use",
    "why_not.own_reservation": "job {0} waits for its advance reservation: {2}",
    "why_not.backfill_ends": "job {1} is expected to end before the start that is planned for job {0} (backfill)",
    "why_not.backfill_beside": "job {1} holds nothing of what is kept for the planned start of job {0} (backfill)",
    "why_not.needs_less": "even with all that job {1} holds there, {2} has too little for job {0}: {3}",
    "why_not.place": "job {1} found a place, and job {0} finds none now: {2}",
    # The order in which jobs are served: {0} is served before {1}.
    "why_not.queue_priority": "queue {2} of job {0} has PRIORITY {3}, queue {4} of job {1} has PRIORITY {5}",
    "why_not.fairshare": "fairshare: {2} of job {0} has dynamic priority {3:.6g}, {4} of job {1} has {5:.6g}",
    "why_not.reserved": "something is reserved for job {0}, which with fairshare keeps its place until it starts",
    "why_not.job_priority": "priority (-sp, and JOB_PRIORITY_OVER_TIME) of job {0} is {2:.10g}, of job {1} {3:.10g}",
    "why_not.submission": "job {0} was submitted before job {1}",
    "why_not.moved": "job {0} stands before job {1} because one of them was moved (gtop, gbot, or a requeue)",
    "why_not.element": "elements of an array are served in the order of their indices: {0}, {1}",
    "why_not.turn": "groups or queues of equal priority take turns; in that of job {1} others come before it",
}
