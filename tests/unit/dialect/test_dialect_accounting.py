"""lsb.acct: records read from lines of several versions, and written so that they can be read again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsb_acct_lines import GPUS, later, line

from gsched.base.errors import BadRequest
from gsched.base.ids import LARGEST_JOB_NUMBER
from gsched.dialect.accounting.job_finish import read_record, write_record
from gsched.dialect.accounting.past_job import past_job, record_of
from gsched.model.event import PastJobRecorded
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.views.view import JobView
from tests.support.property_examples import examples


def job(text: str) -> PastJobRecorded:
    record = read_record(text)
    assert record is not None
    return past_job(record, "hpc", 1.8e9)


@pytest.mark.parametrize("tail", ["", later(), later() + GPUS])
def test_a_job_of_each_version(tail: str) -> None:
    found = job(line(4711, command='echo "a b"') + tail)
    assert (found.job_id, found.cluster, found.state) == (4711, "hpc", "DONE")
    assert (found.submitted_at, found.dispatched_at, found.finished_at) == (1.7e9, 1.7e9 + 300, 1.7e9 + 900)
    spec = found.spec
    assert (spec.user, spec.queue, spec.project, spec.name) == ("ann", "batch", "vision", "night run")
    assert (spec.command, spec.slots, spec.output_file) == ('echo "a b"', 2, "log/%J")
    assert found.allocation == Allocation(hosts=(HostAllocation(host="hosta", slots=2),))
    result = found.result
    assert result is not None and result.exit_code == 0 and result.run_s == 600
    assert (result.usage.cpu_s, result.usage.max_mem_mib, result.usage.max_swap_mib) == (13.25, 200, 400)
    if tail:
        assert (spec.group, spec.description, spec.run_limit_s) == ("/night", "for the paper", 3600)
        assert found.effective_req == "select[type == any] rusage[mem=100.00]"


def test_how_jobs_ended() -> None:
    result = job(line(1, status=32, exit=3 << 8)).result
    assert result is not None and (result.exit_code, result.signal) == (3, None)
    result = job(line(1, status=32, exit=9) + later(info=16)).result
    assert result is not None and (result.signal, result.term_reason) == (9, "TERM_MEMLIMIT")
    result = job(line(1, status=32, start=0, hosts="0") + later(info=14)).result
    assert result is not None and not result.started
    assert (result.exit_code, result.signal, result.term_reason) == (None, None, "TERM_OWNER")


def test_hosts_in_short_form_and_those_that_were_asked_for() -> None:
    found = job(line(1, asked='2 "hosta" "hostb"', hosts='2 "4*hosta" "hostb"'))
    assert found.spec.hosts == ("hosta", "hostb")
    assert found.allocation is not None
    assert [(part.host, part.slots) for part in found.allocation.hosts] == [("hosta", 4), ("hostb", 1)]


def test_an_element_of_an_array() -> None:
    found = job(line(12, idx=7, name="sweep[1-100]%5"))
    assert found.job_id == (7 << 32) + 12 and found.spec.name == "sweep"


@pytest.mark.parametrize("text", ["", "\n", "# 1700", '"JOB_RESIZE" "10.1" 1 2', '"EVENT_ADRSV_FINISH" "10.1" 1 2'])
def test_lines_that_tell_of_no_finished_job(text: str) -> None:
    assert read_record(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "it begins with no kind of record"),
        ('"JOB_FINISH" "9.13"', "it ends before eventTime"),
        ('"JOB_FINISH" "9.13" x', "eventTime: 'x' is no whole number"),
        (line(1)[:200].rpartition(" ")[0], "it ends before"),
        (line(1).replace('"batch"', '"batch'), ": "),
        (line(1, hosts='9999999999 "hosta"'), "execHosts: 9999999999 is no number of them"),
        (line(1, hosts="-1"), "execHosts: -1 is no number of them"),
        (line(0), "jobId: 0[0] is no number of a job"),
        (line(1 << 33), "is no number of a job"),
        (line(2147483646), "jobId: 2147483646[0] is no number of a job"),
        (line(4294967295), "jobId: 4294967295[0] is no number of a job"),
        (line(1, idx=1 << 31), "idx: 2147483648 is more than 2147483647"),
        (line(1).replace("12.500000", "1e400"), "ru_utime: 1e400 is too large"),
        (line(1).replace("12.500000", "1e308"), "ru_utime: 1e+308 is more than 1000000000000000"),
        (line(1).replace("33816603 2", "33816603 99999999999"), "numProcessors: 99999999999 is more than 1000000"),
        (line(1, end=10**18), "eventTime: 1000000000000000000 is more than 253370764800"),
        (line(1).replace(" 0 0 1700", " 0 9999999999999999999 1700"), "termTime: 9999999999999999999 is more than"),
        (line(1, hosts='1 "0*hosta"'), "execHosts: '0*hosta' is no slot"),
        (line(1, hosts='1 "9999999*hosta"'), "execHosts: 9999999 slots are more than 1000000"),
        (line(1) + later().replace(" 3600 ", " 2147483648 "), "runLimit: 2147483648 is more than 2147483647"),
        (line(1).replace("204800", "9999999999999999999"), "maxRMem: 9999999999999999999 is more than"),
        (line(1, command="a\0b"), "it holds a NUL character"),
        (line(1, status=4), "jStatus: 4 is neither DONE (64) nor EXIT (32)"),
        (line(1, end=1), "do not follow each other"),
        (line(1, command="x" * (1 << 21)), "it has more than 1048576 characters"),
        (line(1, user='a"" b') + later()[:40], "jobGroupName: a quote is missing"),
    ],
)
def test_a_line_that_is_broken(text: str, said: str) -> None:
    with pytest.raises(BadRequest) as refused:
        job(text)
    assert said in refused.value.text and len(refused.value.text) < 200


def test_a_job_of_very_many_slots_is_written_in_the_short_form() -> None:
    hosts = (HostAllocation(host="hosta", slots=999_999), HostAllocation(host="hostb", slots=1))
    view = JobView(
        job_id=1,
        spec=JobSpec(command="x", user="ann", queue="q"),
        state="EXIT",
        submitted_at=1.0,
        dispatched_at=2.0,
        finished_at=3.0,
        allocation=Allocation(hosts=hosts),
    )
    text = write_record(record_of(view, 7))
    assert '2 "999999*hosta" "1*hostb"' in text and len(text) < 2_000
    assert job(text).allocation == view.allocation


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029\0"), max_size=12)
TIMES = st.integers(1, 2**31)


@settings(max_examples=examples(60))
@given(st.data())
def test_a_job_that_is_written_and_read_again_is_the_same(data: st.DataObject) -> None:
    submitted, waited, ran = (data.draw(st.integers(1, 10**8)) for _ in range(3))
    started = data.draw(st.booleans())
    index = data.draw(st.sampled_from([0, 1, 77]))
    texts = {
        name: data.draw(TEXTS) for name in ("command", "queue", "cwd", "description", "group", "res_req", "dependency")
    }
    spec = JobSpec(user="ann", project="p", name="n", slots=data.draw(st.integers(1, 99)), **texts)
    ended = submitted + waited + ran
    code = data.draw(st.integers(0, 255)) if started else None
    view = JobView(
        job_id=data.draw(st.integers(1, LARGEST_JOB_NUMBER - 1)) + (index << 32),
        spec=spec,
        state="DONE" if code == 0 else "EXIT",
        submitted_at=float(submitted),
        dispatched_at=float(submitted + waited) if started else None,
        finished_at=float(ended),
        allocation=Allocation(hosts=(HostAllocation(host="h", slots=3), HostAllocation(host="i", slots=1)))
        if started
        else None,
        result=AttemptResult(
            exit_code=code, started=started, term_reason="" if code == 0 else "TERM_RUNLIMIT", usage=Usage(cpu_s=2.5)
        ),
    )
    again = job(write_record(record_of(view, 7)))
    assert (again.job_id, again.state, again.finished_at) == (view.job_id, view.state, ended)
    assert (again.submitted_at, again.dispatched_at, again.allocation) == (
        submitted,
        view.dispatched_at,
        view.allocation,
    )
    for name in (*texts, "user", "project", "name", "slots"):
        assert getattr(again.spec, name) == getattr(spec, name), name
    result = again.result
    assert result is not None and (result.exit_code, result.usage.cpu_s) == (code, 2.5)
    assert result.term_reason == ("" if code == 0 else "TERM_RUNLIMIT")
    line_of_it = write_record(read_record(write_record(record_of(view, 7))) or {})
    assert line_of_it == write_record(record_of(view, 7))
