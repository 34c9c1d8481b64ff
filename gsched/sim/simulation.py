"""A simulation from its inputs to its tables: the same engine and scheduler as a master's, in virtual time.

Equal inputs give equal tables: nothing here reads a clock or draws by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gsched.base.errors import BadRequest, GschedError, ResourceExhausted
from gsched.base.ids import show_job
from gsched.model.config import ClusterConfig
from gsched.sim.cluster_file import SimulatedHost
from gsched.sim.cluster_use import ClusterUse, cluster_use
from gsched.sim.history.deviation import deviation
from gsched.sim.history.recorded_history import RecordedJob
from gsched.sim.job_table import Table, evenness, group_table, job_table, wait_figures
from gsched.sim.trace import TraceJob
from gsched.sim.workload import Workload
from gsched.sim.world import START, Fate, World

AUDIT_EVERY = 10_000
"""Decisions from one audit of the engine to the next: an audit costs much more than a decision."""
FRAMES = 200
"""How often progress is told, at most."""
MOST_KINDS = 500
"""Kinds of jobs that are tried before anything is played."""
SHOWN = 3
"""Refused jobs of which a line each is said."""
Progress = Callable[[int, int, float], None]
"""(jobs that have ended, all jobs, seconds of virtual time)."""


@dataclass(slots=True)
class SimulationTables:
    """What came of a simulation. A table is a dict of columns."""

    summary: dict[str, Any]
    jobs: Table
    users: Table
    queues: Table
    series: Table
    """GPUs and slots held and jobs waiting over time."""
    notes: list[str] = field(default_factory=list)
    """What was not taken as the workload says it, and why."""


def run_simulation(
    hosts: Sequence[SimulatedHost],
    workload: Workload,
    config: ClusterConfig,
    *,
    skip_refused: bool = False,
    progress: Progress | None = None,
) -> SimulationTables:
    """Play the workload to its end. Raises BadRequest with file and line for a job that the cluster refuses, unless
    these are to be skipped.
    """
    jobs, notes = in_known_queues(workload, config)
    start = START if workload.begins_at is None else workload.begins_at
    refusals = _Refusals(workload, skip_refused)
    refusals.look_ahead(World(config, machines=hosts, start=start), jobs)
    world = World(config, machines=hosts, audit_every=AUDIT_EVERY, start=start, unread_reasons=True)
    world.refused = refusals.note
    world.expect(jobs)
    _play(world, len(jobs), progress)
    return tables_of(hosts, world, _of_history(hosts, workload) + notes + refusals.notes(), refusals.count)


class _Refusals:
    """Jobs that the cluster does not accept."""

    def __init__(self, workload: Workload, skip: bool) -> None:
        self._workload = workload
        self._skip = skip
        self._said: list[str] = []
        self.count = 0

    def look_ahead(self, world: World, jobs: Sequence[TraceJob]) -> None:
        """Raise for a job that no host could hold before anything is played, as far as kinds of jobs are few."""
        seen: set[tuple[object, ...]] = set()
        for job in jobs if not self._skip else ():
            kind = (job.queue, job.slots, job.gpus, job.gpu_req, job.res_req, job.spread, job.application, job.mem_mib)
            if kind in seen or len(seen) >= MOST_KINDS:
                continue
            seen.add(kind)
            try:
                world.check(job)
            except GschedError as error:
                self.note(job, error)

    def note(self, job: TraceJob, error: GschedError) -> None:
        """The job was refused. Raises BadRequest unless it may be left out, as for a limit on waiting jobs it may."""
        text = f"{_where(self._workload, job)}: {error.text}"
        if not self._skip and not isinstance(error, ResourceExhausted):
            raise BadRequest(text) from None
        self.count += 1
        if len(self._said) < SHOWN:
            self._said.append(f"{text}; left out")

    def notes(self) -> list[str]:
        """A line for each of the first, and how many more there are."""
        more = self.count - len(self._said)
        return self._said + ([f"{self._workload.path}: {more} more jobs are left out"] if more else [])


def _play(world: World, count: int, progress: Progress | None) -> None:
    shown = -1
    for now in world.steps():
        if progress is not None and world.ended * FRAMES // max(1, count) != shown:
            shown = world.ended * FRAMES // max(1, count)
            progress(world.ended, count, now - world.start)


def _where(workload: Workload, job: TraceJob) -> str:
    if isinstance(job, RecordedJob):
        return f"{workload.path}: job {show_job(job.line)}"
    return f"{workload.path}:{job.line}" if job.line else workload.path


def _of_history(hosts: Sequence[SimulatedHost], workload: Workload) -> list[str]:
    """What is to be said of a record that is played: it is no replay, and of its hosts that there are not."""
    places = [job.place for job in workload.jobs if isinstance(job, RecordedJob)]
    if not places:
        return []
    notes = ["played in a simulation; without a cluster each decision of the record is made again instead"]
    used, there = {part.host for place in places for part in place.hosts}, {host.name for host in hosts}
    if missing := sorted(used - there):
        what = (
            f"{len(missing)} hosts of the record, {missing[0]} first"
            if len(missing) > 1
            else f"{missing[0]} of the record"
        )
        are = "is" if len(missing) == 1 else "are"
        rest = "no place is the same" if used.isdisjoint(there) else "what ran there has other places"
        notes.append(f"not in the cluster {are} {what}: {rest}")
    return [f"{workload.path}: {note}" for note in notes]


def default_queue(config: ClusterConfig) -> str:
    """The queue of jobs that name none, or a queue that is not there."""
    default = config.params.default_queues[0] if config.params.default_queues else ""
    return default if default in config.queues else next(iter(config.queues))


def in_known_queues(workload: Workload, config: ClusterConfig) -> tuple[list[TraceJob], list[str]]:
    """The jobs, those of queues that there are not in the default queue; and what is to be said of it."""
    default = default_queue(config)
    moved: dict[str, int] = {}
    jobs: list[TraceJob] = []
    for job in workload.jobs:
        if job.queue in config.queues:
            jobs.append(job)
        else:
            moved[job.queue] = moved.get(job.queue, 0) + 1
            jobs.append(replace(job, queue=default))
    notes = [f"{workload.path}: {count} entries are left out: {why}" for why, count in workload.left_out.items()]
    for name, count in moved.items():
        notes.append(f"{workload.path}: there is no queue {name!r}: its {count} jobs go to {default}")
    return jobs, notes


def tables_of(hosts: Sequence[SimulatedHost], world: World, notes: list[str], refused: int = 0) -> SimulationTables:
    """The tables of a simulation that is over."""
    fates = world.fates
    first = min((fate.arrived_at for fate in fates.values()), default=world.start)
    last = max((at for fate in fates.values() for at in fate.ends), default=first)
    use = cluster_use(hosts, fates, first, last)
    jobs = job_table(fates, world.start)
    users = group_table(jobs, "user")
    series: Table = {
        name: [row[place] for row in use.series]
        for place, name in enumerate(("time_s", "gpus_held", "slots_held", "jobs_waiting"))
    }
    return SimulationTables(
        summary=_summary(hosts, fates, jobs, users, use, refused),
        jobs=jobs,
        users=users,
        queues=group_table(jobs, "queue"),
        series=series,
        notes=notes,
    )


def _summary(
    hosts: Sequence[SimulatedHost],
    fates: dict[int, Fate],
    jobs: Table,
    users: Table,
    use: ClusterUse,
    refused: int,
) -> dict[str, Any]:
    gpus, slots = sum(host.gpus for host in hosts), sum(host.slots for host in hosts)
    waits = wait_figures([wait for wait in jobs["wait_s"] if wait is not None])
    slow = [value for value in jobs["slowdown"] if value is not None]
    means = [value for value in users["slowdown_mean"] if value is not None]
    return {
        "hosts": len(hosts),
        "gpus": gpus,
        "slots": slots,
        "jobs": len(fates),
        "jobs_refused": refused,
        "jobs_ended": sum(fate.ended_at is not None for fate in fates.values()),
        "jobs_never_started": sum(not fate.starts for fate in fates.values()),
        "makespan_s": use.span_s,
        "gpu_use": _share(use.gpu_s, gpus * use.span_s),
        "slot_use": _share(use.slot_s, slots * use.span_s),
        **{f"wait_{name}_s": value for name, value in waits.items()},
        "slowdown_mean": math.fsum(slow) / len(slow) if slow else None,
        "fragmentation": _share(use.fragment_s, use.free_gpu_s),
        "fairness": evenness(means),
        "energy_kwh": None if use.energy_j is None else use.energy_j / 3_600_000,
        **deviation(fates.values()),
    }


def _share(part: float, whole: float) -> float | None:
    """None where there is nothing to have a share of."""
    return part / whole if whole > 0 else None
