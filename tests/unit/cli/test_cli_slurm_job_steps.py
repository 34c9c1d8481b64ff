"""Steps of jobs in sacct, squeue, scontrol and sstat, and scancel of one, against a master."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster, allocation, spec
from test_cli_gjobs import pending, running
from test_cli_sacct import account, ended

from gsched.model.jobs.job import SLURM, AttemptResult, Usage
from gsched.model.jobs.step_facts import StepFacts, pack_steps

NewCall = Callable[..., FakeCall]
AT = 1_499_000_000.0


def step(number: int, **more: object) -> StepFacts:
    plain = {"name": "train", "tasks": 4, "nodes": "n[1-2]", "node_count": 2, "cpus": 4, "gpus": 2, "began_at": AT}
    return StepFacts(number=number, **{**plain, **more})  # type: ignore[arg-type]


STEPS = pack_steps(
    [
        step(0, ended_at=AT + 65, code=3, max_rss_mib=12.0, cpu_s=61.5),
        step(1, name="eval", ended_at=AT + 10),
        step(2, signal=15, ended_at=AT + 10, is_cancelled=True),
        step(3),
    ]
)


@pytest.fixture
def told(master: FakeMaster) -> None:
    usage = Usage(cpu_s=3.5, max_mem_mib=2.0, pids=(41,), steps=STEPS)
    script = spec("job.sh", name="job.sh", front_end=SLURM)
    typed = spec("x", name="x", front_end=SLURM, interactive="Is", script_words=("bash",))
    master.views = [
        running(7, spec=script, allocation=allocation(slots=4, host="n1"), usage=usage),
        pending(8),
        running(
            9,
            spec=typed,
            allocation=allocation(),
        ),
    ]
    result = AttemptResult(exit_code=None, signal=15, term_reason="TERM_RUNLIMIT", usage=usage)
    master.accounts = [account(ended(5, result, spec=script, allocation=allocation(slots=4, host="n1")))]


def lines(call: NewCall, *words: str) -> list[str]:
    asked = call(*words)
    assert asked.run() == 0, asked.err
    return asked.out.splitlines()


@pytest.mark.usefixtures("told")
def test_sacct_has_a_row_for_each_step(call: NewCall) -> None:
    fields = "JobID,JobName,State,ExitCode,Elapsed,NTasks,NNodes,AllocTRES,MaxRSS,TotalCPU"
    assert lines(call, "sacct", "-nPaj", "7.0,7.1,7.2", "-o", fields) == [
        "7.0|train|FAILED|3:0|00:01:05|4|2|cpu=4,gres/gpu=2,node=2|12288K|01:01.500",
        "7.1|eval|COMPLETED|0:0|00:00:10|4|2|cpu=4,gres/gpu=2,node=2||",
        "7.2|train|CANCELLED|0:15|00:00:10|4|2|cpu=4,gres/gpu=2,node=2||",
    ]
    rows = lines(call, "sacct", "-nPaj", "7", "-o", "JobIDRaw,State,End")
    assert [row.split("|")[0] for row in rows] == ["7", "7.batch", "7.0", "7.1", "7.2", "7.3"]
    assert rows[-1] == "7.3|RUNNING|Unknown"
    assert len(lines(call, "sacct", "-nXaj", "7")) == 1


@pytest.mark.usefixtures("told")
def test_a_step_that_its_job_took_along_is_cancelled(call: NewCall) -> None:
    rows = lines(call, "sacct", "-nPaj", "5", "-o", "JobID,State,ExitCode")
    assert rows == [
        "5|TIMEOUT|0:0",
        "5.batch|CANCELLED|0:15",
        "5.0|FAILED|3:0",
        "5.1|COMPLETED|0:0",
        "5.2|CANCELLED|0:15",
        "5.3|CANCELLED|0:0",
    ]


@pytest.mark.usefixtures("told")
def test_sacct_json(call: NewCall) -> None:
    asked = call("sacct", "-aj", "7", "--json")
    assert asked.run() == 0
    (job,) = json.loads(asked.out)["jobs"]
    assert [each["step"] for each in job["steps"]][:2] == [
        {"id": "7.batch", "name": "batch"},
        {"id": "7.0", "name": "train"},
    ]
    assert job["steps"][1]["nodes"] == {"count": 2, "list": ["n1", "n2"], "range": "n[1-2]"}
    assert job["steps"][1]["exit_code"]["return_code"]["number"] == 3


@pytest.mark.usefixtures("told")
def test_squeue_lists_steps_that_run(call: NewCall) -> None:
    rows = lines(call, "squeue", "-h", "-s", "-o", "%i|%j|%A|%N|%P")
    assert rows == ["7.batch|batch|1|n1|normal", "7.3|train|4|n[1-2]|normal", "9.0|x|1|ubuntu02|normal"]
    assert lines(call, "squeue", "-h", "-s", "7.3", "-o", "%i") == ["7.3"]
    assert lines(call, "squeue", "-h", "-s", "7", "-O", "StepID,StepState:8,tres-per-step") == [
        "7.batch             RUNNING N/A",
        "7.3                 RUNNING gres:gpu:2",
    ]


@pytest.mark.usefixtures("told")
def test_scontrol_show_step(call: NewCall) -> None:
    (row,) = lines(call, "scontrol", "-o", "show", "step", "7.3")
    assert row.startswith("StepId=7.3 UserId=") and "State=RUNNING Partition=normal NodeList=n[1-2]" in row
    assert "Nodes=2 CPUs=4 Tasks=4 Name=train" in row
    assert len(lines(call, "scontrol", "-o", "show", "steps", "7")) == 2
    for word in ("7.0", "7.9"):  # one that has ended, and one that never was
        gone = call("scontrol", "show", "step", word)
        assert gone.run() == 1 and gone.err == f"scontrol: error: Job step {word} not found\n"


@pytest.mark.usefixtures("told")
def test_sstat_of_a_step(call: NewCall) -> None:
    assert lines(call, "sstat", "-nPj", "7.3", "-o", "JobID,NTasks,MaxRSS,Pids") == ["7.3|4||"]
    assert lines(call, "sstat", "-nPj", "7", "-o", "JobID") == ["7.3"]
    assert lines(call, "sstat", "-nPaj", "7", "-o", "JobID") == ["7.batch", "7.3"]
    gone = call("sstat", "-nPj", "7.1")
    assert gone.run() == 1 and gone.err == "sstat: error: couldn't get steps for job 7.1\n"
    wrong = call("sstat", "-j", "7.x")
    assert wrong.run() == 1 and wrong.err == "sstat: error: Bad job/step specified: 7.x\n"


@pytest.mark.usefixtures("told")
def test_scancel_ends_one_step(master: FakeMaster, call: NewCall) -> None:
    assert lines(call, "scancel", "7.3") == []
    request = master.requests[-1]
    assert (request.action, list(request.job_ids), request.signal, request.step) == ("signal", [7], 0, 3)
    assert lines(call, "scancel", "-s", "USR1", "7.3") == []
    assert (master.requests[-1].signal, master.requests[-1].step) == (10, 3)
    before = len(master.controls)
    assert lines(call, "scancel", "7.1") == [], "it has ended"
    unknown = call("scancel", "8.0")
    assert unknown.run() == 1
    assert unknown.err == "scancel: error: Kill job error on job step id 8.0: Invalid job id specified\n"
    assert len(master.controls) == before


@pytest.mark.usefixtures("told")
def test_scancel_of_what_srun_has_submitted_for_a_terminal(master: FakeMaster, call: NewCall) -> None:
    assert lines(call, "scancel", "9.0") == [] and master.controls[-1][:2] == ("kill", (9,))
    assert lines(call, "scancel", "7.batch") == [] and master.controls[-1][:2] == ("kill", (7,))


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("words", "target"), [((), "steps"), (("--batch",), "main"), (("--full",), ""), (("-b", "-f"), "")]
)
def test_whom_a_signal_is_for(master: FakeMaster, call: NewCall, words: tuple[str, ...], target: str) -> None:
    assert lines(call, "scancel", *words, "--signal=USR1", "7") == []
    assert (master.requests[-1].signal, master.requests[-1].target) == (10, target)


@pytest.mark.usefixtures("told")
def test_scancel_asks_before_each(master: FakeMaster, call: NewCall) -> None:
    asked = call("scancel", "-i", "7", "8", "9")
    asked.stdin = b"y\nwhat\nn\n"
    assert asked.run() == 0
    assert [controlled[1] for controlled in master.controls] == [(7,)]
    assert asked.out.count("[y/n]? ") == 4, "asked again; and an end of the input is a no"
    assert asked.out.startswith("Cancel job_id=7 name=job.sh partition=normal [y/n]? ")


@pytest.mark.usefixtures("told")
def test_scancel_of_jobs_on_nodes(master: FakeMaster, call: NewCall) -> None:
    assert lines(call, "scancel", "-w", "n[1-3]") == []
    assert [controlled[1] for controlled in master.controls] == [(7,)]
    assert lines(call, "scancel", "-w", "n9") == [] and len(master.controls) == 1
