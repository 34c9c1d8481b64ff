"""The families of /metrics: names, what they mean, and their series, from views and measurements.

A series is of a host, a GPU, a queue or a job that runs now: whoever adds one keeps it so. Names and labels are what
dashboards and alerts of sites are built on; docs/metrics.md lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    Sample,
)

from gsched.base.ids import show_job
from gsched.master.metrics.job_counts import JobCounts
from gsched.master.metrics.measurements import Histogram, Measurements
from gsched.master.metrics.pace import Pace
from gsched.model.hosts.host import Gpu
from gsched.model.views.view import GpuView, HostView, JobView

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Moment:
    """What a page is made of."""

    version: str
    cluster: str
    begun_at: float
    counts: JobCounts
    hosts: list[HostView]
    queues: frozenset[str]
    measurements: Measurements
    agents: int
    """Hosts that run jobs."""
    connected: int
    store_is_refusing: bool
    quarantined: int


def families(moment: Moment, pace: Pace) -> Iterator[Metric]:
    """All of them, always: one without a series has its name and help all the same."""
    yield from _cluster(moment)
    yield from _jobs(moment)
    yield from _hosts(moment.hosts)
    yield from _gpus(moment.hosts, pace)
    yield from _running(moment.counts.running, pace)
    yield from _scheduler(moment.measurements, moment.queues)


class _Samples(list[Sample]):
    """Series that are made one by one as they are written down, once.

    All of a large page at a time would be hundreds of thousands of objects for Python's collector, which looks at them
    in whichever thread comes by next: that of the engine, in the middle of its work.
    """

    def __init__(self, name: str, rows: Iterable[tuple[Mapping[str, str], float]]) -> None:
        super().__init__()
        self._name = name
        self._rows = rows

    def __iter__(self) -> Iterator[Sample]:
        return (Sample(self._name, dict(labels), value) for labels, value in self._rows)


def _with(family: Metric, name: str, rows: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    family.samples = _Samples(name, rows)
    return family


def _gauge(name: str, text: str, rows: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    return _with(GaugeMetricFamily(name, text), name, rows)


def _info(name: str, text: str, rows: Iterable[Mapping[str, str]]) -> Metric:
    """Its series are called `name`_info and are 1."""
    return _with(InfoMetricFamily(name, text), f"{name}_info", ((labels, 1.0) for labels in rows))


def _counter(name: str, text: str, rows: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    """Its series are called `name`_total."""
    return _with(CounterMetricFamily(name, text), f"{name}_total", rows)


def _histogram(name: str, text: str, rows: Iterable[tuple[Mapping[str, str], Histogram]]) -> Metric:
    family = HistogramMetricFamily(name, text)
    for labels, histogram in rows:
        counts = histogram.cumulative()
        for bound, count in zip((*map(str, histogram.bounds), "+Inf"), counts, strict=True):
            family.add_sample(f"{name}_bucket", {**labels, "le": bound}, count)
        family.add_sample(f"{name}_count", dict(labels), counts[-1])
        family.add_sample(f"{name}_sum", dict(labels), histogram.sum)
    return family


def _cluster(moment: Moment) -> Iterator[Metric]:
    labels = {"version": moment.version, "cluster": moment.cluster}
    yield _info("gsched_build", "Version of the master, and its cluster.", [labels])
    yield _gauge("gsched_page_timestamp_seconds", "When this page was begun, in UTC seconds.", [({}, moment.begun_at)])
    yield _gauge("gsched_agents", "Hosts that run jobs, each with an agent.", [({}, moment.agents)])
    yield _gauge("gsched_agents_connected", "Agents with a session to the master.", [({}, moment.connected)])
    yield _gauge(
        "gsched_store_refusing",
        "1 while nothing can be stored (a full disk) and new commands are refused.",
        [({}, float(moment.store_is_refusing))],
    )
    yield _gauge(
        "gsched_jobs_quarantined", "Jobs set aside, a record of which cannot be read.", [({}, moment.quarantined)]
    )


def _jobs(moment: Moment) -> Iterator[Metric]:
    counts, measured = moment.counts, moment.measurements
    yield _gauge(
        "gsched_jobs",
        "Jobs that have not ended, by queue and state.",
        [({"queue": queue, "state": state}, number) for (queue, state), number in sorted(counts.states.items())],
    )
    yield _gauge(
        "gsched_jobs_pending",
        "Pending jobs by queue and code of their main reason.",
        [({"queue": queue, "reason": reason}, number) for (queue, reason), number in sorted(counts.reasons.items())],
    )
    yield _counter(
        "gsched_jobs_finished",
        "Jobs that have ended since the master started.",
        [
            ({"queue": queue, "state": state}, number)
            for (queue, state), number in sorted(measured.ends.items())
            if queue in moment.queues
        ],
    )


def _hosts(hosts: list[HostView]) -> Iterator[Metric]:
    yield _gauge(
        "gsched_host_status",
        "1 for the status that the host has now, in the words of ghosts.",
        (({"host": host.name, "status": host.status}, 1.0) for host in hosts),
    )
    yield _gauge("gsched_slots", "Job slots by host and state.", _slots(hosts))
    yield _gauge("gsched_gpus", "GPUs by host and state.", _gpu_states(hosts))


def _slots(hosts: list[HostView]) -> Iterator[tuple[Mapping[str, str], float]]:
    """Free ones only where there is a limit to them."""
    for host in hosts:
        states = {"run": host.run, "ssusp": host.ssusp, "ususp": host.ususp, "free": host.slots_free}
        for state, number in states.items():
            if number is not None:
                yield {"host": host.name, "state": state}, number


GPU_STATES = ("free", "held", "closed", "unusable")


def _gpu_states(hosts: list[HostView]) -> Iterator[tuple[Mapping[str, str], float]]:
    for host in hosts:
        if host.gpus:
            found = Counter(_state_of(view) for view in host.gpus)
            for state in GPU_STATES:
                yield {"host": host.name, "state": state}, found[state]


def _state_of(view: GpuView) -> str:
    if view.gpu.problem:
        return "unusable"
    if view.holders:
        return "held"
    return "free" if view.closure is None else "closed"


def _bytes(mib: int | None) -> float | None:
    return None if mib is None else float(mib * MIB)


def _ratio(percent: int | None) -> float | None:
    return None if percent is None else percent / 100


_GPU_VALUES: dict[str, Callable[[Gpu], float | None]] = {
    "gsched_gpu_memory_total_bytes": lambda gpu: _bytes(gpu.memory_mib),
    "gsched_gpu_memory_used_bytes": lambda gpu: _bytes(gpu.used_mib),
    "gsched_gpu_utilization_ratio": lambda gpu: _ratio(gpu.utilization_percent),
    "gsched_gpu_memory_utilization_ratio": lambda gpu: _ratio(gpu.memory_utilization_percent),
    "gsched_gpu_temperature_celsius": lambda gpu: gpu.temperature_c,
    "gsched_gpu_power_watts": lambda gpu: gpu.power_w,
    "gsched_gpu_processes": lambda gpu: gpu.process_count,
    "gsched_gpu_ecc_errors": lambda gpu: gpu.ecc_errors,
    "gsched_gpu_last_xid": lambda gpu: gpu.xids[-1].number if gpu.xids else None,
}
"""Metric -> its value; None: unknown, and there is no series."""


_GPU_TEXTS = {
    "gsched_gpu_memory_total_bytes": "Memory of the GPU.",
    "gsched_gpu_memory_used_bytes": "Memory of the GPU in use, whoever uses it.",
    "gsched_gpu_utilization_ratio": "Part of the time in which a kernel ran on the GPU, 0 to 1.",
    "gsched_gpu_memory_utilization_ratio": "Part of the time in which memory was read or written, 0 to 1.",
    "gsched_gpu_temperature_celsius": "Temperature of the GPU.",
    "gsched_gpu_power_watts": "Power that the GPU draws.",
    "gsched_gpu_processes": "Processes with a context on the GPU.",
    "gsched_gpu_ecc_errors": "Memory errors that could not be corrected, since the driver was loaded.",
    "gsched_gpu_last_xid": "Number of the last error (XID) that the driver has told of the GPU.",
}


def _gpus(hosts: list[HostView], pace: Pace) -> Iterator[Metric]:
    def rows(value_of: Callable[[Gpu], float | None]) -> Iterator[tuple[Mapping[str, str], float]]:
        for host in hosts:
            for view in pace.through(host.gpus):
                value = value_of(view.gpu)
                if value is not None:
                    yield {"host": host.name, "gpu": str(view.gpu.index)}, value

    about = (
        {
            "host": host.name,
            "gpu": str(view.gpu.index),
            "uuid": view.gpu.uuid,
            "model": view.gpu.model,
            "driver": host.gpu_driver,
        }
        for host in hosts
        for view in pace.through(host.gpus)
    )
    yield _info("gsched_gpu", "UUID, model and driver of each GPU.", about)
    for name, text in _GPU_TEXTS.items():
        yield _gauge(name, text, rows(_GPU_VALUES[name]))


def _running(jobs: list[JobView], pace: Pace) -> Iterator[Metric]:
    """The series that tie everything else to jobs, users, queues and projects; they end with the job."""
    yield _info("gsched_job", "Jobs that have started and not ended.", map(_who, pace.through(jobs)))
    yield _info(
        "gsched_gpu_job",
        "Which job holds which GPU; join by host and gpu.",
        (
            {"host": part.host, "gpu": str(index), **_who(job)}
            for job in pace.through(jobs)
            if job.allocation is not None
            for part in job.allocation.hosts
            for index in sorted({held.index for held in part.gpus})
        ),
    )
    yield _gauge(
        "gsched_gpu_job_idle_seconds",
        "For how long a GPU of a running job has been idle; one that works, or of which that is unknown, is missing.",
        (row for job in pace.through(jobs) for row in _idle(job)),
    )


def _idle(job: JobView) -> Iterator[tuple[Mapping[str, str], float]]:
    """Of several parts of one GPU that which has been idle for the shortest time stands for all."""
    told = [gpu for gpu in job.idle if gpu.kind and gpu.is_known]
    for (host, index), gpu in {(gpu.host, gpu.index): gpu for gpu in sorted(told, key=lambda gpu: -gpu.idle_s)}.items():
        yield {"host": host, "gpu": str(index), "job_id": show_job(job.job_id), "kind": gpu.kind}, gpu.idle_s


def _who(job: JobView) -> Mapping[str, str]:
    spec = job.spec
    return {"job_id": show_job(job.job_id), "user": spec.user, "queue": spec.queue, "project": spec.project}


def _scheduler(measured: Measurements, queues: frozenset[str]) -> Iterator[Metric]:
    yield _histogram("gsched_cycle_duration_seconds", "How long scheduling cycles took.", [({}, measured.cycles)])
    yield _histogram(
        "gsched_commit_duration_seconds",
        "How long it took to store a batch of events.",
        [({}, measured.commits)],
    )
    starts = [({"queue": queue}, each) for queue, each in sorted(measured.starts.items()) if queue in queues]
    yield _histogram("gsched_start_latency_seconds", "From a job's submission to its first start, by queue.", starts)
    calls = [({"method": method, "code": code}, number) for (method, code), number in sorted(measured.calls.items())]
    yield _counter("gsched_rpcs", "Calls that the master has answered, by method and status.", calls)
    took = [({"method": method}, took_s) for method, took_s in sorted(measured.calls_s.items())]
    yield _counter("gsched_rpc_duration_seconds", "Time that these calls took, streams to their ends.", took)
