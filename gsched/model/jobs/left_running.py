"""What is told of the processes that a job had left running when it was over, and that were ended with it.

Made from the numbers and names in the job's result, where they are shown; nothing is ever read back from it.
"""

from __future__ import annotations

from gsched.model.jobs.job import AttemptResult


def left_running_text(result: AttemptResult, *, most: int) -> str:
    """One sentence that names the first `most` of them; empty where there is none, or something else ended the job."""
    named = result.left_running[:most]
    if not named or result.term_reason:
        return ""
    each = [f"{process.name} (Pid {process.pid}{', SIGKILL' if process.killed else ''})" for process in named]
    more = max(result.left_running_count, len(result.left_running)) - len(named)
    if more:
        each.append(f"{more} more")
    return f"Left running by the job, and ended with it: {', '.join(each)}"
