"""cu[excl] in the engine: the hosts that a job keeps from others are in the ledger, but it does not run on them."""

from __future__ import annotations

from core_world import World, make_config, spec

from gsched.core.dispatch.host_queue_views import host_state
from gsched.core.instruction import StartJob
from gsched.model.hosts.host import HostConfig
from gsched.model.queues.queue import Queue

UNITS = {"rack": {"r1": ("a", "b"), "r2": ("c",)}}
QUEUES = (Queue(name="normal", exclusive=True, exclusive_units="rack"),)


def world() -> World:
    hosts = [HostConfig(name=name, max_slots=4) for name in "abc"]
    return World(make_config(hosts, QUEUES, compute_units=UNITS))


def status(here: World, host: str) -> str:
    engine = here.engine
    return host_state(here.config.hosts[host], here.config, engine.state, engine.observations.of(host)).value


def test_the_rest_of_the_unit_is_closed_until_the_job_has_ended() -> None:
    here = world()
    (job,) = here.run(spec(res_req="cu[excl] select[hname==a]"))
    assert [status(here, name) for name in "abc"] == ["closed_Cu_Excl", "closed_Cu_Excl", "ok"]
    allocation = here.job(job).allocation
    assert allocation is not None
    assert ([part.host for part in allocation.hosts], [part.host for part in allocation.kept]) == (["a"], ["b"])
    assert [each.host for each in here.orders() if isinstance(each, StartJob)] == ["a"]
    (other,) = here.submit(spec(res_req="select[hname==b]"))
    here.settle()
    assert f"Running an exclusive job: 1 host (job {job} on b)" in here.reasons(other)
    here.check_replay()
    here.ended(job)
    here.settle()
    assert here.state(other) == "RUN"
    assert [status(here, name) for name in "abc"] == ["ok", "ok", "ok"]


def test_with_x_its_own_hosts_say_so() -> None:
    here = world()
    here.run(spec(res_req="cu[excl] select[hname==a]", exclusive=True))
    assert [status(here, name) for name in "ab"] == ["closed_Excl", "closed_Cu_Excl"]


def test_what_happens_to_a_host_that_is_only_kept_is_nothing_to_the_job() -> None:
    here = world()
    (job,) = here.run(spec(res_req="cu[excl] select[hname==a]", rerunnable=True))
    here.disconnect("b")
    here.wait(100_000.0)
    assert status(here, "b") == "unavail"
    assert here.state(job) == "RUN"
    here.connect("b")
    assert here.state(job) == "RUN"
    assert status(here, "b") == "closed_Cu_Excl"


def test_by_force_it_waits_until_the_whole_unit_is_empty() -> None:
    here = world()
    (small,) = here.run(spec(res_req="select[hname==b]"))
    (job,) = here.submit(spec(res_req="cu[excl]", hold=True))
    here.control("resume", job)
    here.order("run", job, hosts=("a",), user="root")
    here.settle()
    assert here.state(job) == "PEND"
    here.ended(small, host="b")
    here.settle()
    assert here.state(job) == "RUN"
    assert status(here, "b") == "closed_Cu_Excl"


def test_a_queue_that_stops_allowing_it_leaves_waiting_jobs_as_they_are() -> None:
    here = world()
    here.run(spec(res_req="cu[excl:maxcus=1]", slots=8))
    (job,) = here.submit(spec(res_req="cu[excl]", hosts=("a",)))
    here.reconfigure(here.with_queue(exclusive_units=""))
    here.settle()
    assert here.state(job) == "PEND"
    assert here.modify(job, res_req="cu[excl:maxcus=2]") != [""]
