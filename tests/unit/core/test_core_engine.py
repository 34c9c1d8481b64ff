"""The engine: submissions and their tokens, time, reconfiguration, cycles within a budget, what is asked of it."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest
from core_world import EXCLUSIVE, SHARED, START, World, gpu_spec, gpus, load, make_config, spec

from gsched.base.coded_text import coded, sentence
from gsched.base.errors import Conflict
from gsched.base.ids import element_id
from gsched.core.command import Submit
from gsched.core.dispatch.host_queue_views import host_view
from gsched.core.engine import BUSY_TICK_S, IDLE_TICK_S, Engine
from gsched.core.hosts.timeouts import FORGET_MOST
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import Params
from gsched.model.event import JobForgotten
from gsched.model.hosts.host import Gpu, GpuReport, HostConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Snapshot
from gsched.policy import cycle as policy
from gsched.policy.backfill.reservations import Reservations
from gsched.policy.backfill.trial_fit import TrialFit
from gsched.policy.cycle import Planning
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.match.columns_cycle import CycleColumns
from gsched.policy.match.columns_rank import Ranking
from gsched.policy.place.placement import Placer

# -- submissions ------------------------------------------------------------------------------------------------------


def submitted(world: World, token: str, count: int = 2, user: str = "ann") -> list[int]:
    done = world.do(
        Submit(user, token, tuple(spec(f"run {i}", queue_named=True, queue="normal") for i in range(count)))
    )
    assert all(each.queue == "normal" and not each.default_queue for each in done)
    return [each.job_id for each in done]


def test_a_submission_is_made_once_per_token() -> None:
    world = World()
    assert submitted(world, "t1") == [1, 2]
    before = len(world.events)
    assert submitted(world, "t1") == [1, 2]
    assert submitted(world, "t2") == [3, 4]
    assert submitted(world, "") == [5, 6] and submitted(world, "") == [7, 8]
    assert len(world.events) == before + 6
    world.restart()
    assert submitted(world, "t1") == [1, 2] and submitted(world, "t2") == [3, 4]
    state = ClusterState.load(world.engine.state.dump())
    assert Engine(state, world.config, world.now).state.tokens == world.engine.state.tokens


def test_a_repeated_submission_is_answered_though_a_job_of_it_is_gone() -> None:
    world = World()
    submitted(world, "t1", 3)
    world.control("kill", 1)
    world.wait(3600)
    assert 1 not in world.engine.state.jobs
    assert submitted(world, "t1", 3) == [1, 2, 3]
    world.engine.state.set_aside(2, "a bad record")
    assert submitted(world, "t1", 3) == [1, 2, 3]
    assert len(world.engine.state.jobs) == 1


def test_a_token_of_another_submission_is_refused() -> None:
    world = World()
    submitted(world, "t1", 1)
    submitted(world, "t2", 1)
    for count, user in ((2, "ann"), (1, "bob")):
        with pytest.raises(Conflict, match="submission t1 is already known, and it is another one"):
            submitted(world, "t1", count, user)


def test_a_token_answers_no_jobs_that_were_never_made() -> None:
    world = World()
    submitted(world, "t1", 2)
    with pytest.raises(Conflict, match="submission t1 is already known, and it is another one"):
        submitted(world, "t1", 3)
    assert submitted(world, "t1", 2) == [1, 2]
    assert submitted(world, "t2", 1) == [3]


def test_warnings_come_back_with_the_answer() -> None:
    (done,) = World().do(Submit("ann", "t", (spec(warnings=("sudo drops the environment",)),)))
    assert (done.queue, done.default_queue, done.warnings) == ("normal", True, ("sudo drops the environment",))


def test_a_job_held_at_submission_waits_to_be_resumed() -> None:
    world = World()
    (job_id,) = world.submit(spec(hold=True))
    world.settle()
    assert world.reasons(job_id) == ("The job was suspended by the user while pending",)
    world.control("resume", job_id)
    assert world.reasons(job_id) == ("New job is waiting for scheduling",)
    world.settle()
    assert world.state(job_id) == "RUN"


# -- time -------------------------------------------------------------------------------------------------------------


def test_finished_jobs_are_forgotten_after_the_clean_period() -> None:
    world = World()
    first, second = world.run(spec(), spec())
    world.ended(first)
    world.now += 100
    world.ended(second)
    assert world.engine.next_deadline(world.now) == START + IDLE_TICK_S + 40  # a tick is overdue
    world.wait(3459)
    assert set(world.engine.state.jobs) == {first, second}
    assert world.engine.next_deadline(world.now) == START + 3600
    world.wait(41)
    assert set(world.engine.state.jobs) == {second}
    world.wait(3600)
    assert world.engine.state.jobs == {} and world.engine.state.retention.first_end() is None
    world.check_replay()


def test_jobs_and_arrays_that_are_done_go_earlier_where_the_site_says_so() -> None:
    world = World()
    world.reconfigure(world.with_params(clean_period_done_s=60))
    done, failed, all_done, half_done = world.run(spec(), spec(), spec(indices="1-2"), spec(indices="1-2"))
    for job_id in (done, *(element_id(all_done, index) for index in (1, 2)), element_id(half_done, 1)):
        world.ended(job_id)
    for job_id in (failed, element_id(half_done, 2)):
        world.ended(job_id, exit_code=1)
    world.check_replay()
    world.wait(59)
    assert set(world.engine.state.arrays) == {all_done, half_done} and done in world.engine.state.jobs
    world.wait(1)
    assert set(world.engine.state.arrays) == {half_done}
    assert set(world.engine.state.jobs) == {failed, *(element_id(half_done, index) for index in (1, 2))}
    world.wait(3540)
    assert world.engine.state.jobs == {} and world.engine.state.arrays == {}
    assert world.engine.state.retention.first_end() is None
    world.check_replay()


def test_what_jobs_were_given_to_read_goes_with_the_last_of_them() -> None:
    world = World()
    world.submit(spec(spooled_input="one"), spec(spooled_input="one"), spec(spooled_input="two", indices="1-2"))
    world.submit(spec(spooled_input="kept", hold=True))
    state = world.engine.state
    assert state.inputs == {"one": 2, "two": 1, "kept": 1}
    for job_id in (1, element_id(3, 1), element_id(3, 2)):
        world.control("kill", job_id)
    for box, name in ((126, "saved"), (127, "result"), (3, "told")):
        assert world.order("post", 1, text="x", box=box, attachment=name, attached_bytes=1) == [""]
    world.wait(3601)
    assert world.dropped == ["saved", "result", "two"] and state.inputs == {"one": 1, "kept": 1}
    assert ClusterState.load(state.dump()).inputs == state.inputs
    world.control("kill", 2)
    world.wait(3601)
    assert world.dropped == ["saved", "result", "two", "one"] and state.inputs == {"kept": 1}
    world.check_replay()


def test_many_jobs_are_forgotten_in_several_ticks() -> None:
    world = World()
    count = FORGET_MOST + 5
    world.submit(*[spec(hold=True) for _ in range(count)])
    world.control("kill", *range(1, count + 1))
    world.now += 3600
    decision = world.wait(0)
    assert sum(isinstance(event, JobForgotten) for event in decision.events) == FORGET_MOST
    assert world.engine.next_deadline(world.now) == world.now
    assert len(world.wait(0).events) == 5
    assert world.engine.next_deadline(world.now) > world.now


def test_ticks_come_though_commands_never_cease() -> None:
    world = World()
    deadline = world.engine.next_deadline(world.now)
    assert deadline == START + IDLE_TICK_S
    for _ in range(50):
        world.now += 1
        world.report(load=load())
        assert world.engine.next_deadline(world.now) == deadline
    world.hosts("close", "a")
    world.submit()
    assert world.engine.next_deadline(world.now) == world.now  # more than BUSY_TICK_S since the last one
    world.wait(0)
    assert world.engine.next_deadline(world.now) == world.now + BUSY_TICK_S


def test_a_clock_set_back_does_not_stop_the_ticks() -> None:
    world = World()
    world.now -= 5000
    assert world.engine.next_deadline(world.now) == world.now + IDLE_TICK_S
    world.now += 1
    assert world.engine.next_deadline(world.now) == world.now - 1 + IDLE_TICK_S


def test_each_deadline_is_met_by_its_tick() -> None:
    world = World(make_config(("a", "b"), params=Params(clean_period_s=50)))
    ids = world.run(*[gpu_spec() for _ in range(6)])
    world.ended(ids[0], host=world.job(ids[0]).allocation.first_host)  # type: ignore[union-attr]
    world.disconnect("b")
    world.submit(gpu_spec(4), gpu_spec(4))
    for _ in range(200):
        world.settle()
        deadline = world.engine.next_deadline(world.now)
        assert deadline > world.now
        world.wait(deadline - world.now)
    assert ids[0] not in world.engine.state.jobs


def test_a_host_that_just_started_a_job_takes_the_next_after_the_interval() -> None:
    world = World(make_config(params=Params(job_accept_interval_s=3.0)))
    first, second = world.submit(spec(), spec())
    world.settle()
    assert (world.state(first), world.state(second)) == ("RUN", "PEND")
    assert world.reasons(second) == ("Just started a job recently: 1 host",)
    assert world.engine.next_deadline(world.now) == world.now + 3
    world.wait(3)
    world.settle()
    assert world.state(second) == "RUN"


# -- what wakes the scheduler -----------------------------------------------------------------------------------------


def busier(report: GpuReport) -> GpuReport:
    """The same GPUs, with readings that have moved."""
    moved = {"utilization_percent": 90, "power_w": 300, "temperature_c": 70, "process_count": 1}
    return msgspec.structs.replace(report, gpus=tuple(msgspec.structs.replace(gpu, **moved) for gpu in report.gpus))


def test_news_wake_the_scheduler_and_load_alone_does_not() -> None:
    world = World()
    world.run(gpu_spec(4))
    world.submit(gpu_spec(), spec(res_req="rusage[seats=1]"))
    world.settle()
    for report, wakes in (
        ({"load": load(ut=0.5)}, False),
        ({"gpus": gpus(4)}, False),
        ({"gpus": busier(gpus(4))}, False),
        ({"load": load(external={"seats": 1.0})}, True),
        ({"gpus": gpus(5)}, True),
        ({}, False),
    ):
        world.report(**report)
        assert world.engine.cycles.needs_cycle is wakes, report
        world.settle()
    assert world.state(2) == "RUN" and world.state(3) == "RUN"


def test_a_job_starts_in_the_cycle_after_its_submission() -> None:
    world = World()
    (job_id,) = world.submit()
    assert world.engine.cycles.needs_cycle
    world.cycle()
    assert world.state(job_id) == "RUN" and not world.engine.cycles.needs_cycle


def test_cores_that_were_kept_for_a_gpu_are_used_as_soon_as_it_is_taken() -> None:
    world = World(make_config([HostConfig(name="a", max_slots=8)], params=Params(reserve_cores_per_gpu=4)), devices=2)
    waiting, taking = world.submit(spec(), gpu_spec())
    world.settle()
    assert (world.state(waiting), world.state(taking)) == ("RUN", "RUN")


def test_a_pass_that_the_budget_cuts_short_goes_on_and_reaches_everybody() -> None:
    hosts = [HostConfig(name=f"h{i}", max_slots=1) for i in range(5)]
    world = World(make_config(hosts))
    blocked = world.submit(*[spec(res_req=f"select[ut<-{i}]") for i in range(1, 9)])
    easy = world.submit(*[spec()] * 5)
    cycles = 0
    while world.engine.cycles.needs_cycle:
        world.cycle(budget=2)
        cycles += 1
        assert cycles < 20
    assert cycles > 3
    assert {world.state(job_id) for job_id in easy} == {"RUN"}
    for job_id in blocked:
        assert "Job's resource requirements not satisfied: " in world.reasons(job_id)[0]


def test_news_during_a_pass_bring_about_another_one() -> None:
    world = World(make_config([HostConfig(name=f"h{i}", max_slots=1) for i in range(5)]))
    world.submit(*[spec(res_req=f"select[ut<-{i}]") for i in range(1, 9)])
    (licensed,) = world.submit(spec(res_req="select[ut>0.5]"))
    world.cycle()  # the last job has been tried too
    assert world.engine.cycles.needs_cycle is False
    world.submit(*[spec("another", hosts=("h1", "h2", "h3"))] * 3)
    world.cycle(budget=2)
    assert world.engine.cycles.needs_cycle
    world.report("h0", load=load(ut=0.9, external={"seats": 1.0}))
    world.settle()
    assert world.state(licensed) == "RUN"


def test_a_plan_that_does_not_fit_the_truth_is_not_carried_out() -> None:
    def stale(snapshot: Snapshot, now: float, budget: int, turn: int) -> Planning:
        plan = yield from policy.schedule_in_turns(snapshot, now, budget, turn)
        world.engine.state.ledger.host("a").observe_gpus(gpus(0))
        return plan

    world = World()
    world.engine.cycles._schedule = stale
    (job_id,) = world.submit(gpu_spec())
    assert world.cycle().events == []
    assert world.reasons(job_id) == ("The place found for it was gone (GPU GPU-a0 is not on a)",)
    assert "1 placements did not fit: job 1: GPU GPU-a0 is not on a" in world.engine.cycles.summary


# -- reconfiguration --------------------------------------------------------------------------------------------------


def test_a_queue_in_use_may_go() -> None:
    world = World(make_config(queues=(Queue(name="normal"), Queue(name="night", job_limit=1))))
    running, waiting = world.submit(spec(queue="night"), spec(queue="night"))
    world.settle()
    world.reconfigure(make_config())
    world.settle()
    assert world.reasons(waiting) == ("The queue night no longer exists",)
    world.started(running)
    world.ended(running)
    assert world.state(running) == "DONE"
    world.restart()
    world.reconfigure(make_config(queues=(Queue(name="normal"), Queue(name="night"))))
    world.connect()
    world.settle()
    assert world.state(waiting) == "RUN"


def test_a_resource_in_use_may_be_unmapped_or_removed() -> None:
    config = make_config()
    world = World(config)
    world.report(load=load(external={"seats": 1.0}))
    running, waiting = world.submit(*[spec(res_req="rusage[seats=1]")] * 2)
    gpu_running, gpu_waiting = world.submit(*[gpu_spec(4)] * 2)
    world.settle()
    assert [world.state(i) for i in (running, waiting, gpu_running, gpu_waiting)] == ["RUN", "PEND", "RUN", "PEND"]
    world.reconfigure(make_config(mapped={"ngpus": ("a",)}))
    world.settle()
    reserving = "Job's requirements for reserving resource ({}) not satisfied: 1 host ({} wanted, a has no {})"
    assert world.reasons(waiting) == (reserving.format("seats", 1, "seats"),)
    assert world.reasons(gpu_waiting) == (reserving.format("ngpus_excl_p", 4, "ngpus_excl_p"),)
    world.reconfigure(make_config(mapped={}, resources={}))
    world.settle()
    assert "a has no seats" in world.reasons(waiting)[0]
    assert "ngpus>0: ngpus is unknown on a" in world.reasons(gpu_waiting)[0]
    world.ended(running)
    world.ended(gpu_running)
    world.reconfigure(config)
    world.report(load=load(external={"seats": 1.0}))
    world.settle()
    assert [world.state(i) for i in (waiting, gpu_waiting)] == ["RUN", "RUN"]
    world.check_replay()


def test_a_host_in_use_may_go_and_come_back() -> None:
    both = make_config(("a", "b"))
    world = World(both)
    (job_id,) = world.run(gpu_spec(4, hosts=("b",)))
    world.reconfigure(make_config(("a",)))
    (waiting,) = world.submit(gpu_spec(4))
    world.settle()
    assert world.job(waiting).allocation.first_host == "a"  # type: ignore[union-attr]
    assert world.state(job_id) == "RUN"
    world.report("b", load=load(), gpus=gpus(4, host="b"))
    world.disconnect("b")
    assert world.engine.next_deadline(world.now) <= world.now + 30
    world.wait(30)
    assert world.state(job_id) == "UNKWN"
    world.wait(30)
    world.reconfigure(both)
    (another,) = world.submit(gpu_spec(1, hosts=("b",)))
    world.settle()
    assert world.state(another) == "PEND"
    world.connect("b", held=[(job_id, 1)])
    world.settle()
    assert (world.state(job_id), world.state(another)) == ("RUN", "PEND")
    world.ended(job_id, host="b")
    world.settle()
    assert world.state(another) == "RUN"
    world.check_replay()


def test_an_end_on_a_host_that_is_no_longer_configured_counts() -> None:
    world = World(make_config(("a", "b")))
    (job_id,) = world.run(spec(hosts=("b",)))
    world.reconfigure(make_config(("a",)))
    world.ended(job_id, host="b")
    assert world.state(job_id) == "DONE"


def test_fewer_slots_and_fewer_sharers_throw_nobody_off() -> None:
    world = World(make_config(params=Params(gpu_shared_jobs=3)), devices=0)
    world.report(gpus=gpus(1, SHARED))
    ids = world.run(*[gpu_spec(1, "ngpus_shared")] * 4)
    assert [world.state(job_id) for job_id in ids] == ["RUN", "RUN", "RUN", "PEND"]
    world.reconfigure(make_config([HostConfig(name="a", max_slots=1)], params=Params(gpu_shared_jobs=1)))
    world.settle()
    assert [world.state(job_id) for job_id in ids] == ["RUN", "RUN", "RUN", "PEND"]
    assert world.engine.state.ledger.host("a").free_slots == 0
    for job_id in ids[:3]:
        world.ended(job_id)
    world.settle()
    assert world.state(ids[3]) == "RUN"


# -- limits, fairness of the order ------------------------------------------------------------------------------------


def test_limits_hold_over_cycles_and_name_their_numbers() -> None:
    queues = (
        Queue(name="normal", priority=5, job_limit=3),
        Queue(name="each", priority=4, user_limit=2),
        Queue(name="spread", priority=3, host_limit=1),
    )
    world = World(
        make_config([HostConfig(name="a", max_slots=16), HostConfig(name="b", max_slots=16, user_slots=5)], queues)
    )
    in_all = world.submit(*[spec(slots=2)] * 2)
    in_each = world.submit(*[spec(queue="each")] * 3)
    other = world.submit(spec(queue="each"), user="bob")
    in_spread = world.submit(*[spec(queue="spread")] * 3)
    world.settle()
    reasons = {i: world.reasons(i) for i in (in_all[1], in_each[2], in_spread[2])}
    assert reasons == {
        in_all[1]: ("The queue has not enough job slots for the parallel job (2 wanted, 2 of 3 used)",),
        in_each[2]: ("User has reached the per-user job slot limit of the queue (1 wanted, 2 of 2 used by ann)",),
        in_spread[2]: ("Queue's per-host job slot limit reached: 2 hosts (1 wanted, 1 of 1 used on a)",),
    }
    assert {world.state(i) for i in (*in_all[:1], *in_each[:2], *other, *in_spread[:2])} == {"RUN"}
    world.wait(10)
    world.settle()
    assert {world.state(i) for i in reasons} == {"PEND"}


def test_a_hosts_limit_per_user_is_of_that_user() -> None:
    world = World(make_config([HostConfig(name="a", max_slots=16, user_slots=2)]))
    mine = world.submit(*[spec()] * 3, user="ann")
    theirs = world.submit(*[spec()] * 3, user="bob")
    world.settle()
    assert [world.state(i) for i in (*mine, *theirs)] == ["RUN", "RUN", "PEND"] * 2
    assert world.reasons(theirs[2]) == ("Host's per-user job slot limit reached: 1 host (1 wanted, 2 of 2 used on a)",)


# -- views ------------------------------------------------------------------------------------------------------------


def test_a_host_is_shown_with_what_is_left_and_what_is_reserved() -> None:
    world = World()
    running, stopped = world.run(gpu_spec(1, res_req="rusage[ngpus_excl_p=1,mem=1000]"), gpu_spec(1, slots=2))
    world.control("stop", stopped)
    host = world.config.hosts["a"]
    view = host_view(host, world.config, world.engine.state, world.engine.observations.of("a"))
    external = {value.name: (value.total, value.reserved) for value in view.externals}
    assert external["ngpus_excl_p"] == (2.0, 2.0) and external["ngpus"] == (4.0, 0.0)
    assert external["heat"] == (None, None)
    assert (view.status, view.max_slots, view.slots_free, view.njobs, view.run, view.ususp) == ("ok", 16, 13, 3, 1, 2)
    assert view.load["mem"] == 99_000.0
    assert [gpu.holders for gpu in view.gpus] == [(f"{running}.1",), (f"{stopped}.1",), (), ()]
    world.report(load=load(mem=500.0), gpus=GpuReport(gpus=(Gpu(uuid="x", index=0, mode=EXCLUSIVE, problem="lost"),)))
    view = host_view(host, world.config, world.engine.state, world.engine.observations.of("a"))
    assert view.load["mem"] == 0.0
    assert "GPU 0 (x) is not offered: lost" in map(sentence, view.notes)
    world.report(gpus=GpuReport(gpus=tuple(Gpu(uuid=f"x{n}", index=n, mode=EXCLUSIVE, problem="lost") for n in (0, 1))))
    view = host_view(host, world.config, world.engine.state, world.engine.observations.of("a"))
    assert [note for note in map(sentence, view.notes) if "lost" in note] == ["no GPU of this host is offered: lost"]
    world.disconnect()
    view = host_view(host, world.config, world.engine.state, world.engine.observations.of("a"))
    assert view.status == "unreach" and view.load == {} and view.notes == (coded("remark.no_agent", "a"),)
    assert {value.total for value in view.externals} == {None}
    world.wait(world.config.params.host_lost_after_s)
    assert host_view(host, world.config, world.engine.state, world.engine.observations.of("a")).status == "unavail"
    world.connect()
    world.disconnect()
    assert host_view(host, world.config, world.engine.state, world.engine.observations.of("a")).status == "unreach"


def test_a_link_that_died_has_been_silent_before_it_was_noticed() -> None:
    world = World()
    (job,) = world.run(spec())
    patience = world.config.params.host_lost_after_s
    world.wait(patience * 0.4)
    world.disconnect()
    world.wait(patience * 0.6 - 0.1)
    assert world.state(job) == "RUN"
    world.wait(0.2)
    assert world.state(job) == "UNKWN"


def test_an_agent_that_had_said_nothing_for_long_still_gets_half_the_time_to_come_back() -> None:
    world = World()
    (job,) = world.run(spec())
    patience = world.config.params.host_lost_after_s
    world.wait(patience * 0.9)
    world.disconnect()
    world.wait(patience * 0.5 - 0.1)
    assert world.state(job) == "RUN"
    world.wait(0.2)
    assert world.state(job) == "UNKWN"


@pytest.mark.parametrize(
    ("report", "note"),
    [
        (GpuReport(reason="no driver", provider="nvml"), "no GPUs: no driver"),
        (GpuReport(provider="none"), "no GPUs"),
        (GpuReport(known=False, reason="the probe hangs"), "GPUs unknown: the probe hangs"),
        (gpus(2), "the 2 GPUs of this host are simulated"),
    ],
)
def test_a_host_says_why_it_has_the_gpus_it_has(report: Any, note: str) -> None:
    world = World()
    world.report(gpus=report, load=load(external={"ngpus": 7.0}))
    view = host_view(world.config.hosts["a"], world.config, world.engine.state, world.engine.observations.of("a"))
    assert note in map(sentence, view.notes)
    there = len(report.gpus)
    disagrees = f"an elim reports ngpus 7, the devices say {there}; the devices count"
    assert (disagrees in map(sentence, view.notes)) is report.known


def test_hosts_that_are_full_or_closed_say_so() -> None:
    world = World(make_config([HostConfig(name="a", max_slots=1), HostConfig(name="b", max_slots=-1)]))
    world.run(spec(hosts=("a",)), *[spec(hosts=("b",))] * 3)

    def status(name: str) -> str:
        seen = world.engine.observations.of(name)
        return host_view(world.config.hosts[name], world.config, world.engine.state, seen).status

    assert [status("a"), status("b")] == ["closed_Full", "ok"]
    world.hosts("close", "a", "b", comment="fan")
    assert [status("a"), status("b")] == ["closed_Adm", "closed_Adm"]


@pytest.mark.parametrize(
    "wanted",
    [
        gpu_spec(1),
        gpu_spec(3),
        spec(slots=2),
        spec(slots=16),
        spec(res_req="order[mem] rusage[mem=1]"),
        spec(res_req="{rusage[mem=5]} || {span[hosts=1]}", slots=2),
    ],
)
def test_nothing_of_a_cycle_outlives_it(wanted: JobSpec) -> None:
    """On a large cluster it is thousands of objects for each job; looking for rings of them stops the master."""
    world = World()
    parts = (CycleColumns, LimitUse, Placer, Ranking, Reservations, Snapshot, TrialFit)
    gc.collect()
    before = {id(each) for each in gc.get_objects() if isinstance(each, parts)}  # of other tests, if any
    gc.disable()
    try:
        for _ in range(2):
            world.submit(wanted, spec())
            world.engine.cycle(world.now)
        left = [each for each in gc.get_objects() if isinstance(each, parts) and id(each) not in before]
    finally:
        gc.enable()
    assert not left
