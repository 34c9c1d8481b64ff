"""A recorded history as a workload: what it says of jobs, and how far a simulation is from what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gsched.base.errors import BadRequest, NotFound
from gsched.model.event import AnyEvent, JobDispatched, JobSubmitted
from gsched.sim.cluster_file import SimulatedHost, hosts_of_words
from gsched.sim.history.recorded_history import read_history
from gsched.sim.sim_config import simulation_config
from gsched.sim.simulation import run_simulation
from gsched.sim.trace import Recipe, TraceJob, random_trace
from gsched.sim.world import World
from gsched.store.eventlog import EventLog

DAY, NIGHTS = 1, 200


def recorded(
    folder: Path, hosts: Sequence[SimulatedHost], jobs: Sequence[TraceJob], monkeypatch: pytest.MonkeyPatch
) -> str:
    """A store with all events of an engine that these jobs came to."""
    events: list[AnyEvent] = []
    take = World._take

    def taken(self: World, decision: object) -> object:
        events.extend(decision.events)  # type: ignore[attr-defined]
        return take(self, decision)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(World, "_take", taken)
        World(simulation_config(None, hosts), machines=hosts, start=1_800_000_000.0).run(jobs)
    log = EventLog(folder / "gsched.db")
    log.append(events)
    log.close()
    return str(folder)


def asked(recipe: Recipe, seed: int) -> list[TraceJob]:
    made = random_trace(seed, recipe)
    names = [name for name in TraceJob.__slots__ if name != "gpu_req"]
    return [
        TraceJob(**{name: getattr(job, name) for name in names}, gpu_req=f"num={job.gpus}" if job.gpus else "")
        for job in made
    ]


@pytest.mark.parametrize(
    "seed", [*range(DAY), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(DAY, NIGHTS))]
)
def test_same_engine_on_its_own_history_decides_the_same(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = hosts_of_words("2x4:8", "h")
    recipe = Recipe(jobs=60, most_gpus=3, most_mem_mib=4000, queues=("normal", "short", "night"), longest_s=600)
    path = recorded(tmp_path, hosts, asked(recipe, seed), monkeypatch)
    found = run_simulation(hosts, read_history(path), simulation_config(None, hosts))
    assert found.summary["recorded_jobs"] == 60
    assert (found.summary["same_place"], found.summary["same_start"]) == (1.0, 1.0)
    assert found.summary["start_off_most_s"] < 0.001


def test_another_cluster_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = hosts_of_words("1x1:1", "h")
    jobs = [TraceJob(arrives_s=0, runs_s=100, gpus=1, gpu_req="num=1") for _ in range(2)]
    path = recorded(tmp_path, hosts, jobs, monkeypatch)
    larger = hosts_of_words("2x1:1", "h")
    found = run_simulation(larger, read_history(path), simulation_config(None, larger))
    assert (found.summary["same_place"], found.summary["same_start"]) == (0.5, 0.5)
    assert found.summary["start_off_most_s"] == 100.0
    told = f"{path}: played in a simulation; without a cluster each decision of the record is made again instead"
    assert found.notes == [told]


def test_hosts_of_the_record_that_the_cluster_has_not_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [TraceJob(arrives_s=0, runs_s=100, gpus=1, gpu_req="num=1") for _ in range(2)]
    path = recorded(tmp_path, hosts_of_words("2x1:1", "h"), jobs, monkeypatch)
    other = [replace(hosts_of_words("1x8:8", "n")[0], name="n1")]
    found = run_simulation(other, read_history(path), simulation_config(None, other))
    assert found.notes[1:] == [
        f"{path}: not in the cluster are 2 hosts of the record, h001 first: no place is the same"
    ]


def test_what_has_not_ended_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = hosts_of_words("1x0:1", "h")
    path = recorded(tmp_path, hosts, [TraceJob(arrives_s=0, runs_s=5)], monkeypatch)
    log = EventLog(tmp_path / "gsched.db")
    first = read_history(path).jobs[0]
    spec = first.spec()
    log.append([JobSubmitted(at=1_800_000_100.0, job_id=number, spec=spec) for number in (8, 9)])
    place = first.place  # type: ignore[attr-defined]
    log.append([JobDispatched(at=1_800_000_101.0, job_id=9, attempt=1, allocation=place, effective_req="")])
    log.close()
    found = read_history(path)
    assert (len(found.jobs), found.left_out) == (1, {"never ran": 1, "still run": 1})
    assert found.begins_at == 1_800_000_000.0


def test_what_is_no_history(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no store"):
        read_history(str(tmp_path))
    EventLog(tmp_path / "gsched.db").close()
    with pytest.raises(BadRequest, match="no job of this history has ended"):
        read_history(str(tmp_path))


def test_truncated_history_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    path = recorded(tmp_path, hosts_of_words("1x0:1", "h"), [TraceJob(arrives_s=0, runs_s=5)], monkeypatch)
    with sqlite3.connect(tmp_path / "gsched.db") as database:
        database.execute("DELETE FROM event WHERE seq = 2")
    with pytest.raises(BadRequest) as error:
        read_history(path)
    assert error.value.text == f"{path}: events 2 to 2 are missing"
    with sqlite3.connect(tmp_path / "gsched.db") as database:
        database.execute("UPDATE event SET payload = '{' WHERE seq = 1")
    with pytest.raises(BadRequest, match="event 1 cannot be read"):
        read_history(path)
