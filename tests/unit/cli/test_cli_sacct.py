"""sacct against a master: which jobs, which rows, in which form."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, allocation, record, spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_cli_gjobs import done, pending, running

from gsched.base.ids import element_id
from gsched.model import event as events
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.views.catalogue import Account
from gsched.model.views.view import JobView
from tests.support.property_examples import examples

NewCall = Callable[..., FakeCall]
SINCE = ("-S", "2017-07-01", "-E", "2017-08-01", "-a")


def account(view: JobView) -> Account:
    assert view.finished_at is not None
    return Account(
        job_id=view.job_id,
        user=view.spec.user,
        queue=view.spec.queue,
        state=view.state,
        submitted_at=view.submitted_at,
        finished_at=view.finished_at,
        job=view,
    )


def ended(job_id: int, result: AttemptResult, **changes: object) -> JobView:
    at = done(job_id).finished_at
    state = "DONE" if result.succeeded else "EXIT"
    return msgspec.structs.replace(done(job_id), state=state, result=result, finished_at=at, **changes)


@pytest.fixture
def told(master: FakeMaster) -> None:
    usage = Usage(
        cpu_s=83.25,
        max_mem_mib=1.5,
        gpus=(
            GpuUsage(host="ubuntu02", samples=4, sm_mean=80.0, mem_max_mib=2048.0, energy_j=500.0),
            GpuUsage(host="ubuntu02", index=1, samples=4, sm_mean=40.0, mem_max_mib=1024.0, energy_j=100.0),
        ),
    )
    held = Allocation(
        hosts=(
            msgspec.structs.replace(allocation(0, 1, slots=4, host="n1").hosts[0], amounts={"mem": 2048.0}),
            HostAllocation(host="n2", slots=4, amounts={"mem": 2048.0}),
        )
    )
    array = spec("x", indices="1-4", array_limit=2, index_shift=1)
    master.accounts = [
        account(ended(7, AttemptResult(exit_code=3, usage=usage), allocation=held)),
        account(ended(8, AttemptResult(signal=9, term_reason="TERM_RUNLIMIT"))),
    ]
    master.views = [
        running(9, spec=spec("train.sh", name="night")),
        *(pending(element_id(14, index), spec=array) for index in (1, 2, 3, 4)),
    ]


def rows(call: NewCall, *words: str) -> list[str]:
    asked = call("sacct", *words)
    assert asked.run() == 0, asked.err
    return [line.rstrip() for line in asked.out.splitlines()]


@pytest.mark.usefixtures("told")
def test_jobs_and_their_scripts(call: NewCall) -> None:
    assert rows(call, *SINCE, "-nP", "-o", "JobID,JobIDRaw,State,ExitCode,NodeList,AllocCPUS") == [
        "7|7|FAILED|3:0|n[1-2]|8",
        "7.batch|7.batch|FAILED|3:0|n1|4",
        "8|8|TIMEOUT|0:0|ubuntu02|1",
        "8.batch|8.batch|CANCELLED|0:9|ubuntu02|1",
        "9|9|RUNNING|0:0|ubuntu02|1",
        "9.batch|9.batch|RUNNING|0:0|ubuntu02|1",
        "14_[0-3%2]|14|PENDING|0:0|None assigned|0",
    ]


@pytest.mark.usefixtures("told")
def test_what_it_used(call: NewCall) -> None:
    line = rows(
        call, "-j", "7", "-nPo", "JobID,MaxRSS,TotalCPU,ElapsedRaw,AllocTRES,ReqMem,TRESUsageInTot,ConsumedEnergyRaw"
    )
    assert line == [
        "7||01:23.250|60|billing=8,cpu=8,gres/gpu=2,mem=4G,node=2|4G||600",
        "7.batch|1536K|01:23.250|60|billing=8,cpu=8,gres/gpu=2,mem=4G,node=2||"
        "cpu=00:01:23,energy=600,gres/gpumem=2G,gres/gpuutil=60,mem=1536K|600",
    ]


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("-j", "7,9"), ["7", "9"]),
        (("-j", "7", "-j", "8"), ["7", "8"]),
        (("-j", "14_[1-2]"), ["14_[1-2%2]"]),
        (("-j", "14_0"), ["14_0"]),
        (("-j", str(element_id(14, 4))), ["14_3"]),
        ((*SINCE, "-s", "F,TO"), ["7", "8"]),
        ((*SINCE, "-s", "R"), ["7", "8", "9"]),
        ((*SINCE, "--name", "night,day"), ["9"]),
        ((*SINCE, "-N", "n[2-3]"), ["7"]),
        ((*SINCE, "-i", "2-3"), ["7"]),
        ((*SINCE, "-R", "TimeLimit"), ["8"]),
        (("-u", "nobody-here", "-S", "2017-07-01"), []),
        (("-a", "-S", "2017-07-01", "-E", "2017-07-02"), []),
    ],
)
def test_which_jobs(call: NewCall, words: tuple[str, ...], found: list[str]) -> None:
    assert rows(call, "-nPX", "-o", "JobID", *words) == found


@pytest.mark.usefixtures("told")
def test_steps_alone(call: NewCall) -> None:
    assert rows(call, "-nP", "-o", "JobID", "-j", "7.batch") == ["7.batch"]
    assert rows(call, "-nP", "-o", "Reason", "-j", "7.0") == []


@pytest.mark.usefixtures("told")
def test_the_masters_part_of_the_choice(master: FakeMaster, call: NewCall) -> None:
    rows(call, "-S", "2017-07-01", "-E", "2017-08-01", "-u", "ann,bob", "-r", "normal", "-A", "risk")
    asked = master.account_filters[-1]
    assert (asked.users, asked.queues, asked.projects) == (("ann", "bob"), ("normal",), ("risk",))
    assert asked.completed.since is not None and asked.submitted.until is not None


@pytest.mark.usefixtures("told")
def test_columns_are_cut_with_a_plus(call: NewCall) -> None:
    assert rows(call, "-X", "-j", "7", "-o", "JobID%4,AllocTRES%9,State%-8,Partition") == [
        "JobI AllocTRES State     Partition",
        "---- --------- -------- ----------",
        "   7 billing=+ FAILED       normal",
    ]


def test_who_has_cancelled_it(master: FakeMaster, call: NewCall) -> None:
    by_admin = ended(7, AttemptResult(signal=15, term_reason="TERM_ADMIN"))
    by_owner = ended(8, AttemptResult(signal=15, term_reason="TERM_OWNER"), spec=spec("x", user="root"))
    master.accounts = [account(by_admin), account(by_owner)]
    asked = events.JobSignalRequested(at=1.0, job_id=7, signal=0, by="daemon")
    submitted = events.JobSubmitted(at=by_admin.submitted_at, job_id=7, spec=by_admin.spec)
    master.histories = {7: (record(1, submitted), record(2, asked))}
    assert rows(call, "-nPX", "-j", "7,8", "-o", "State,ExitCode") == ["CANCELLED by 1|0:0", "CANCELLED by 0|0:0"]


@pytest.mark.usefixtures("told")
def test_json(call: NewCall) -> None:
    asked = call("sacct", "--json", "-j", "7,14")
    assert asked.run() == 0
    jobs = json.loads(asked.out)["jobs"]
    assert [job["job_id"] for job in jobs] == [7, element_id(14, 1)]
    assert jobs[0]["state"] == {"current": ["FAILED"], "reason": "NonZeroExitCode"}
    assert jobs[0]["steps"][0]["step"]["id"] == "7.batch"
    assert jobs[1]["array"]["task"] == "0-3%2"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "JobID,Mood"), 'sacct: error: Invalid field requested: "Mood"'),
        (("-o", "JobID%wide"), "sacct: error: --format: 'JobID%wide'"),
        (("-j", "x"), "sacct: error: Invalid job id x"),
        (("-j", "7.x"), "sacct: error: Bad job/step specified: 7.x"),
        (("-j", "7_[0-999999999]"), "sacct: error: Job array index error"),
        (("-S", "yesteryear"), "sacct: error: -S: Invalid time specification 'yesteryear'"),
        (("-S", "now", "-E", "now-1hour"), "sacct: error: Start time requested is after end time"),
        (("-s", "BORED"), "sacct: error: Invalid job state specified: BORED"),
        (("-N", "n[0-99999999]"), "sacct: error: "),
        (("--units", "Q"), "sacct: error: --units: 'Q'"),
        (("-i", "3-1"), "sacct: error: --nnodes: '3-1'"),
        (("-k", "soon"), "sacct: error: Invalid time specification 'soon'"),
        (("-x", "1"), "sacct: error: -x: there are no associations"),
        (("job",), "sacct: error: Unrecognized option: job"),
        (("-nu", "ann", "-o", "Account%256", "|", "tail", "-1"), "sacct: error: invalid option -- '1'"),
    ],
)
@pytest.mark.usefixtures("told")
def test_what_is_wrong_is_one_line(call: NewCall, words: tuple[str, ...], said: str) -> None:
    asked = call("sacct", *words)
    assert asked.run() == 1
    assert asked.err.startswith(said) and asked.err.count("\n") == 1 and not asked.out


WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            ["-j", "-o", "-S", "-E", "-s", "-X", "-n", "-P", "-p", "-l", "-N", "--json", "-k", "-i", "-r", "-T"]
        ),
        st.text(alphabet="JobID%,.-_[]0123456789:@now\x00é", max_size=20),
        st.sampled_from(["14_[0-3]", "ALL", "now-1day", "JobID,State%5", "7.batch", "n[1-2]"]),
    ),
    max_size=6,
)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=WORDS, form=st.text(max_size=8))
@pytest.mark.usefixtures("told")
def test_anything_typed_is_answered_or_refused(call: NewCall, words: list[str], form: str) -> None:
    for command in ("sacct", "squeue"):
        asked = call(command, *words)
        asked.env["SLURM_TIME_FORMAT"] = form
        assert asked.run() in (0, 1)
        assert "Traceback" not in asked.err and "internal error" not in asked.err
