"""Why a job is suspended, in the numbers that LSF gives a job's SUSPEND action. Source: lsbatch.h, SUSP_*; lsf.h, load
indices. Pure.
"""

from __future__ import annotations

from gsched.base.coded_text import AnyText, CodedText
from gsched.model.jobs.job import JobState

USER_STOP, QUEUE_WINDOW, LOAD, PREEMPTED, STOP_COND = 0x2, 0x8, 0x40, 0x80, 0x200
_REASONS = {"suspend.window_closed": QUEUE_WINDOW, "suspend.load": LOAD, "suspend.stop_cond": STOP_COND}
_INDICES = ("r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "tmp", "swp", "mem")


def lsf_reasons(state: str, reason: AnyText) -> tuple[int, int]:
    """(LSB_SUSP_REASONS, LSB_SUSP_SUBREASONS) of a job that is suspended in `state` for `reason`."""
    if state == JobState.USUSP or not isinstance(reason, CodedText):
        return USER_STOP, 0
    found = _REASONS.get(reason.code, PREEMPTED)
    return found, _load_index(reason) if found == LOAD else 0


def _load_index(reason: CodedText) -> int:
    """The number of the index that is beyond its threshold; that of a site's own is behind all of LSF's."""
    index = next((each.code.removeprefix("load.") for each in reason.values if isinstance(each, CodedText)), "")
    return _INDICES.index(index) if index in _INDICES else len(_INDICES)
