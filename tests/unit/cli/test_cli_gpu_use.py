"""What jobs make of their GPUs, in the layouts and the JSON of gjobs, ghist and gacct."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster, allocation, record, spec
from msgspec.structs import replace

from gsched.model import event as events
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.hosts.host import Gpu, GpuProcess, ProcessKind
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.views.catalogue import Account
from gsched.model.views.view import GpuView, HostView, JobView

NewCall = Callable[..., FakeCall]
AT = 1_700_000_000.0
BUSY = GpuUsage(
    host="ubuntu02",
    index=0,
    uuid="GPU-0",
    samples=9,
    covered_s=90.0,
    sm_mean=80.0,
    sm_max=100.0,
    mem_mean_mib=1000.0,
    mem_max_mib=2048.0,
    energy_j=25000.0,
    energy_counted=True,
    idle_s=3.0,
)
IDLE = GpuUsage(
    host="ubuntu02", index=1, uuid="GPU-1", samples=3, covered_s=30.0, sm_mean=0.0, energy_j=500.0, idle_s=30.0
)


@pytest.fixture(autouse=True)
def gpus(master: FakeMaster) -> None:
    found = tuple(
        GpuView(gpu=Gpu(uuid=f"GPU-{index}", index=index, model="Tesla V100-PCIE-32GB", memory_mib=32480, numa=8))
        for index in range(2)
    )
    master.host_views = [HostView(name="ubuntu02", status="ok", gpus=found)]


def job(job_id: int, *uses: GpuUsage, gpus: int = 2, **changes: object) -> JobView:
    values: dict[str, object] = {
        "state": "RUN",
        "allocation": allocation(*range(gpus)),
        "dispatched_at": AT,
        "usage": Usage(cpu_s=1.0, gpus=uses),
    }
    return JobView(job_id=job_id, spec=spec(), submitted_at=AT, **(values | changes))  # type: ignore[arg-type]


def ended(job_id: int, *uses: GpuUsage, gpus: int = 2) -> Account:
    result = AttemptResult(exit_code=0, usage=Usage(cpu_s=1.0, gpus=uses))
    view = job(job_id, gpus=gpus, state="DONE", result=result, finished_at=AT + 100, usage=None)
    return Account(
        job_id=job_id,
        user="test",
        queue="normal",
        state="DONE",
        submitted_at=AT,
        dispatched_at=AT,
        finished_at=AT + 100,
        gpu_s=100.0 * gpus,
        job=view,
    )


def told(call: NewCall, *words: str) -> str:
    done = call(*words)
    assert (done.run(), done.err) == (0, "")
    return done.out


def test_gjobs_gpu_has_a_line_per_gpu(master: FakeMaster, call: NewCall) -> None:
    master.views = [job(7, BUSY), job(8, gpus=0), job(9, IDLE, gpus=1)]
    heading, *rows = told(call, "gjobs", "-gpu").splitlines()
    assert heading.split() == [
        *("JOBID", "USER", "STAT", "HOST", "TASK", "GPU_ID", "GI_PLACEMENT/SIZE", "CI_PLACEMENT/SIZE", "MODEL"),
        *("MTOTAL", "FACTOR", "MRSV", "SOCKET", "NVLINK/XGMI", "UT", "MUSED", "MPEAK", "ENERGY", "IDLE"),
    ]
    device = ["-", "-", "TeslaV100_PC", "31.7G", "-", "0M", "8"]
    assert [row.split() for row in rows] == [
        ["7", "test", "RUN", "ubuntu02", "0", "0", *device, "-/N", "80%", "1000M", "2G", "25000J", "3s"],
        ["ubuntu02", "0", "1", *device, "N/-", "-", "-", "-", "-", "-"],
        ["9", "test", "RUN", "ubuntu02", "0", "0", *device, "-", "-", "-", "-", "-", "-"],
    ]
    starts = [heading.index(name) for name in ("HOST", "GPU_ID", "MODEL", "UT", "IDLE")]
    assert [rows[0][start - 1 : start] for start in starts] == [" "] * 5
    assert rows[0][starts[2] :].startswith("Tesla") and rows[0][starts[3] :].startswith("80%")
    assert told(call, "gjobs", "-gpu", "-noheader").splitlines() == rows


def test_gjobs_gpu_of_jobs_without_gpus(master: FakeMaster, call: NewCall) -> None:
    master.views = [job(8, gpus=0)]
    done = call("gjobs", "-gpu")
    assert (done.run(), done.out, done.err) == (0, "", "No job with GPUs found\n")
    done = call("gjobs", "-gpu", "99")
    assert (done.run(), done.err) == (255, "Job <99> is not found\n")


def test_gjobs_gpu_as_json(master: FakeMaster, call: NewCall) -> None:
    master.views = [job(7, BUSY, IDLE), job(8, gpus=0)]
    answer = json.loads(told(call, "gjobs", "-gpu", "-json"))
    assert (answer["COMMAND"], answer["JOBS"]) == ("bjobs", 1)
    (found,) = answer["RECORDS"]
    assert (found["JOBID"], found["STAT"], found["GPU_ENERGY_CONSUMED"]) == ("7", "RUN", 25500.0)
    busy, idle = found["GPUS"]
    assert (busy["UUID"], busy["MODEL"], busy["SM_UTILIZATION"]["AVG"]) == ("GPU-0", "Tesla V100-PCIE-32GB", 80.0)
    assert (busy["MAX_GPU_MEMORY_USED"], busy["MTOTAL"]) == (2048 << 20, 32480 << 20)
    assert (idle["MAX_GPU_MEMORY_USED"], idle["IDLE_TIME"], idle["SM_UTILIZATION"]["AVG"]) == (None, 30.0, 0.0)
    assert json.loads(told(call, "gjobs", "-l", "-gpu", "-json")) == answer
    missing = json.loads(told(call, "gjobs", "-gpu", "-json", "7", "99"))["RECORDS"]
    assert missing[1] == {"JOBID": "99", "ERROR": "Job <99> is not found"}


def test_the_processes_of_a_job_as_nvidia_smi_has_them(master: FakeMaster, call: NewCall) -> None:
    """Its own alone, each once, also where it has several parts of one GPU by MIG."""
    own = (
        GpuProcess(pid=4711, user="test", used_mib=18740, job="7.2", kind=ProcessKind.COMPUTE, name="python3"),
        GpuProcess(pid=4712, user="test", job="7.2", kind=ProcessKind.MPS_CLIENT, name="a\x1b" + "b" * 50),
    )
    others = (GpuProcess(pid=9, job="8.1", name="theirs"), GpuProcess(pid=10), GpuProcess(pid=11, job="7.1"))
    host = master.host_views[0]
    first = replace(host.gpus[0], gpu=replace(host.gpus[0].gpu, processes=(*others, *own)))
    master.host_views = [replace(host, gpus=(first, *host.gpus[1:]))]
    master.views = [job(7, BUSY, IDLE, attempt=2)]
    out = told(call, "gjobs", "-l", "-gpu")
    assert (
        "\n GPU_PROCESSES:\n"
        " HOST             GPU_ID  PID       TYPE  PROCESS_NAME                             GPU_MEMORY\n"
        " ubuntu02         0       4711      C     python3                                  18740MiB\n"
        f" ubuntu02         0       4712      M+C   *{'b' * 39} -\n"
    ) in out
    assert "GPU_PROCESSES" not in told(call, "gjobs", "-l")
    (found,) = json.loads(told(call, "gjobs", "-gpu", "-json"))["RECORDS"]
    assert found["GPUS"][0]["PROCESSES"][0] == {"PID": 4711, "TYPE": "C", "NAME": "python3", "MUSED": 18740 << 20}
    assert [len(gpu["PROCESSES"]) for gpu in found["GPUS"]] == [2, 0]
    part = HeldGpu(uuid="MIG-1", index=0, claim="mig_shared", parent="GPU-0", profile="1g.10gb")
    parts = (part, replace(part, uuid="MIG-2"))
    held = Allocation(hosts=(HostAllocation(host="ubuntu02", slots=1, gpus=parts),))
    master.views = [job(7, attempt=2, allocation=held)]
    assert told(call, "gjobs", "-l", "-gpu").count(" 4711 ") == 1
    master.views = [job(7, attempt=3)]
    assert "GPU_PROCESSES" not in told(call, "gjobs", "-l", "-gpu")


@pytest.mark.parametrize("other", ["w", "W", "WL", "A", "sum", "psum"])
def test_gjobs_gpu_stands_beside_no_other_layout(master: FakeMaster, call: NewCall, other: str) -> None:
    refused = call("gjobs", "-gpu", f"-{other}")
    assert (refused.run(), refused.err) == (255, f"gjobs: -gpu and -{other} cannot be given together\n")
    refused = call("gjobs", "-gpu", "-o", "jobid")
    assert (refused.run(), refused.err) == (255, "gjobs: -gpu and -o cannot be given together\n")


def test_gacct_gpu_sums_up_what_is_known(master: FakeMaster, call: NewCall) -> None:
    """Of job 8 one GPU is unknown: it counts for nothing but as a job with GPUs."""
    master.accounts = [ended(7, BUSY, IDLE), ended(8, BUSY), ended(9, gpus=0)]
    out = told(call, "gacct", "-gpu", "-u", "all")
    assert out.endswith(
        "\nGPU USAGE:    ( of 2 job(s) with GPUs; a job of which it is unknown does not count ) \n"
        " Total GPU energy consumed: 25500.0 Joules, in 1 job(s)\n"
        " Average SM utilization: 60.0 %, in 1 job(s)\n"
        " Total idle time of GPUs: 33.0 seconds, in 1 job(s)\n"
        " Maximum GPU memory used on one GPU: -\n"
    )
    assert "SUMMARY:  " in out and "GPU USAGE" not in told(call, "gacct", "-u", "all")
    (total,) = json.loads(told(call, "gacct", "-gpu", "-json", "-u", "all"))["RECORDS"]
    assert (total["DONE"], total["GPU_JOBS"], total["GPU_ENERGY_CONSUMED"], total["GPU_ENERGY_JOBS"]) == (
        *(3, 2, 25500.0, 1),
    )
    assert (total["SM_UTILIZATION"], total["MAX_GPU_MEMORY_USED"], total["GPU_TIME"]) == (60.0, None, 400.0)


def test_gacct_gpu_of_jobs_without_gpus_has_no_block(master: FakeMaster, call: NewCall) -> None:
    master.accounts = [ended(9, gpus=0)]
    assert "GPU USAGE" not in told(call, "gacct", "-gpu", "-u", "all")


def test_gacct_of_each_job_as_json(master: FakeMaster, call: NewCall) -> None:
    master.accounts = [ended(7, BUSY, IDLE), ended(8, BUSY)]
    answer = json.loads(told(call, "gacct", "-l", "-gpu", "-json", "7", "8"))
    assert (answer["COMMAND"], answer["JOBS"]) == ("bacct", 2)
    first, second = answer["RECORDS"]
    assert [gpu["ENERGY_CONSUMED"] for gpu in first["GPUS"]] == [25000.0, 500.0]
    assert [gpu["ENERGY_CONSUMED"] for gpu in second["GPUS"]] == [25000.0, None]
    assert (first["STAT"], first["GPU_ENERGY_CONSUMED"], first["GPUS"][0]["MODEL"]) == ("DONE", 25500.0, None)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-json",), "-json is given together with -gpu"),
        (("-l", "-json"), "-json is given together with -gpu"),
        (("-b", "-gpu"), "-b and -gpu cannot be given together"),
    ],
)
def test_gacct_refuses(master: FakeMaster, call: NewCall, words: tuple[str, ...], why: str) -> None:
    refused = call("gacct", *words)
    assert (refused.run(), refused.err) == (255, f"gacct: {why}\n")


def test_ghist_shows_which_gpus_they_were(master: FakeMaster, call: NewCall) -> None:
    happened = (
        events.JobSubmitted(at=AT, job_id=7, spec=spec()),
        events.JobDispatched(at=AT, job_id=7, attempt=1, allocation=allocation(1), effective_req=""),
        events.JobRequeued(at=AT + 1, job_id=7, attempt=1, reason="again"),
        events.JobDispatched(at=AT + 2, job_id=7, attempt=2, allocation=allocation(0, 5), effective_req=""),
        events.JobFinished(
            at=AT + 9, job_id=7, attempt=2, result=AttemptResult(exit_code=0, usage=Usage(gpus=(BUSY,)))
        ),
    )
    master.histories = {7: tuple(record(seq, event) for seq, event in enumerate(happened, 1))}
    block = told(call, "ghist", "-l", "-gpu", "7").partition("\n GPU_ALLOCATION:\n")[2].partition("\n\n")[0]
    rows = [line.split() for line in block.splitlines()[1:]]
    assert rows[0][:6] == ["ubuntu02", "0", "0", "-", "-", "TeslaV100_PC"]
    assert rows[1][:5] == ["0", "5", "-", "-", "-"], "a device that is not there any more"
    assert "GPU_ALLOCATION" not in told(call, "ghist", "-l", "7")
