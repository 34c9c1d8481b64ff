"""Traces: every form is read back as it was written, and what is wrong is told with its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.sim.trace import Recipe, TraceJob, random_trace, read_trace, write_trace

RICH = Recipe(jobs=12, most_gpus=2, most_mem_mib=100, unlimited=0.3, spread=0.3, rerunnable=0.5, exclusive=0.2)


@given(st.integers(0, 10**9))
def test_what_is_written_is_read_back(seed: int) -> None:
    jobs = random_trace(seed, RICH)
    assert read_trace(write_trace(jobs)) == jobs
    assert random_trace(seed, RICH) == jobs


def test_json_lines_in_any_order() -> None:
    text = '{"arrives_s": 5, "runs_s": 2, "gpus": 1}\n\n{"arrives_s": 1, "runs_s": 3, "limit_s": 4, "spread": true}\n'
    first, second = read_trace(text)
    assert first == TraceJob(arrives_s=1.0, runs_s=3.0, limit_s=4, spread=True)
    assert second == TraceJob(arrives_s=5.0, runs_s=2.0, gpus=1)


def test_standard_workload_format() -> None:
    text = (
        "; Computer: anything\n"
        "1 0 5 100 4 -1 -1 8 200 2048 1 7 1 1 1 -1 -1 -1\n"
        "2 9 0 -1 4 -1 -1 4 200 -1 0 7 1 1 1 -1 -1 -1\n"
        "3 10 0 30 2 -1 -1 -1 -1 -1 1 3 1 1 1 -1 -1 -1\n"
    )
    first, third = read_trace(text)  # the second never ran
    assert first == TraceJob(arrives_s=0.0, runs_s=100.0, limit_s=200, slots=8, mem_mib=16.0, spread=True, user="user7")
    assert (third.slots, third.limit_s, third.mem_mib, third.user) == (2, None, 0.0, "user3")


def test_nothing_is_an_empty_trace() -> None:
    assert read_trace("") == []
    assert read_trace("arrives_s,runs_s\n") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arrives_s,runs_s,colour\n1,2,red\n", "line 1 of the trace: there is no column colour"),
        ("arrives_s,runs_s,gpus\n1,2\n", "line 2 of the trace has fewer fields than the first line has columns"),
        ("arrives_s,runs_s,arrives_s\n1,2,3\n", "line 1 of the trace: there are two columns arrives_s"),
        ('arrives_s,runs_s\n1,"2\n', "line 2 of the trace is not CSV"),
        (
            "arrives_s,runs_s\n1,1e300\n",
            "line 2 of the trace: runs_s is 1e+300, it must be a number from 0 to 10000000000",
        ),
        ("arrives_s,runs_s,slots\n1,2,99999999999\n", "line 2 of the trace: slots is 99999999999, it must be from 1"),
        ('{"arrives_s": 1, "runs_s": 1, "gpus": null}\n', "line 1 of the trace: gpus cannot be 'None'"),
        ('{"arrives_s": 1, "runs_s": 1, "gpus": 1.9}\n', "line 1 of the trace: gpus cannot be '1.9'"),
        ('{"arrives_s": true, "runs_s": 1}\n', "line 1 of the trace: arrives_s cannot be 'True'"),
        ('{"arrives_s": 1, "runs_s": 1, "limit_s": [1]}\n', "line 1 of the trace: limit_s cannot be '[1]'"),
        ('{"arrives_s": 1, "runs_s": 1, "user": {}}\n', "line 1 of the trace: user cannot be '{}'"),
        ('{"arrives_s": 1, "runs_s": 1' + "0" * 400 + "}\n", "line 1 of the trace: runs_s cannot be '1000"),
        (
            '{"arrives_s": 1, "arrives_s": 2, "runs_s": 1}\n',
            "line 1 of the trace is not JSON: a name stands in it twice",
        ),
        ('{"arrives_s":' * 50_000, "line 1 of the trace is not JSON"),
        ("arrives_s,runs_s\n1,2,red\n", "line 2 of the trace has more fields than the first line has columns"),
        ("arrives_s,runs_s\n1,soon\n", "line 2 of the trace: runs_s cannot be 'soon'"),
        ("arrives_s,runs_s,spread\n1,2,maybe\n", "line 2 of the trace: spread cannot be 'maybe'"),
        ("arrives_s,slots\n1,2\n", "line 2 of the trace has no runs_s"),
        ("arrives_s,runs_s,slots\n1,2,0\n", "line 2 of the trace: slots is 0, it must be from 1 to"),
        ("arrives_s,runs_s\n1,nan\n", "line 2 of the trace: runs_s is nan, it must be a number from 0 to"),
        ("arrives_s,runs_s,limit_s\n1,2,0\n", "line 2 of the trace: limit_s is 0"),
        ("arrives_s,runs_s,tasks_per_host\n1,2,0\n", "line 2 of the trace: tasks_per_host is 0"),
        ('{"arrives_s": 1, "runs_s"}\n', "line 1 of the trace is not JSON"),
        ('{"arrives_s": 1, "runs_s": 1}\n[1]\n', "line 2 of the trace is not a JSON object"),
        ("1 2 3\n", "line 1 of the trace has 3 fields, the Standard Workload Format has 18"),
        ("1 2 3 x\n", "line 1 of the trace is not in the Standard Workload Format"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, said: str) -> None:
    with pytest.raises(BadRequest) as error:
        read_trace(text)
    assert str(error.value).startswith(said)


@given(st.text(max_size=80))
def test_no_text_ends_in_anything_but_a_refusal(text: str) -> None:
    try:
        read_trace(text)
    except BadRequest as error:
        assert "\n" not in str(error)


def test_submission_of_a_trace_job() -> None:
    job = TraceJob(arrives_s=0, runs_s=1, slots=4, gpus=2, mem_mib=100, limit_s=60, rerunnable=True, queue="q")
    spec = job.spec()
    assert spec.res_req == "rusage[ngpus_excl_p=2,mem=100] span[hosts=1]"
    assert (spec.slots, spec.run_limit_s, spec.rerunnable, spec.queue) == (4, 60, True, "q")
    assert TraceJob(arrives_s=0, runs_s=1, slots=4, spread=True).spec().res_req == ""
    gang = TraceJob(arrives_s=0, runs_s=1, slots=4, spread=True, tasks_per_host=2, priority=7).spec()
    assert (gang.res_req, gang.priority) == ("span[ptile=2]", 7)


def test_large_memory_is_asked_for_in_digits() -> None:
    (job,) = read_trace("arrives_s,runs_s,mem_mib\n0,100,1234567\n")
    assert job.spec().res_req == "rusage[mem=1234567]"
