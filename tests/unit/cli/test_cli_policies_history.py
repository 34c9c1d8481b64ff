"""What the history tells of what people did with jobs, and the help of every command."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, record, spec
from test_cli_gjobs import running

from gsched.base.coded_text import coded
from gsched.base.ids import element_id
from gsched.cli.registry import ALIASES, COMMANDS, LOCAL_ONLY
from gsched.model import event as events
from gsched.model.jobs.job import AttemptResult

NewCall = Callable[..., FakeCall]


def told(master: FakeMaster, call: NewCall, job_id: int, *happened: events.AnyEvent) -> str:
    master.histories = {job_id: tuple(record(seq, event) for seq, event in enumerate(happened, 1))}
    ghist = call("ghist", "-UF", f"12[{job_id >> 32}]" if job_id >> 32 else str(job_id))
    assert (ghist.run(), ghist.err) == (0, "")
    return ghist.out


def test_history_tells_what_people_did(master: FakeMaster, call: NewCall) -> None:
    at, job = 1499222051.0, spec("t.sh", name="train")
    moved = msgspec.structs.replace(job, queue="night")
    text = told(
        master,
        call,
        9,
        events.JobSubmitted(at=at, job_id=9, spec=job),
        events.JobSwitched(at=at + 1, job_id=9, by="ann", spec=moved),
        events.JobMoved(at=at + 2, job_id=9, by="ann", order=1.0, position=3, to_top=False),
        events.JobModified(at=at + 3, job_id=9, by="ann", spec=moved, changes=("Job name changes to : b", "x")),
        events.JobForced(at=at + 4, job_id=9, by="root", hosts=("one",)),
        events.JobSuspended(at=at + 5, job_id=9, by="_system_", by_system=True, reason="The run windows are closed"),
        events.JobResumed(at=at + 6, job_id=9, by="_system_", by_system=True),
        events.JobRequeueRequested(at=at + 7, job_id=9, by="ann"),
        events.JobRequeueRequested(at=at + 8, job_id=9, by="", preempted_by=element_id(12, 3)),
    )
    for line in (
        "to Queue <normal>",
        ": Switched to Queue <night> by user or administrator <ann>;",
        ": Job moved to position 3 relative to <bottom> by user or administrator <ann>;",
        ": Parameters of Job are changed by user or administrator <ann>: Job name changes to : b; x;",
        ": Job is forced to run by user or administrator <root>;",
        ": Suspended: The run windows are closed;",
        ": Requeue requested by user or administrator <ann>;",
        ": Requeue requested: preempted by job <12[3]>;",
    ):
        assert line in text, line


def test_history_tells_of_slots_that_came_and_went(master: FakeMaster, call: NewCall) -> None:
    at, job = 1499222051.0, spec("t.sh")

    def changed(after: int, by: str, code: str, value: object) -> events.JobModified:
        return events.JobModified(at=at + after, job_id=9, by=by, spec=job, changes=(coded(code, value),))

    text = told(
        master,
        call,
        9,
        events.JobSubmitted(at=at, job_id=9, spec=job),
        changed(1, "ann", "resize.requested", 2),
        changed(2, "_system_", "resize.added", "2*a"),
        changed(3, "ann", "resize.released", "1*a"),
    )
    for line in (
        ": Request 2 more slots by user or administrator <ann>;",
        ": Additional allocation on Hosts/Processors <2*a>;",
        ": Release allocation on Hosts/Processors <1*a> by user or administrator <ann>;",
    ):
        assert line in text, line


def test_times_go_on_after_a_requeue(master: FakeMaster, call: NewCall) -> None:
    at, job = 1499222000.0, spec("t.sh")
    held = running(9).allocation
    assert held is not None
    result = AttemptResult(exit_code=30, ended_at=at + 30)
    text = told(
        master,
        call,
        9,
        events.JobSubmitted(at=at, job_id=9, spec=job),
        events.JobDispatched(at=at + 10, job_id=9, attempt=1, allocation=held, effective_req=""),
        events.JobRequeued(
            at=at + 30, job_id=9, attempt=1, reason="exit value 30", failed_start=False, result=result, hold=True
        ),
        events.JobResumed(at=at + 35, job_id=9, by="ann"),
        events.JobDispatched(at=at + 37, job_id=9, attempt=2, allocation=held, effective_req=""),
        events.JobFinished(at=at + 40, job_id=9, attempt=2, result=AttemptResult(exit_code=0, ended_at=at + 40)),
        # Finished, and 60 seconds later sent to wait again: the time between counts for nothing.
        events.JobRequeued(at=at + 100, job_id=9, attempt=2, reason="Job has been requeued", failed_start=False),
        events.JobDispatched(at=at + 101, job_id=9, attempt=3, allocation=held, effective_req=""),
        events.JobFinished(at=at + 103, job_id=9, attempt=3, result=AttemptResult(exit_code=0, ended_at=at + 103)),
    )
    assert ": Exited with exit code 30; job will be requeued and rerun;" in text
    assert text.count(": Pending: Job has been requeued;") == 2 and ": Pending: exit value 30;" in text
    # PEND 10+2+1, PSUSP 5, RUN 20+3+2
    assert text.splitlines()[-1].split() == ["13", "5", "25", "0", "0", "0", "43"]


def test_history_of_an_element_and_of_what_never_started(master: FakeMaster, call: NewCall) -> None:
    at = 1499222000.0
    array = spec("t.sh", name="sweep", indices="1-5", array_limit=2)
    killed = AttemptResult(started=False, term_reason="TERM_OWNER", ended_at=at + 9)
    submitted = events.JobSubmitted(at=at, job_id=12, spec=array)
    ended = events.ArrayElementsFinished(at=at + 9, job_id=12, indices="3-5", result=killed)
    text = told(master, call, element_id(12, 3), submitted, ended)
    assert "Job <12[3]>, Job Name <sweep[3]>," in text
    assert "Completed <exit>; TERM_OWNER: job killed by owner;" in text
    assert text.splitlines()[-1].split() == ["9", "0", "0", "0", "0", "0", "9"]
    whole = told(master, call, 12, submitted)
    assert "Job <12>, Job Name <sweep[1-5]%2>," in whole


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - LOCAL_ONLY))
def test_every_command_teaches_itself_under_both_its_names(call: NewCall, name: str) -> None:
    for called in (name, *(alias for alias, target in ALIASES.items() if target == name)):
        shown, version, wrong = call(called, "-h"), call(called, "-V"), call(called, "-nosuchoption")
        assert (shown.run(), version.run(), wrong.run()) == (0, 0, 255)
        assert shown.out.startswith(f"{called}: ") and "Usage:" in shown.out and "Examples:" in shown.out
        assert version.out.startswith("gsched ")
        assert wrong.out == "" and wrong.err.count("\n") == 1
