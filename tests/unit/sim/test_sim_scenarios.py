"""What-if: before and after a change, in processes of their own, and who wins and loses by it."""

from __future__ import annotations

import random

import pytest

from gsched.base.errors import BadRequest
from gsched.config.changed_files import parse_setting
from gsched.sim.cluster_file import hosts_of_words
from gsched.sim.scenarios import Scenario, changed, play, play_all
from gsched.sim.sim_config import simulation_config
from gsched.sim.trace import Recipe, TraceJob, random_trace
from gsched.sim.what_if import user_changes, winners_and_losers
from gsched.sim.workload import Workload, read_workload
from gsched.sim.world import World

DAY, NIGHTS = 4, 500
BEFORE = Scenario("before", tuple(hosts_of_words("1x0:1", "h")))


def job(arrives: float, runs: float, user: str, queue: str = "normal") -> TraceJob:
    return TraceJob(arrives_s=arrives, runs_s=runs, user=user, queue=queue)


QUEUED = Workload("w", [job(0, 100, "cho"), job(1, 50, "ann"), job(2, 50, "bob", "night")])


def test_who_wins_and_who_loses() -> None:
    after = changed(BEFORE, [parse_setting("lsb.queues:night.PRIORITY=99")], ())
    before, now = play_all([BEFORE, after], QUEUED)
    changes = user_changes(before, now)
    assert changes["user"] == ["bob", "cho", "ann"]
    assert changes["wait_change_s"] == [-50.0, 0.0, 50.0]
    assert winners_and_losers(changes) == (["bob"], ["ann"])


@pytest.mark.nightly
@pytest.mark.slow
def test_processes_give_what_one_would() -> None:
    hosts = tuple(hosts_of_words("2x4xA100", "h"))
    work = read_workload("random:40", 7, 8)
    scenarios = [changed(Scenario("a", hosts), (), words) for words in ((), ("1x4xA100",), ("2x2",))]
    told: list[tuple[int, int]] = []
    found = play_all(scenarios, work, finished=lambda over, count: told.append((over, count)))
    assert found == [play(each, work) for each in scenarios]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert [each.summary["gpus"] for each in found] == [8, 12, 12]


def test_what_cannot_be_played_is_told_as_of_one() -> None:
    wrong = changed(BEFORE, [parse_setting("lsb.queues:night.PRIORTY=99")], ())
    with pytest.raises(BadRequest, match="PRIORTY"):
        play_all([BEFORE, wrong], QUEUED)
    with pytest.raises(BadRequest, match="w: Too many processors requested"):
        play_all([BEFORE, BEFORE], Workload("w", [TraceJob(arrives_s=0, runs_s=1, slots=3)]))
    with pytest.raises(BadRequest, match="has a host added001 already"):
        changed(Scenario("x", tuple(hosts_of_words("1x0", "added"))), (), ("1x0",))
    with pytest.raises(BadRequest, match="says no hosts"):
        changed(BEFORE, (), ("two",))


def play_with_and_without_reasons(seed: int) -> None:
    """Asserts that the same jobs start at the same times and places."""
    recipe = Recipe(
        jobs=40, most_gpus=2, most_mem_mib=9000, spread=0.2, unlimited=0.2, queues=("normal", "short", "night")
    )
    jobs = random_trace(seed, recipe)
    hosts = hosts_of_words("3x2:4", "h")
    limit = random.Random(seed).choice(("", "UJOB_LIMIT=9", "QJOB_LIMIT=10"))
    settings = [parse_setting(f"lsb.queues:normal.{limit}")] if limit else []
    config = simulation_config(None, hosts, [*settings, parse_setting("lsb.queues:short.RUNLIMIT=2:00")])
    worlds = [World(config, machines=hosts, audit_every=7, unread_reasons=unread) for unread in (False, True)]
    asked = [TraceJob(**{**_fields(each), "gpu_req": f"num={each.gpus}" if each.gpus else ""}) for each in jobs]
    first, second = (world.run(asked) for world in worlds)
    assert [fate.starts for fate in first.values()] == [fate.starts for fate in second.values()], f"seed {seed}"
    assert any(fate.starts for fate in first.values()), f"seed {seed}"


@pytest.mark.nightly
@pytest.mark.slow
def test_reasons_that_nobody_reads_decide_nothing() -> None:
    for seed in range(DAY):
        play_with_and_without_reasons(seed)


@pytest.mark.nightly
def test_they_do_not_on_hundreds_of_traces() -> None:
    for seed in range(DAY, NIGHTS):
        play_with_and_without_reasons(seed)


def _fields(job: TraceJob) -> dict[str, object]:
    return {name: getattr(job, name) for name in TraceJob.__slots__}
