"""/metrics: what the page says of jobs, hosts and GPUs, that it parses, and that it stays bounded."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Iterator

import msgspec
import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as read_older
from test_master_board import CONFIG, NOW, Desk, spec

from gsched import __version__
from gsched.base.errors import Unavailable
from gsched.core.command import AttemptEnded, AttemptStarted, HostReported, StopJobs
from gsched.master.garbage_collection import YOUNG
from gsched.master.metrics.collection import Collection
from gsched.master.metrics.families import Moment, families
from gsched.master.metrics.job_counts import JobCounts
from gsched.master.metrics.measurements import Histogram, Measurements
from gsched.master.metrics.pace import LOOK_EVERY, REST, SLICE_S, Pace
from gsched.master.metrics.page import FRESH_S, Form, Page, render
from gsched.model.event import JobFinished, JobStarted
from gsched.model.gpus.gpu_closure import GpuClosure
from gsched.model.gpus.gpu_idle import GpuIdleness
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, GpuXid, LoadReport
from gsched.model.jobs.job import AttemptResult
from gsched.model.views.view import GpuView, HostView, JobView

EVIL = 'a"b\\c\nd{e="f"}'
GPUS = (
    Gpu(
        uuid="GPU-0",
        index=0,
        model="K80",
        mode=ComputeMode.DEFAULT,
        memory_mib=1024,
        used_mib=256,
        utilization_percent=50,
        temperature_c=40,
        xids=(GpuXid(number=13), GpuXid(number=79)),
    ),
    Gpu(uuid="GPU-1", index=1, model="K80", mode=ComputeMode.DEFAULT, problem="broken"),
)


class Site(Desk):
    """A desk whose first host has two GPUs; `read` is the page as Prometheus understands it."""

    def __init__(self) -> None:
        super().__init__()
        load = LoadReport(indices={"mem": 1000.0}, ncpus=4)
        self.engine.handle(HostReported("a", 1, load, GpuReport(gpus=GPUS, driver="570.1")), NOW)
        self.board.publish(self.engine)
        self.measurements = Measurements()
        self.collection = Collection(self.board, self.measurements, lambda: 2, lambda: "")

    def text(self, form: Form = Form.OPENMETRICS) -> bytes:
        return render(self.collection.families(Pace()), form, Pace())

    def read(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        found = {}
        for family in text_string_to_metric_families(self.text().decode()):
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in found, f"twice: {key}"
                found[key] = sample.value
        return found


def value(read: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float | None:
    return read.get((name, frozenset(labels.items())))


def names(read: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str) -> list[dict[str, str]]:
    return [dict(labels) for each, labels in read if each == name]


def test_jobs_are_counted_by_state_queue_and_reason() -> None:
    site = Site()
    running, waiting, held = site.submit(spec(slots=4), spec(slots=8), spec(slots=1, queue="night"))
    site.submit(spec(indices="1-5", slots=8))
    site.engine.handle(StopJobs("ann", False, (held,)), NOW)
    site.go_on()
    read = site.read()
    assert value(read, "gsched_jobs", queue="normal", state="RUN") == 1
    assert value(read, "gsched_jobs", queue="normal", state="PEND") == 6
    assert value(read, "gsched_jobs", queue="night", state="PSUSP") == 1
    assert sum(number for (name, _), number in read.items() if name == "gsched_jobs_pending") == 7
    assert value(read, "gsched_jobs_pending", queue="night", reason="pending.suspended") == 1
    assert running != waiting


def test_of_running_jobs_alone_there_is_a_series_each() -> None:
    site = Site()
    (job,) = site.submit(spec(slots=1, project=EVIL))
    site.submit(*[spec(begin_at=NOW + 1e6) for _ in range(50)])
    site.go_on()
    read = site.read()
    (info,) = names(read, "gsched_job_info")
    assert info == {"job_id": str(job), "user": "ann", "queue": "normal", "project": EVIL}
    before = len(read)
    ended = site.board.job(job)
    assert ended is not None and ended.allocation is not None
    site.engine.handle(AttemptStarted(job, 1, ended.allocation.hosts[0].host, 77, NOW), NOW)
    site.engine.handle(
        AttemptEnded(job, 1, ended.allocation.hosts[0].host, AttemptResult(started=True, exit_code=0)), NOW
    )
    site.go_on()
    after = site.read()
    assert names(after, "gsched_job_info") == []
    site.submit(*[spec(begin_at=NOW + 1e6) for _ in range(50)])
    site.go_on()
    assert len(site.read()) == len(after) < before, "pending jobs add nothing, nor do those of before"


def test_gpus_say_what_is_known_and_leave_out_what_is_not() -> None:
    read = Site().read()
    gpu = {"host": "a", "gpu": "0"}
    assert value(read, "gsched_gpu_memory_total_bytes", **gpu) == 1 << 30
    assert value(read, "gsched_gpu_memory_used_bytes", **gpu) == 1 << 28
    assert value(read, "gsched_gpu_utilization_ratio", **gpu) == 0.5
    assert value(read, "gsched_gpu_temperature_celsius", **gpu) == 40
    assert value(read, "gsched_gpu_last_xid", **gpu) == 79
    assert names(read, "gsched_gpu_power_watts") == [], "unknown is not 0"
    assert value(read, "gsched_gpu_info", **gpu, uuid="GPU-0", model="K80", driver="570.1") == 1
    assert value(read, "gsched_gpu_utilization_ratio", host="a", gpu="1") is None
    assert [value(read, "gsched_gpus", host="a", state=each) for each in ("free", "held", "unusable")] == [1, 0, 1]
    assert [value(read, "gsched_slots", host="a", state=each) for each in ("run", "free")] == [0, 4]


def test_a_closed_gpu_is_told_apart_from_a_free_one() -> None:
    gpus = [Gpu(uuid=f"GPU-{index}", index=index) for index in range(3)]
    closures = [GpuClosure(host="a", uuid=each.uuid, index=each.index, by="adm", at=NOW) for each in gpus]
    views = (
        GpuView(gpu=gpus[0], closure=closures[0]),
        GpuView(gpu=gpus[1], closure=closures[1], holders=("7.1",)),
        GpuView(gpu=gpus[2]),
    )
    hosts = [HostView(name="a", status="ok", gpus=views)]
    moment = Moment("1", "c", NOW, JobCounts(), hosts, frozenset(), Measurements(), 1, 1, False, 0)
    text = render(families(moment, Pace()), Form.OPENMETRICS, Pace()).decode()
    found = dict(re.findall(r'gsched_gpus\{host="a",state="(\w+)"\} (\S+)', text))
    assert found == {"free": "1.0", "held": "1.0", "closed": "1.0", "unusable": "0.0"}, "its job goes on"


def test_who_holds_a_gpu_is_joined_by_host_and_index() -> None:
    site = Site()
    (job,) = site.submit(spec(slots=1, project="p", gpu_req="num=1:mode=shared"))
    site.go_on()
    view = site.board.job(job)
    assert view is not None and view.allocation is not None, site.board.reasons_of(view)  # type: ignore[arg-type]
    (held,) = view.allocation.hosts[0].gpus
    wanted = {"host": "a", "gpu": str(held.index), "job_id": str(job), "user": "ann", "queue": "normal", "project": "p"}
    assert names(site.read(), "gsched_gpu_job_info") == [wanted]
    assert value(site.read(), "gsched_gpus", host="a", state="held") == 1


def test_gpus_that_are_idle_have_a_series_each() -> None:
    def gpu(index: int, idle_s: float, kind: str = "held", known: bool = True) -> GpuIdleness:
        return GpuIdleness(host="a", index=index, uuid="u", kind=kind, idle_s=idle_s, is_known=known)

    idle = (gpu(0, 50.0), gpu(1, 90.0, "faked"), gpu(1, 70.0, "held"), gpu(2, 0.0, ""), gpu(3, 9.0, known=False))
    job = JobView(job_id=7, spec=spec(), state="RUN", submitted_at=NOW, idle=idle)
    moment = Moment("1", "c", NOW, JobCounts(running=[job]), [], frozenset(), Measurements(), 1, 1, False, 0)
    text = render(families(moment, Pace()), Form.OPENMETRICS, Pace()).decode()
    found = re.findall(r"gsched_gpu_job_idle_seconds\{(.*)\} (\S+)", text)
    assert sorted(found) == [
        ('gpu="0",host="a",job_id="7",kind="held"', "50.0"),
        ('gpu="1",host="a",job_id="7",kind="held"', "70.0"),
    ]


def test_times_starts_and_calls_are_there() -> None:
    site = Site()
    (job,) = site.submit(spec(slots=1))
    site.go_on()
    site.measurements.cycles.add(0.02)
    site.measurements.note_call("Scheduler.Submit", "OK", 0.5)
    events = [
        JobStarted(at=NOW + 7, job_id=job, attempt=1, pid=3),
        JobStarted(at=NOW + 700, job_id=job, attempt=2, pid=3),
        JobFinished(at=NOW + 9, job_id=job, attempt=1, result=AttemptResult(started=True, exit_code=0)),
    ]

    def job_of(number: int) -> JobView | None:
        found = site.board.job(number)
        return found and msgspec.structs.replace(found, state="DONE")

    site.measurements.note_events(events, job_of)
    read = site.read()
    assert value(read, "gsched_cycle_duration_seconds_bucket", le="0.01") == 0
    assert value(read, "gsched_cycle_duration_seconds_bucket", le="0.025") == 1
    assert value(read, "gsched_start_latency_seconds_sum", queue="normal") == 7
    assert value(read, "gsched_start_latency_seconds_count", queue="normal") == 1, "a second start is none of it"
    assert value(read, "gsched_jobs_finished_total", queue="normal", state="DONE") == 1
    assert value(read, "gsched_rpcs_total", method="Scheduler.Submit", code="OK") == 1
    assert value(read, "gsched_rpc_duration_seconds_total", method="Scheduler.Submit") == 0.5
    assert value(read, "gsched_agents_connected") == 2
    assert value(read, "gsched_build_info", cluster=CONFIG.cluster, version=__version__) == 1


def test_the_older_format_says_the_same() -> None:
    site = Site()
    site.submit(spec(slots=1, project=EVIL))
    site.go_on()
    older = list(read_older(site.text(Form.TEXT).decode()))
    assert EVIL in {sample.labels.get("project") for family in older for sample in family.samples}
    assert {"gsched_jobs", "gsched_job_info", "gsched_cycle_duration_seconds"} <= {family.name for family in older}


def test_a_histogram_counts_what_is_at_most_a_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for each in (0.5, 1.0, 1.5, 9.0):
        histogram.add(each)
    assert histogram.cumulative() == [2, 3, 4]
    assert histogram.sum == 12.0


def test_long_work_rests_nineteen_parts_of_twenty() -> None:
    used, slept = 0.0, []

    def work() -> float:
        return used

    pace = Pace(work, slept.append)
    for _ in pace.through(range(100 * LOOK_EVERY)):
        used += SLICE_S / LOOK_EVERY
    assert len(slept) > 40
    assert sum(slept) == pytest.approx(used * REST, rel=0.03)


def test_little_work_is_done_without_a_rest() -> None:
    slept: list[float] = []
    assert list(Pace(lambda: 0.0, slept.append).through(range(1000))) == list(range(1000))
    assert not slept


class Source:
    """Families that are counted, and that may be held up."""

    def __init__(self) -> None:
        self.made = 0
        self.go = threading.Event()
        self.go.set()
        self.error: Exception | None = None

    def families(self, _: Pace) -> Iterator[Metric]:
        assert self.go.wait(120)
        if self.error is not None:
            raise self.error
        self.made += 1
        yield GaugeMetricFamily("made", "Pages.", self.made)


def test_who_asks_within_a_second_gets_the_same_page() -> None:
    source, now = Source(), [0.0]
    page = Page(source.families, clock=lambda: now[0])
    first = page.text(Form.OPENMETRICS)
    assert page.text(Form.OPENMETRICS) is first
    assert source.made == 1
    now[0] += FRESH_S
    assert page.text(Form.OPENMETRICS) != first
    assert source.made == 2


def test_a_page_that_takes_long_is_not_waited_for_where_there_is_an_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.master.metrics.page.WAIT_S", 0.01)
    source, now = Source(), [0.0]
    page = Page(source.families, clock=lambda: now[0])
    first = page.text(Form.OPENMETRICS)
    now[0] += FRESH_S
    source.go.clear()
    assert page.text(Form.OPENMETRICS) is first
    source.go.set()


def test_a_page_that_cannot_be_made_is_said_and_the_next_one_is_made() -> None:
    source = Source()
    source.error = ValueError("odd")
    page = Page(source.families)
    with pytest.raises(Unavailable, match="odd"):
        page.text(Form.OPENMETRICS)
    source.error = None
    assert b"made 1" in page.text(Form.OPENMETRICS)


def test_a_large_page_makes_nobody_collect_garbage() -> None:
    """Whichever thread allocates next would: that of the engine, in the middle of its work."""
    gpu = Gpu(uuid="GPU", index=0, mode=ComputeMode.DEFAULT, memory_mib=1, used_mib=1, temperature_c=1, power_w=1.0)
    views = tuple(GpuView(gpu=msgspec.structs.replace(gpu, index=index)) for index in range(8))
    hosts = [HostView(name=f"h{number}", status="ok", gpus=views) for number in range(1500)]
    site, counts = Site(), JobCounts()
    moment = Moment("1", "c", NOW, counts, hosts, frozenset(), site.measurements, 1, 1, False, 0)
    collected: list[dict[str, int]] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            collected.append(info)

    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(YOUNG, 5, 50)
    gc.callbacks.append(note)
    try:
        text = render(
            families(moment, Pace(sleep=lambda seconds: None)), Form.OPENMETRICS, Pace(sleep=lambda seconds: None)
        )
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert text.count(b"\n") > 1500 * 8 * 4
    assert not collected
