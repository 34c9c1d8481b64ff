"""The figures of a simulation: reckoned by hand for small ones, and equal for equal inputs."""

from __future__ import annotations

import pytest

from gsched.base.errors import BadRequest
from gsched.config.changed_files import parse_setting
from gsched.sim.cluster_file import SimulatedHost, hosts_of_words
from gsched.sim.job_table import evenness, wait_figures
from gsched.sim.sim_config import simulation_config
from gsched.sim.simulation import SimulationTables, run_simulation
from gsched.sim.trace import TraceJob
from gsched.sim.workload import Workload, read_workload


def played(
    hosts: list[SimulatedHost], *jobs: TraceJob, settings: tuple[str, ...] = (), **more: bool
) -> SimulationTables:
    config = simulation_config(None, hosts, [parse_setting(text) for text in settings])
    return run_simulation(hosts, Workload("w", list(jobs)), config, **more)  # type: ignore[arg-type]


def job(arrives: float, runs: float, gpus: int = 0, **more: object) -> TraceJob:
    wanted = {"gpus": gpus, "gpu_req": f"num={gpus}" if gpus else ""} | more
    return TraceJob(arrives_s=arrives, runs_s=runs, **wanted)  # type: ignore[arg-type]


def test_waits_use_and_slowdown_are_what_they_are_by_hand() -> None:
    found = played(hosts_of_words("1x2:4", "h"), job(0, 100, 2, user="ann"), job(0, 100, 1, user="bob"))
    assert found.jobs["start_s"] == [0.0, 100.0]
    assert found.jobs["wait_s"] == [0.0, 100.0]
    assert found.jobs["devices"] == ["h001:0,1", "h001:0"]
    assert found.jobs["slowdown"] == [1.0, 2.0]
    summary = found.summary
    assert summary["makespan_s"] == 200.0
    assert summary["gpu_use"] == pytest.approx(3 / 4)
    assert summary["slot_use"] == pytest.approx(1 / 4)
    assert (summary["wait_mean_s"], summary["wait_p50_s"], summary["wait_p95_s"]) == (50.0, 0.0, 100.0)
    assert summary["fairness"] == pytest.approx(9 / 10)  # (1 + 2)^2 / (2 * (1 + 4))
    assert found.users["gpu_hours"] == [pytest.approx(200 / 3600), pytest.approx(100 / 3600)]
    assert found.series["jobs_waiting"][-1] == 0 and max(found.series["gpus_held"]) == 2.0


def test_free_gpus_without_slots_beside_them_are_fragments() -> None:
    found = played(hosts_of_words("1x2:2", "h"), job(0, 100, 1, slots=2), job(0, 100, 1, slots=2))
    assert found.jobs["start_s"] == [0.0, 100.0]
    assert found.summary["fragmentation"] == 1.0
    assert played(hosts_of_words("1x2:2", "h"), job(0, 100, 1)).summary["fragmentation"] == 0.0


def test_shares_of_a_gpu_count_as_parts() -> None:
    half = {"gpu_req": "num=1:mode=shared:share=0.5"}
    found = played(hosts_of_words("1x1:4", "h"), job(0, 100, 1, **half), job(0, 100, 1, **half))
    assert found.jobs["start_s"] == [0.0, 0.0]
    assert found.jobs["gpus"] == [0.5, 0.5]
    assert found.summary["gpu_use"] == pytest.approx(1.0)


def test_energy_is_told_only_where_the_cluster_file_says_it() -> None:
    assert played(hosts_of_words("1x2:4", "h"), job(0, 100, 2)).summary["energy_kwh"] is None
    host = SimulatedHost(name="a", slots=2, mem_mib=100.0, gpus=2, gpu_busy_w=300.0, gpu_idle_w=60.0)
    assert played([host], job(0, 3600, 1)).summary["energy_kwh"] == pytest.approx(0.36)


def test_run_limit_is_an_exit() -> None:
    found = played(hosts_of_words("1x0:1", "h"), job(0, 100, limit_s=30))
    assert (found.jobs["state"], found.jobs["end_s"]) == (["EXIT"], [30.0])


def test_job_that_no_host_can_hold_is_refused_before_anything_is_played() -> None:
    many = job(5, 1, 4, line=7)
    with pytest.raises(BadRequest) as error:
        played(hosts_of_words("1x2:4", "h"), job(0, 1), many)
    assert error.value.text.startswith("w:7: ") and "\n" not in error.value.text
    found = played(hosts_of_words("1x2:4", "h"), job(0, 1), many, skip_refused=True)
    assert (found.summary["jobs"], found.summary["jobs_refused"]) == (1, 1)
    assert found.notes[0].startswith("w:7: ")


def test_limit_on_waiting_jobs_leaves_out_what_it_refuses() -> None:
    setting = "MAX_PEND_JOBS=1"
    found = played(hosts_of_words("1x0:1", "h"), job(0, 9), job(1, 9), job(2, 9), settings=(setting,))
    assert (found.summary["jobs_refused"], found.jobs["state"]) == (1, ["DONE", "DONE"])


def test_job_that_waits_for_ever_ends_the_simulation() -> None:
    closed = "lsb.queues:night.DISPATCH_WINDOW=23:00-6:00"
    found = played(hosts_of_words("1x0:1", "h"), job(0, 9, queue="night"), settings=(closed,))
    assert found.jobs["state"] == ["DONE"]
    limit = "lsb.queues:night.QJOB_LIMIT=0"
    waits = played(hosts_of_words("1x0:1", "h"), job(0, 9, queue="night"), settings=(limit,))
    assert (waits.jobs["state"], waits.summary["jobs_never_started"]) == (["PEND"], 1)


def test_queue_that_there_is_not() -> None:
    found = played(hosts_of_words("1x0:1", "h"), job(0, 9, queue="gpu"))
    assert found.jobs["queue"] == ["normal"]
    assert found.notes == ["w: there is no queue 'gpu': its 1 jobs go to normal"]


def test_settings_are_those_of_the_scheduler() -> None:
    jobs = (job(0, 9), job(1, 9, queue="normal"), job(2, 9, queue="night"))
    plain = played(hosts_of_words("1x0:1", "h"), *jobs)
    assert plain.jobs["start_s"] == [0.0, 9.0, 18.0]
    other = played(hosts_of_words("1x0:1", "h"), *jobs, settings=("lsb.queues:night.PRIORITY=99",))
    assert other.jobs["start_s"] == [0.0, 18.0, 9.0]


def test_same_seed_same_tables() -> None:
    hosts = hosts_of_words("2x4xH100", "h")
    config = simulation_config(None, hosts)
    first, again = (run_simulation(hosts, read_workload("random:60", 5, 8), config) for _ in range(2))
    assert first == again
    assert first.summary["jobs_ended"] == 60


def test_percentiles_are_of_the_nearest_rank() -> None:
    assert wait_figures([float(value) for value in range(1, 101)]) == {"mean": 50.5, "p50": 50, "p95": 95, "p99": 99}
    assert wait_figures([])["p50"] is None
    assert evenness([]) is None
