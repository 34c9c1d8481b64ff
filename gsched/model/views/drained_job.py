"""What becomes of a job whose host is drained."""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText


class DrainedJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job that has started on a drained host."""

    job_id: int
    host: str
    is_requeued: bool = False
    """It is ended there and runs again."""
    save_by: float | None = None
    """Until when it may save its state first, UTC seconds; None: it is ended at once."""
    why: AnyText = ""
    """Why it is not requeued."""
