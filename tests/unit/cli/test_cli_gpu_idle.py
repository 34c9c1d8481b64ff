"""Idle GPUs of jobs in the layouts and the JSON of gjobs and ghist, and in what gsub -K says."""

from __future__ import annotations

import json
from collections.abc import Callable

from fake_master import FakeCall, FakeMaster, allocation, record, spec

from gsched.base.coded_text import coded
from gsched.cli.submit.idle_notice import idle_notice
from gsched.model import event as events
from gsched.model.gpus.gpu_idle import GpuIdleness, IdleWarning
from gsched.model.jobs.job import AttemptResult
from gsched.model.views.view import JobView

NewCall = Callable[..., FakeCall]
AT = 1_700_000_000.0
FACTS = coded("idle.gpu.held", 0, "ubuntu02", "1", "0", "9000")
TEXT = coded("idle.warned", "7", 1, "30 min", coded("idle.kind.held"), FACTS, "normal")
WARNING = IdleWarning(number=1, at=AT + 2000, idle_s=1800.0, kind="held", action="kill", grace_s=600.0, text=TEXT)
ACTED = coded("idle.acted.kill", "40 min", coded("idle.kind.held"), "10 min", "normal")
FIELDS = "gpu_idle_kind gpu_idle_for gpu_idle_since gpu_idle_warned gpu_idle_ok"


def idle(index: int, idle_s: float, kind: str = "held", **values: object) -> GpuIdleness:
    known = {"is_known": True, "since": AT + 100 + index, **values}
    return GpuIdleness(
        host="ubuntu02",
        index=index,
        uuid=f"GPU-{index}",
        kind=kind,
        idle_s=idle_s,
        **known,  # type: ignore[arg-type]
    )


def job(*gpus: GpuIdleness, **changes: object) -> JobView:
    values: dict[str, object] = {
        "state": "RUN",
        "allocation": allocation(*range(len(gpus) or 1)),
        "dispatched_at": AT,
        "idle": gpus,
        "spec": spec(),
    }
    return JobView(job_id=7, submitted_at=AT, **(values | changes))  # type: ignore[arg-type]


def told(call: NewCall, *words: str) -> str:
    done = call(*words)
    assert (done.run(), done.err) == (0, "")
    return done.out


def fields(call: NewCall) -> list[str]:
    return told(call, "gjobs", "-noheader", "-o", f"{FIELDS} delimiter=','", "-u", "all").strip().split(",")


def test_the_fields(master: FakeMaster, call: NewCall) -> None:
    master.views = [job(idle(0, 1900.0), idle(1, 2500.0, "no_process"), idle_warning=WARNING)]
    assert fields(call) == ["held", "1900", "Tue Nov 14 22:15:01 2023", "Tue Nov 14 22:46:40 2023", "-"]
    (found,) = json.loads(told(call, "gjobs", "-json", "-o", FIELDS, "-u", "all"))["RECORDS"]
    assert (found["GPU_IDLE_KIND"], found["GPU_IDLE_FOR"]) == ("held", "1900")
    master.views = [job(idle(0, 1900.0), idle(1, 0.0, "", since=None), spec=spec(gpu_idle_ok="waits"))]
    assert fields(call) == ["-", "0", "-", "-", "waits"]
    for unknown in (job(), job(idle(0, 1900.0, is_known=False)), job(idle(0, 5.0), allocation=allocation(0, 1))):
        master.views = [unknown]
        assert fields(call) == ["-"] * 5


def long(call: NewCall) -> str:
    return " ".join(told(call, "gjobs", "-UF", "-u", "all").split())


def test_gjobs_l_says_how_long_and_in_which_way_and_what_it_was_told(master: FakeMaster, call: NewCall) -> None:
    master.views = [job(idle(0, 1900.0), idle_warning=WARNING, spec=spec(gpu_idle_ok="waits for data"))]
    out = long(call)
    assert " Idle GPUs Allowed <waits for data>" in out
    assert " IDLE GPUS: Idle for 1900 seconds (held), first seen so at Tue Nov 14 22:15:00;" in out
    assert (
        " Warned at Tue Nov 14 22:46:40: All 1 GPU(s) of job 7 have done no work for 30 min, with memory held and no "
        "work yet (GPU 0 of ubuntu02: use at most 1 %, memory traffic at most 0 %, 9000 MiB held, no work yet): "
        "GPU_IDLE of queue normal;" in out
    )
    master.views = [job(idle(0, 0.0, "", since=None))]
    assert "IDLE GPUS" not in long(call)


def test_gjobs_l_of_a_job_that_was_killed_says_why(master: FakeMaster, call: NewCall) -> None:
    warning = IdleWarning(
        number=1, at=AT, idle_s=1.0, kind="held", action="kill", grace_s=1.0, text=TEXT, acted="kill", acted_text=ACTED
    )
    result = AttemptResult(signal=15, term_reason="TERM_GPU_IDLE", ended_at=AT + 9)
    master.views = [job(state="EXIT", idle_warning=warning, result=result, finished_at=AT + 9)]
    out = " ".join(told(call, "gjobs", "-UF", "-a", "-u", "all").split())
    assert "Completed <exit>; TERM_GPU_IDLE: job killed because its GPUs were idle." in out
    assert " It is killed: its GPUs have done no work for 40 min, with memory held and no work yet, 10 min of it" in out
    reason = told(call, "gjobs", "-a", "-noheader", "-o", "exit_reason fail_class delimiter=';'", "-u", "all")
    assert reason == "TERM_GPU_IDLE: job killed because its GPUs were idle;system\n"


HISTORY = (
    events.JobSubmitted(at=AT, job_id=7, spec=spec()),
    events.JobDispatched(at=AT + 1, job_id=7, attempt=1, allocation=allocation(0), effective_req=""),
    events.JobIdleWarned(at=AT + 2000, job_id=7, attempt=1, warning=WARNING),
    events.JobIdleOver(at=AT + 2010, job_id=7, attempt=1, number=1, text=coded("idle.over.works")),
    events.JobIdleActed(at=AT + 2600, job_id=7, attempt=1, number=2, action="kill", text=ACTED),
    events.JobSignalRequested(at=AT + 2600, job_id=7, by="_system_", signal=0, keyword="TERM_GPU_IDLE"),
    events.JobRequeueRequested(at=AT + 2601, job_id=7, by="_system_", reason=coded("requeue.idle", "40 min")),
)


def test_ghist_tells_of_warnings_and_of_what_followed(master: FakeMaster, call: NewCall) -> None:
    master.histories = {7: [record(*each) for each in enumerate(HISTORY, 1)]}
    out = told(call, "ghist", "-UF", "-u", "all", "7")
    lines = [line.partition(": ")[2] for line in out.splitlines() if line.startswith(("Tue Nov 14", "Wed Nov 15"))]
    assert lines[2].startswith("Warning 1: All 1 GPU(s) of job 7 have done no work for 30 min")
    assert lines[3:] == [
        "Its GPUs work again: the warning of idle GPUs is taken back;",
        "It is killed: its GPUs have done no work for 40 min, with memory held and no work yet, 10 min of it after the "
        "warning (GPU_IDLE of queue normal);",
        "The system ends the job because its GPUs are idle;",
        "Requeue requested: its GPUs did no work for 40 min (GPU_IDLE);",
    ]


def test_who_waits_for_a_job_is_told() -> None:
    assert [bool(idle_notice(event)) for event in HISTORY] == [False, False, True, True, True, False, False]
    assert idle_notice(HISTORY[3]) == "<<Its GPUs work again: the warning of idle GPUs is taken back>>\n"
