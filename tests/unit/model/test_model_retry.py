"""RETRY as text: what it says, and what is wrong with it."""

from __future__ import annotations

import pytest

from gsched.model.jobs.failure import FailureClass
from gsched.model.jobs.retry import NEVER, RetryRule, fault_in, retry_rules


def test_rules_are_read() -> None:
    assert retry_rules("gpu_busy:2 xid:3@other_host") == {"gpu_busy": RetryRule(2), "xid": RetryRule(3, elsewhere=True)}
    assert retry_rules("") == {}
    every = " ".join(f"{kind}:1" for kind in FailureClass if kind not in NEVER)
    assert fault_in(every) is None and len(retry_rules(every)) == len(FailureClass) - len(NEVER)


@pytest.mark.parametrize(
    ("text", "quoted", "complaint"),
    [
        ("", "", "names no class"),
        ("gpu_busy", "gpu_busy", "CLASS:TIMES is wanted"),
        ("gpu_busy:0", "gpu_busy:0", "a number from 1 to 1000"),
        ("gpu_busy:1001", "gpu_busy:1001", "a number from 1 to 1000"),
        ("gpu_busy:-1", "gpu_busy:-1", "CLASS:TIMES is wanted"),
        ("gpu_busy:٣", "gpu_busy:٣", "CLASS:TIMES is wanted"),
        ("gpu_busy:2:3", "gpu_busy:2:3", "CLASS:TIMES is wanted"),
        ("xid:1 gpu_buzy:2", "gpu_buzy:2", "there is no class 'gpu_buzy'; there are not_started host_down xid"),
        ("killed:1", "killed:1", "was ended on purpose"),
        ("limit:1", "limit:1", "was ended on purpose"),
        ("xid:1@other_gpu", "xid:1@other_gpu", "behind @ only other_host may stand"),
        ("xid:1@", "xid:1@", "behind @ only other_host may stand"),
        ("xid:1 xid:2", "xid:2", "xid is named twice"),
        (":1", ":1", "there is no class ''"),
    ],
)
def test_what_is_wrong_is_named(text: str, quoted: str, complaint: str) -> None:
    fault = fault_in(text)
    assert fault is not None and fault.quoted == quoted and complaint in fault.complaint
