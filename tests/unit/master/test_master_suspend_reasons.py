"""Why a job is suspended, in LSF's numbers."""

from __future__ import annotations

import pytest

from gsched.base.coded_text import AnyText, coded
from gsched.master.agents.suspend_reasons import lsf_reasons


def beyond(index: str) -> AnyText:
    return coded("suspend.load", coded(index), coded("load.threshold", "2", "1"))


@pytest.mark.parametrize(
    ("state", "reason", "numbers"),
    [
        ("USUSP", "", (0x2, 0)),
        ("SSUSP", coded("suspend.window_closed"), (0x8, 0)),
        ("SSUSP", beyond("load.r15s"), (0x40, 0)),
        ("SSUSP", beyond("load.mem"), (0x40, 10)),
        ("SSUSP", coded("suspend.load", coded("load.external", "scratch"), ""), (0x40, 11)),
        ("SSUSP", coded("suspend.stop_cond"), (0x200, 0)),
        ("SSUSP", coded("suspend.preempted", "7"), (0x80, 0)),
    ],
)
def test_each_reason_has_its_number(state: str, reason: AnyText, numbers: tuple[int, int]) -> None:
    assert lsf_reasons(state, reason) == numbers
