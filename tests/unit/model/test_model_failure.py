"""Why an attempt failed, from what is known of its end."""

from __future__ import annotations

import signal

import msgspec
import pytest

from gsched.base.coded_text import coded, sentence
from gsched.base.sentences import SENTENCES
from gsched.model.event import JobFinished, decode_event
from gsched.model.gpus.xid import FATAL_XIDS, describe_xid, xids_in
from gsched.model.jobs.failure import FailureClass, failure_advice, failure_of, failure_text, judge
from gsched.model.jobs.job import TERM_TEXTS, AttemptFailure, AttemptResult

OOM = AttemptFailure(kind=FailureClass.CUDA_OOM)


def kind_of(**fields: object) -> str:
    failure = failure_of(AttemptResult(**fields))
    return failure.kind if failure is not None else ""


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"exit_code": 0}, ""),
        ({"exit_code": 0, "failure": OOM}, ""),
        ({"exit_code": 3}, "exit_code"),
        ({"exit_code": 126}, "not_executable"),
        ({"exit_code": 127}, "command_not_found"),
        ({"exit_code": 255}, "exit_code"),
        ({"exit_code": 137}, "signal"),
        ({"exit_code": 139}, "segfault"),
        ({"signal": signal.SIGBUS}, "segfault"),
        ({"signal": signal.SIGKILL}, "signal"),
        ({"exit_code": 1, "failure": OOM}, "cuda_oom"),
        ({"exit_code": 1, "failure": OOM, "host_down": True}, "host_down"),
        ({"signal": 9, "failure": OOM, "term_reason": "TERM_MEMLIMIT"}, "limit"),
        ({"signal": 9, "failure": OOM, "term_reason": "TERM_ADMIN"}, "killed"),
        ({"exit_code": 0, "term_reason": "TERM_OWNER"}, "killed"),
        ({"signal": 15, "term_reason": "TERM_WINDOW"}, "system"),
        ({"signal": 15, "term_reason": "TERM_PREEMPT"}, ""),
        ({"exit_code": 99, "term_reason": "TERM_RESIZE"}, ""),
        ({"signal": 15, "term_reason": "TERM_OF_TOMORROW"}, "system"),
        ({"signal": 15, "term_reason": "TERM_GPU"}, "xid"),
        ({"exit_code": 2, "term_reason": "TERM_CWD_NOTEXIST"}, "not_started"),
        ({"started": False}, "not_started"),
        ({"started": False, "term_reason": "TERM_OWNER"}, "killed"),
        ({}, "unknown"),
    ],
)
def test_what_was_done_to_it_comes_first_and_its_status_last(fields: dict[str, object], kind: str) -> None:
    assert kind_of(**fields) == kind


@pytest.mark.parametrize(
    ("said", "xids", "oom_kills", "kind"),
    [
        (None, (), 0, None),
        (OOM, (), 0, "cuda_oom"),
        (OOM, (79,), 0, "xid"),
        (OOM, (13,), 0, "cuda_oom"),
        (AttemptFailure(kind="python_error", detail="RuntimeError"), (13,), 0, "xid"),
        (None, (31,), 0, "xid"),
        (OOM, (), 2, "host_oom"),
        (None, (94,), 2, "xid"),
    ],
)
def test_the_host_and_its_gpus_are_believed_before_the_output(
    said: AttemptFailure | None, xids: tuple[int, ...], oom_kills: int, kind: str | None
) -> None:
    failure = judge(AttemptResult(exit_code=1, oom_kills=oom_kills), said, xids=xids).failure
    assert (failure.kind if failure is not None else None) == kind


def test_every_class_has_words_and_no_word_is_of_another() -> None:
    for kind in FailureClass:
        assert sentence(failure_text(AttemptFailure(kind=kind))) and f"failure.{kind}" in SENTENCES
        assert "{" not in sentence(failure_text(AttemptFailure(kind=kind, detail="7")))
    without = {kind for kind in FailureClass if failure_advice(AttemptFailure(kind=kind)) is None}
    assert without == {FailureClass.KILLED}
    told = [code.removeprefix("failure.advice.") for code in SENTENCES if code.startswith("failure.advice.")]
    assert {code.partition(".")[0] for code in told} <= set(FailureClass)
    assert {reason for code in told if (reason := code.partition(".")[2])} <= {*TERM_TEXTS, "SIGKILL"}
    assert sentence(failure_text(AttemptFailure(kind="of_tomorrow", detail="x"))) == "of_tomorrow"


def test_an_end_of_before_is_read_and_judged_by_its_status() -> None:
    before = b'{"kind":"job_finished","at":1.0,"job_id":3,"attempt":1,"result":{"exit_code":127,"ended_at":1.0}}'
    event = decode_event(before)
    assert isinstance(event, JobFinished) and event.result.failure is None
    assert failure_of(event.result) == AttemptFailure(kind="command_not_found")


def test_numbers_of_xids_are_found_in_texts() -> None:
    text = coded("gpu.has_failed", 0, "GPU-1", "h", coded("list.comma", describe_xid(79), describe_xid(999)))
    assert xids_in(text) == (79, 999)
    assert xids_in("XID 79") == () and xids_in(coded("gpu.has_failed", 0, "u", "h", "lost")) == ()
    assert set(FATAL_XIDS) >= {79}


def test_a_result_is_stored_with_its_failure() -> None:
    result = AttemptResult(exit_code=1, failure=OOM, oom_kills=1)
    assert msgspec.json.decode(msgspec.json.encode(result), type=AttemptResult) == result
