"""What is read or written once and copied comes out as if each had been read, or written."""

from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.ids import element_id
from gsched.model.hosts.host import ComputeMode, Gpu, GpuProcess, GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.reason import PendingReason
from gsched.model.views.view import JobView, Submission, Submitted
from gsched.wire.messages import batch_codec
from gsched.wire.messages.batch_codec import (
    READINGS,
    GpuReports,
    add_submissions,
    add_submitted,
    job_views,
    read_submissions,
    read_submitted,
)
from gsched.wire.messages.convert import from_proto, to_proto
from gsched.wire.v1 import model_pb2, scheduler_pb2

SPECS = [
    JobSpec(command="run", user="ann", queue="normal", limits={"MEMLIMIT": 1.0, "CPULIMIT": 2.0}),
    JobSpec(command="run", user="ann", queue="normal", limits={"CPULIMIT": 2.0, "MEMLIMIT": 1.5}),
]


def view(number: int, kind: int) -> JobView:
    reasons = (PendingReason("Not enough job slot(s)", 2, f"{kind} wanted"),)
    return JobView(job_id=number, spec=SPECS[kind % 2], state="PEND", submitted_at=1.0, pending_reasons=reasons)


@given(st.lists(st.tuples(st.integers(1, 2**62), st.integers(0, 3)), max_size=40))
def test_every_job_comes_out_as_it_went_in(jobs: list[tuple[int, int]]) -> None:
    views = [view(number, kind) for number, kind in jobs]
    assert list(job_views([to_proto(each, model_pb2.JobView) for each in views])) == views


def test_elements_of_an_array_share_what_is_equal() -> None:
    views = [view(element_id(12, index), 0) for index in range(1, 200)]
    found = list(job_views([to_proto(each, model_pb2.JobView) for each in views]))
    assert found == views
    assert len({id(each.spec) for each in found}) == 1


def test_reasons_that_jobs_share_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_codec, "REASONS_KEPT", 2)
    shared = [view(0, kind).pending_reasons for kind in range(4)] + [()]
    views = [msgspec.structs.replace(view(n, n % 2), pending_reasons=shared[n * 7 % 5]) for n in range(1, 40)]
    filling = batch_codec.SharedReasons()
    messages = [model_pb2.JobView() for _ in views]
    for message, each in zip(messages, views, strict=True):
        filling.fill(message, each)
    assert messages == [to_proto(each, model_pb2.JobView) for each in views]


def submission(kind: int, environment: int, script: int) -> Submission:
    """Equal numbers make equal submissions that share nothing but by chance."""
    limits = {"MEMLIMIT": float(kind), "CPULIMIT": 2.0}
    spec = JobSpec(command=f"run {kind}", user="", queue="", limits=limits if kind % 2 else {})
    text = b"PATH=/bin\0A=%d\0" % environment
    return Submission(spec=spec, environment=text if environment else b"", script=b"#!" * script)


KINDS = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1))


@given(st.lists(KINDS, max_size=30))
def test_every_submission_comes_in_as_it_was_sent(kinds: list[tuple[int, int, int]]) -> None:
    sent = [submission(*kind) for kind in kinds]
    request = scheduler_pb2.SubmitRequest()
    add_submissions(request, sent)
    again = [now for now, before in zip(kinds[1:], kinds, strict=False) if now[1] and now[1] == before[1]]
    assert len(request.same_environment) == len(again)
    request.ParseFromString(request.SerializeToString())
    found = list(read_submissions(request))
    assert [each for each, _ in found] == sent
    for each, size in found:
        assert size >= len(each.environment) + len(each.script)


def test_equal_jobs_of_a_submission_are_read_once() -> None:
    request = scheduler_pb2.SubmitRequest()
    add_submissions(request, [submission(number % 3, 1, 0) for number in range(60)])
    found = [each for each, _ in read_submissions(request)]
    assert len({id(each) for each in found}) == 3
    assert [each.spec.command for each in found[:4]] == ["run 0", "run 1", "run 2", "run 0"]


@given(st.lists(st.tuples(st.integers(1, 2**40), st.sampled_from(["a", "b"]), st.booleans(), st.integers(0, 2))))
def test_every_answer_comes_out_as_it_was_given(answers: list[tuple[int, str, bool, int]]) -> None:
    given_ = [
        Submitted(job_id=number, queue=queue, default_queue=default, warnings=("a warning", "another")[:warnings])
        for number, queue, default, warnings in answers
    ]
    reply = scheduler_pb2.SubmitReply()
    add_submitted(reply, given_)
    assert list(reply.jobs) == [to_proto(each, model_pb2.Submitted) for each in given_]
    assert read_submitted(reply) == given_


NUMBERS = st.none() | st.integers(0, 3)
GPUS = st.builds(
    Gpu,
    uuid=st.sampled_from(["GPU-1", "GPU-2"]),
    index=st.integers(0, 1),
    mode=st.none() | st.sampled_from(ComputeMode),
    problem=st.sampled_from(["", "lost"]),
    memory_mib=NUMBERS,
    process_count=NUMBERS,
    processes=st.lists(st.builds(GpuProcess, pid=st.integers(1, 2), used_mib=NUMBERS), max_size=2).map(tuple),
    **dict.fromkeys(READINGS, NUMBERS),
)
REPORTS = st.builds(
    GpuReport, known=st.booleans(), driver=st.sampled_from(["", "570"]), gpus=st.lists(GPUS, max_size=3).map(tuple)
)


@given(st.lists(REPORTS, max_size=6))
def test_every_report_of_gpus_comes_out_as_it_was_sent(reports: list[GpuReport]) -> None:
    reading = GpuReports()
    for report in reports:
        assert reading.read(to_proto(report, model_pb2.GpuReport)) == report


def test_a_gpu_of_which_readings_alone_have_moved_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def counted(message: Any, kind: Any) -> Any:
        read.append(kind)
        return from_proto(message, kind)

    monkeypatch.setattr(batch_codec, "from_proto", counted)
    reading = GpuReports()
    for number in range(5):
        gpus = tuple(Gpu(uuid=f"GPU-{index}", index=index, model="H100", power_w=number * index) for index in range(8))
        report = GpuReport(known=True, gpus=gpus)
        assert reading.read(to_proto(report, model_pb2.GpuReport)) == report
    assert read.count(Gpu) == 8


def test_readings_are_numbers_that_may_be_unknown() -> None:
    hints = typing.get_type_hints(Gpu)
    assert {hints[name] for name in READINGS} == {int | None}
