"""Which fields of a job can still be changed when it has started: the master refuses the others, and commands of other
batch systems name them in their own words.
"""

from __future__ import annotations

LIMITING = frozenset({"run_limit_s", "limits"})
"""What the agent of a started job is told of."""
NOTICES = frozenset({"notices", "notice_targets", "service_users"})
"""What the master alone goes by, in whatever state the job is."""
WHILE_RUNNING = (
    LIMITING
    | NOTICES
    | {"rerunnable", "requeue_exit_values", "estimate_s", "queue", "description", "gpu_idle_ok"}
    | {"resizable", "resize_to"}
    | {"plots", "max_restarts", "restart_on", "service_class"}
)
"""What a started job goes by; its agent was told all else at its start. Source: bmod(1), LSB_MOD_ALL_JOBS."""
