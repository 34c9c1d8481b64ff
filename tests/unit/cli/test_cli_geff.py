"""geff: its layouts, its JSON, its sums, and what it refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from fake_master import FakeCall, FakeMaster, allocation, spec
from msgspec.structs import replace

from gsched.cli.answers.job_judge import FEW
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.hosts.host import Gpu
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.views.catalogue import Account, AccountFilter
from gsched.model.views.gpu_sums import GpuSums
from gsched.model.views.view import GpuView, HostView, JobView, Parameter, QueueView

NewCall = Callable[..., FakeCall]
AT = 1_700_000_000.0
RUN_S = 3600.0


@pytest.fixture(autouse=True)
def cluster(master: FakeMaster) -> None:
    found = tuple(GpuView(gpu=Gpu(uuid=f"GPU-{index}", index=index, memory_mib=40_960)) for index in range(2))
    master.host_views = [HostView(name="ubuntu02", status="ok", gpus=found)]
    master.queue_views = [QueueView(name="normal", priority=1)]
    with_prices(master)


def with_prices(master: FakeMaster, **values: str) -> None:
    told = {"EFFICIENCY_MIN_RUN": "300", "GPU_UNREQUESTED": "hide", **values}
    parameters = tuple(Parameter(name, value) for name, value in told.items())
    master.cluster_view = replace(master.cluster_view, parameters=parameters)


def used(index: int, percent: float | None, **changes: object) -> GpuUsage:
    values: dict[str, object] = {
        "host": "ubuntu02",
        "index": index,
        "uuid": f"GPU-{index}",
        "samples": 9,
        "covered_s": RUN_S,
        "sm_mean": percent,
        "sm_max": percent,
        "sm_p95": percent,
        "mem_max_mib": 8192.0 if percent else 0.0,
        "energy_j": 1.8e6,
    }
    return GpuUsage(**(values | changes))  # type: ignore[arg-type]


def view(job_id: int, *uses: GpuUsage, gpus: int = 2, run_s: float = RUN_S, **changes: object) -> JobView:
    usage = Usage(cpu_s=run_s, max_mem_mib=2048.0, cpu_peak=1.5, gpus=uses)
    gpu_req = f"num={gpus}" if gpus else ""
    asked = spec(
        project="caffe",
        command="train.py",
        run_limit_s=24 * 3600,
        gpu_req=gpu_req,
        combined_gpu_req=gpu_req,
        res_req="",
        defaulted=("slots",),
    )
    values: dict[str, object] = {
        "spec": asked,
        "state": "DONE",
        "allocation": allocation(*range(gpus)),
        "dispatched_at": AT + 42,
        "finished_at": AT + 42 + run_s,
        "result": AttemptResult(exit_code=0, run_s=run_s, usage=usage),
    }
    return JobView(job_id=job_id, submitted_at=AT, **(values | changes))  # type: ignore[arg-type]


def account(job: JobView, energy_j: float | None = 3.6e6) -> Account:
    finished = job.finished_at or 0.0
    gpu_s = sum(len(part.gpus) for part in job.allocation.hosts) * RUN_S if job.allocation is not None else 0.0
    return Account(
        job_id=job.job_id,
        user=job.spec.user,
        queue=job.spec.queue,
        state=job.state,
        submitted_at=AT,
        dispatched_at=job.dispatched_at,
        finished_at=finished,
        gpu_s=gpu_s,
        gpu_energy_j=energy_j,
        job=job,
    )


def told(call: NewCall, *words: str) -> str:
    done = call(*words)
    assert (done.run(), done.err) == (0, "")
    return done.out


def records(call: NewCall, *words: str) -> list[dict[str, object]]:
    answer = json.loads(told(call, *words, "-json"))
    assert answer["COMMAND"] == "geff"
    return list(answer["RECORDS"])


def test_all_of_one_job(master: FakeMaster, call: NewCall) -> None:
    with_prices(master, GPU_HOUR_PRICE="2.5 EUR", KWH_PRICE="0.3 EUR")
    master.accounts = [account(view(7, used(0, 80.0), used(1, 0.0)))]
    assert told(call, "geff", "7") == (
        "Job <7>, User <test>, Project <caffe>, Status <DONE>, Queue <normal>, Command <\n"
        f"{' ' * 21}train.py>\n"
        "                       USED                   ASKED FOR    %\n"
        " GPU ubuntu02:0        80 % busy (p95 80)     1            80\n"
        "   its memory (peak)   8.0 GiB of 40.0 GiB    -            -\n"
        " GPU ubuntu02:1        0 % busy (p95 0)       1            0\n"
        "   its memory (peak)   0 MiB of 40.0 GiB      -            -\n"
        " CPU                   1.00 cores (peak 1.5)  1 slot       100\n"
        " Memory (peak)         2.0 GiB                -            -\n"
        " Run time              1:00:00                24:00:00     4\n"
        " Waiting time          0:00:42\n"
        " GPU time              2.00 hours\n"
        " GPU energy            1.00kWh\n"
        " Cost                  5.30 EUR (GPU time 5.00 EUR, energy 0.30 EUR)\n"
        " VERDICT 1 of 2 GPUs was never used\n"
        " VERDICT it took 4 % of its run limit\n"
        " ENOUGH  -gpu num=1 -W 1:15\n"
    )
    assert master.account_filters == [AccountFilter(ids=(7,))]


def test_what_is_unknown_is_a_dash(master: FakeMaster, call: NewCall) -> None:
    with_prices(master, GPU_HOUR_PRICE="2.5 EUR", KWH_PRICE="0.3 EUR")
    master.host_views = []
    unknown = view(7, gpus=1, result=AttemptResult(run_s=RUN_S))
    master.accounts = [account(unknown, energy_j=None)]
    out = told(call, "geff", "7")
    for line in (
        " GPU ubuntu02:0        -                      1            -\n",
        "   its memory (peak)   -                      -            -\n",
        " CPU                   -                      1 slot       -\n",
        " Memory (peak)         -                      -            -\n",
        " GPU energy            -\n",
        " Cost                  - (GPU time 2.50 EUR, energy -)\n",
        " VERDICT how its GPUs were used is not known\n",
    ):
        assert f"\n{line}" in f"\n{out}", line
    assert "ENOUGH" not in out
    (record,) = records(call, "geff", "7")
    assert (record["GPU_PERCENT"], record["CPU_PERCENT"], record["GPU_ENERGY_CONSUMED"]) == (None, None, None)
    assert record["COST"] == {"TOTAL": None, "GPU_TIME": 2.5, "ENERGY": None, "CURRENCY": "EUR"}


def test_json(master: FakeMaster, call: NewCall) -> None:
    master.accounts = [account(view(7, used(0, 80.0), used(1, 0.0)))]
    (record,) = records(call, "geff", "7")
    assert record["VERDICTS"] == [
        {
            "WEIGHT": "grave",
            "CODE": "efficiency.gpus_unused.one",
            "VALUES": [2],
            "TEXT": "1 of 2 GPUs was never used",
        },
        {
            "WEIGHT": "grave",
            "CODE": "efficiency.run_limit",
            "VALUES": [pytest.approx(100 / 24)],
            "TEXT": "it took 4 % of its run limit",
        },
    ]
    assert (record["GPU_PERCENT"], record["WAITED"], record["GPU_TIME"], record["COST"]) == (40.0, 42.0, 7200.0, None)
    assert (record["ENOUGH"], record["CORES_PEAK"], record["RUN_LIMIT"]) == ("-gpu num=1 -W 1:15", 1.5, 86400)
    busy, idle = record["GPUS"]  # type: ignore[misc]
    assert (busy["MAX_GPU_MEMORY_USED"], busy["NEVER_USED"], idle["NEVER_USED"]) == (8 << 30, False, True)


def test_a_line_for_each_job(master: FakeMaster, call: NewCall) -> None:
    short = view(8, gpus=0, run_s=10.0, spec=spec(user="somebody-else", queue="a-queue-of-its-own"))
    master.accounts = [account(view(7, used(0, 80.0), used(1, 0.0))), account(short, energy_j=None)]
    heading, first, second = told(call, "geff", "-u", "all", "-since", "7d").splitlines()
    assert heading.split() == [
        *("JOBID", "USER", "STAT", "QUEUE", "GPUS", "GPU%", "GMEM%", "CPU%", "MEM%", "TIME%", "RUN", "WAIT", "ENERGY"),
        "VERDICT",
    ]
    assert first.split(maxsplit=13) == [
        *("7", "test", "DONE", "normal", "2", "40", "-", "100", "-", "4", "1:00:00", "0:00:42", "1.00kWh"),
        "1 of 2 GPUs was never used",
    ]
    assert second.split()[:5] == ["8", "somebody", "DONE", "a-queue-of", "0"]
    assert second.endswith("it ran for 10 s: runs of less than 300 s are not judged")
    wide = told(call, "geff", "-u", "all", "-w")
    assert " somebody-else " in wide and " a-queue-of-its-own " in wide
    with_prices(master, GPU_HOUR_PRICE="2.5 EUR")
    assert "COST" in (lines := told(call, "geff", "-u", "all").splitlines())[0] and " 5.00 EUR " in lines[1]
    assert told(call, "geff", "-l", "-u", "all").count("\nJob <8>") == 1


def test_whose_jobs_and_when(master: FakeMaster, call: NewCall) -> None:
    before = time.time()
    assert told(call, "geff") == "No matching job found\n"
    told(call, "geff", "-u", "me bob", "-q", "a b", "-P", "p", "-m", "h", "-since", "12h")
    told(call, "geff", "-u", "all", "-C", "2023/11/1,2023/11/2")
    told(call, "geff", "-since", "2023/11/1")
    told(call, "geff", "0")
    day, half, span, since, ever = master.account_filters
    assert day.users == ("test",) and day.completed.until is None
    assert before - 86_400 <= (day.completed.since or 0) <= time.time() - 86_400
    assert (half.users, half.queues, half.projects, half.hosts) == (("test", "bob"), ("a", "b"), ("p",), ("h",))
    assert before - 43_200 <= (half.completed.since or 0) <= time.time() - 43_200
    assert span.users == () and (span.completed.until or 0) - (span.completed.since or 0) == 2 * 86_400 - 1
    assert since.completed.since == span.completed.since and since.completed.until is None
    assert ever == AccountFilter(users=("test",))


def running(job_id: int, **changes: object) -> JobView:
    usage = Usage(cpu_s=RUN_S, sampled_at=AT + 42 + RUN_S, gpus=(used(0, 80.0), used(1, 0.0)))
    return view(job_id, **{"state": "RUN", "result": None, "finished_at": None, "usage": usage, **changes})  # type: ignore[arg-type]


def test_jobs_that_run(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(7), running(8, spec=spec(queue="night")), view(9, used(0, 1.0), used(1, 1.0))]
    lines = told(call, "geff", "-r", "-q", "normal").splitlines()
    assert len(lines) == 2 and lines[1].endswith(" so far 1 of 2 GPUs was never used")
    (record,) = records(call, "geff", "7")
    assert record["IS_OVER"] is False and record["ENOUGH"] is None
    assert [each["CODE"] for each in record["VERDICTS"]] == ["efficiency.gpus_unused.one"]  # type: ignore[index,union-attr]
    assert told(call, "geff", "-r", "-u", "bob") == "No matching job found\n"


def test_jobs_that_did_not_run(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(7, state="PEND", allocation=None, dispatched_at=None, usage=None)]
    never = view(8, state="EXIT", allocation=None, dispatched_at=None, result=AttemptResult(started=False))
    master.accounts = [account(never)]
    assert " VERDICT it has not started\n" in told(call, "geff", "7")
    assert " VERDICT it ended without having run\n" in told(call, "geff", "8")
    missing = call("geff", "8", "99")
    assert missing.run() == 255 and missing.err == "Job <99> is not found\n" and "Job <8>" in missing.out


def test_gpus_that_a_queue_gives_are_not_refused(master: FakeMaster, call: NewCall) -> None:
    idle = view(7, used(0, 0.0), used(1, 0.0))
    master.accounts = [account(idle)]
    assert records(call, "geff", "7")[0]["ENOUGH"] == "-W 1:15"
    master.queue_views = [QueueView(name="normal", priority=1, gpu_req="num=1")]
    assert records(call, "geff", "7")[0]["ENOUGH"] == "-gpu num=2 -W 1:15"
    master.queue_views = [QueueView(name="normal", priority=1)]
    with_prices(master, GPU_UNREQUESTED="auto=1")
    assert records(call, "geff", "7")[0]["ENOUGH"] == "-gpu num=2 -W 1:15"


def test_much_is_laid_out_by_the_callers_own_process(master: FakeMaster, call: NewCall) -> None:
    master.accounts = [account(view(number, gpus=0)) for number in range(1, FEW + 2)]
    asking = call("geff", "-u", "all")
    taken: list[int] = []
    asking.take_over = lambda: taken.append(len(asking.out))  # type: ignore[method-assign]
    assert asking.run() == 0 and taken == [0] and asking.out.count("\n") == FEW + 2
    as_json = call("geff", "-u", "all", "-json")
    as_json.take_over = lambda: taken.append(len(as_json.out))  # type: ignore[method-assign]
    assert as_json.run() == 0 and taken == [0, 0]


def test_sums_week_by_week(master: FakeMaster, call: NewCall) -> None:
    with_prices(master, GPU_HOUR_PRICE="2.5 EUR", KWH_PRICE="0.3 EUR")
    master.gpu_sums = [
        GpuSums(0, "ann", 2, 7200.0, 3600.0, 900.0, 3.6e6, 1, 2),
        GpuSums(1, "bob", 1, 3600.0, 0.0, 0.0, 0.0, 0, 0),
    ]
    out = told(call, "geff", "-sum", "user", "-u", "all", "-weeks", "2", "-q", "normal").splitlines()
    (asked,) = master.sum_queries
    assert (asked.by, asked.jobs.users, asked.jobs.queues) == ("user", (), ("normal",))
    begin, middle, end = (datetime.fromtimestamp(each, ZoneInfo("UTC")) for each in asked.bounds)
    assert (begin.weekday(), begin.hour, middle - begin, end - middle) == (0, 0, *[timedelta(weeks=1)] * 2)
    assert middle.timestamp() <= time.time() < end.timestamp() + 3600
    assert out[0].split() == [
        *("WEEK", "USER", "JOBS", "GPU_HOURS", "KNOWN", "USED", "USED%", "WASTED", "ENERGY", "COST"),
    ]
    assert out[1].split() == [
        f"{begin:%Y-%m-%d}",
        "ann",
        "2",
        "2.00",
        "1.00",
        "0.25",
        "25",
        "0.75",
        "1.00kWh",
        "5.30",
        "EUR",
    ]
    assert out[2].split() == [f"{middle:%Y-%m-%d}", "bob", "1", "1.00", "0.00", "-", "-", "-", "-", "-"]
    assert out[3] == "Of 3 job(s) the use of GPUs is unknown of 2 and the energy of 1: not in the sums"
    first, second = records(call, "geff", "-sum", "user", "-weeks", "2")
    assert (first["USER"], first["GPU_TIME_WASTED"], first["GPU_ENERGY_CONSUMED"]) == ("ann", 2700.0, 3.6e6)
    assert (second["GPU_TIME_USED"], second["GPU_ENERGY_CONSUMED"], second["KNOWN_JOBS"]) == (0.0, None, 0)
    master.gpu_sums = []
    assert told(call, "geff", "-sum", "queue") == "No matching job found\n"
    assert len(master.sum_queries[-1].bounds) == 5


def test_weeks_begin_where_the_caller_is(master: FakeMaster, call: NewCall) -> None:
    """Also where a clock was set back or forward meanwhile: each begins on a Monday at midnight."""
    done = call("geff", "-sum", "user", "-weeks", "60", TZ="America/New_York")
    assert done.run() == 0
    zone = ZoneInfo("America/New_York")
    days = [datetime.fromtimestamp(each, zone) for each in master.sum_queries[0].bounds]
    assert {(day.weekday(), day.hour, day.minute) for day in days} == {(0, 0, 0)} and len(days) == 61


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-weeks", "3"), "-weeks is given together with -sum"),
        (("-sum", "host"), "-sum takes user, project or queue, not 'host'"),
        (("-sum", "user", "-weeks", "0"), "-weeks takes a number from 1 to 520, not '0'"),
        (("-sum", "user", "-weeks", "521"), "-weeks takes a number from 1 to 520, not '521'"),
        (("-sum", "user", "-weeks", "x"), "-weeks takes a number from 1 to 520, not 'x'"),
        (("-sum", "user", "-l"), "-sum and -l cannot be given together"),
        (("-sum", "user", "-since", "1d"), "-sum and -since cannot be given together"),
        (("-since", "1d", "-C", "1,2"), "-since and -C cannot be given together"),
        (("-r", "-since", "1d"), "-r is about jobs that have not ended: -since and -C are about those that have"),
        (("7", "-u", "ann"), "jobs are named, or chosen by options, not both"),
        (("7", "-sum", "user"), "jobs are named, or chosen by options, not both"),
    ],
)
def test_what_it_refuses(master: FakeMaster, call: NewCall, words: tuple[str, ...], why: str) -> None:
    refused = call("geff", *words)
    assert (refused.run(), refused.out, refused.err) == (255, "", f"geff: {why}\n")
    assert master.account_filters == [] and master.sum_queries == []


def test_a_time_that_is_none_is_refused(master: FakeMaster, call: NewCall) -> None:
    refused = call("geff", "-since", "7x")
    assert refused.run() == 255 and "'7x' is not of the form" in refused.err
    refused = call("geff", "abc")
    assert (refused.run(), refused.err) == (255, "abc: Illegal job ID.\n")
