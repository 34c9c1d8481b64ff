"""Jobs that are read once and copied come out as if each had been read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gsched.base.ids import element_id
from gsched.model.job import JobSpec
from gsched.model.reason import PendingReason
from gsched.model.view import JobView
from gsched.wire.alike import job_views
from gsched.wire.convert import to_proto
from gsched.wire.v1 import model_pb2

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
