"""GPU_IDLE: jobs that hold idle GPUs are warned once, and then requeued or killed, unless they work, or are exempt."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_world import World, gpu_spec, gpus, make_config, spec

from gsched.base.coded_text import coded, has_code, sentence
from gsched.core.attempts.attempt_results import SYSTEM
from gsched.core.command import Reconfigure
from gsched.core.instruction import JudgeIdleness, TerminateAttempt, WarnIdle
from gsched.model.event import JobIdleActed, JobIdleOver, JobIdleWarned, JobMessagePosted, JobNoticeMade, JobRequeued
from gsched.model.gpus.gpu_idle import AttemptIdleness, GpuIdleness, IdleLimits
from gsched.model.jobs.job import Usage
from gsched.model.jobs.notice import NoticeWish
from gsched.model.queues.gpu_idle_policy import ExemptKind, GpuIdlePolicy, IdleAction
from gsched.model.queues.queue import Queue
from gsched.model.views.message_boxes import IDLE_BOX

LIMITS = IdleLimits(util=10.0)
RULE = GpuIdlePolicy(window_s=1800.0, grace_s=600.0, limits=LIMITS)
KILL = msgspec.structs.replace(RULE, action=IdleAction.KILL)
REQUEUE = msgspec.structs.replace(RULE, action=IdleAction.REQUEUE)


def world_of(rule: GpuIdlePolicy | None = RULE, hosts: str = "a", **queue: Any) -> World:
    queues = (Queue(name="normal", gpu_idle=rule, **queue), Queue(name="other"))
    return World(make_config(hosts, queues))


def idle_gpu(idle_s: float, kind: str = "stopped", host: str = "a", index: int = 0, **values: Any) -> GpuIdleness:
    return GpuIdleness(
        host=host,
        index=index,
        uuid=f"GPU-{host}{index}",
        kind=kind if idle_s else "",
        idle_s=idle_s,
        since=900.0,
        **({"is_known": True, "util_max": 1.0, "traffic_max": 0.0, "mem_mib": 9000.0} | values),
    )


def tells(world: World, *told: GpuIdleness, limits: IdleLimits = LIMITS, warned: int = 0, job: int = 1) -> None:
    """The agents of the GPUs report."""
    for host in sorted({gpu.host for gpu in told}):
        key = world.job(job).key
        idle = AttemptIdleness(limits=limits, warned=warned, gpus=tuple(gpu for gpu in told if gpu.host == host))
        world.report(host, usage={key: Usage()}, idle={key: idle})


def running(world: World, **changes: Any) -> World:
    world.run(gpu_spec(1, **changes))
    assert world.state(1) == "RUN"
    return world


def said(world: World, kind: type = JobIdleWarned) -> list[Any]:
    return [event for event in world.events if isinstance(event, kind)]


def posted(world: World) -> list[str]:
    return [event.text for event in world.events if isinstance(event, JobMessagePosted) and event.box == IDLE_BOX]


def ends(world: World) -> list[TerminateAttempt]:
    return [order for order in world.instructions if isinstance(order, TerminateAttempt)]


def test_it_is_warned_once_after_the_window_with_numbers() -> None:
    world = running(world_of())
    tells(world, idle_gpu(1799.0))
    assert said(world) == []
    for idle_s in (1800.0, 1830.0, 9000.0):
        tells(world, idle_gpu(idle_s), warned=1)
    (event,) = said(world)
    warning = event.warning
    assert (warning.number, warning.at, warning.idle_s, warning.kind) == (1, world.now, 1800.0, "stopped")
    assert (warning.action, warning.grace_s, event.attempt) == ("notify", 600.0, 1)
    assert sentence(warning.text) == (
        "All 1 GPU(s) of job 1 have done no work for 30 min, after they had worked (GPU 0 of a: use at most 1 %, "
        "memory traffic at most 0 %, 9000 MiB held, it has worked): GPU_IDLE of queue normal. "
        "Nothing more is done about it"
    )
    assert posted(world) == [sentence(warning.text)]
    orders = [order for order in world.instructions if isinstance(order, WarnIdle)]
    assert orders == [WarnIdle("a", 1, 1, warning)]
    assert ends(world) == [] and world.state(1) == "RUN"
    world.check_replay()


def test_who_wants_notices_of_warnings_gets_one_of_it() -> None:
    wish = NoticeWish(way="webhook", events=("warning",))
    world = running(world_of(), notices=(wish,), notice_targets="b" * 64)
    for idle_s in (1800.0, 1830.0):
        tells(world, idle_gpu(idle_s), warned=1)
    (made,) = said(world, JobNoticeMade)
    assert (made.notice.event, made.notice.what) == ("warning", said(world)[0].warning.text)
    world.check_replay()


def test_it_works_again_within_the_grace_and_counts_anew() -> None:
    world = running(world_of(KILL))
    tells(world, idle_gpu(1800.0))
    tells(world, idle_gpu(2300.0), warned=1)
    tells(world, idle_gpu(0.0), warned=1)
    (over,) = said(world, JobIdleOver)
    assert (over.number, over.text) == (1, coded("idle.over.works"))
    assert posted(world)[-1] == sentence(over.text) and world.job(1).idle_warning is None
    tells(world, idle_gpu(700.0), warned=1)
    tells(world, idle_gpu(1790.0), warned=1)
    assert len(said(world)) == 1
    tells(world, idle_gpu(1801.0), warned=1)
    assert [event.warning.number for event in said(world)] == [1, 2] and ends(world) == []
    world.check_replay()


def test_one_whose_clock_began_anew_between_two_reports_counts_anew() -> None:
    world = running(world_of(KILL))
    tells(world, idle_gpu(1800.0))
    tells(world, idle_gpu(30.0), warned=1)
    assert [event.text for event in said(world, JobIdleOver)] == [coded("idle.over.anew")]
    world.check_replay()


def test_still_idle_after_the_grace_it_is_killed() -> None:
    world = running(world_of(KILL))
    tells(world, idle_gpu(1810.0))
    tells(world, idle_gpu(2409.0), warned=1)
    assert ends(world) == []
    tells(world, idle_gpu(2410.0), warned=1)
    tells(world, idle_gpu(2440.0), warned=1)
    (end,) = ends(world)
    assert (end.host, end.reason) == ("a", "TERM_GPU_IDLE")
    (acted,) = said(world, JobIdleActed)
    assert sentence(acted.text) == (
        "It is killed: its GPUs have done no work for 40 min, after they had worked, 10 min of it after the warning "
        "(GPU_IDLE of queue normal)"
    )
    assert world.job(1).kill_by == SYSTEM
    world.ended(1, exit_code=None, signal=15, term_reason="TERM_GPU_IDLE")
    job = world.job(1)
    assert world.state(1) == "EXIT" and job.result is not None and job.result.term_reason == "TERM_GPU_IDLE"
    assert job.idle_warning is not None and job.idle_warning.acted_text == acted.text  # gjobs -l still says why
    world.check_replay()


def test_a_rerunnable_job_is_requeued() -> None:
    world = running(world_of(REQUEUE, max_requeue=1), rerunnable=True)
    for attempt in (1, 2):
        number = attempt
        tells(world, idle_gpu(1800.0))
        tells(world, idle_gpu(2400.0), warned=number)
        if attempt == 2:
            break
        (end,) = ends(world)
        assert end.reason == "TERM_GPU_IDLE"
        world.ended(1, exit_code=None, signal=15, term_reason="TERM_GPU_IDLE")
        requeued = next(event for event in world.events if isinstance(event, JobRequeued))
        assert requeued.reason == coded("requeue.idle", "40 min") and requeued.by == ""
        assert world.state(1) == "PEND" and world.job(1).idle_warning is None
        world.check_replay()
        world.settle()
        world.started(1)
    # MAX_JOB_REQUEUE
    assert len(ends(world)) == 1 and world.state(1) == "RUN"
    assert [has_code(event.text, "idle.kept.most_requeues") for event in said(world, JobIdleActed)] == [False, True]
    assert [event.warning.number for event in said(world)] == [1, 2]
    world.check_replay()


def test_another_one_is_not_and_the_history_says_why_once() -> None:
    world = running(world_of(REQUEUE))
    for idle_s in (1800.0, 2400.0, 2430.0, 9000.0):
        tells(world, idle_gpu(idle_s), warned=1)
    assert [event.text for event in said(world, JobIdleActed)] == [coded("idle.kept.not_rerunnable")]
    assert ends(world) == [] and not world.job(1).requeue_by
    world.check_replay()


def test_the_grace_is_measured_in_idle_time_not_by_the_masters_clock() -> None:
    """While no agent looks nothing counts."""
    world = running(world_of(KILL))
    tells(world, idle_gpu(1800.0))
    world.wait(50_000.0)
    tells(world, idle_gpu(1830.0), warned=1)
    assert ends(world) == []


def test_a_killed_master_neither_warns_again_nor_forgets() -> None:
    world = running(world_of(KILL))
    tells(world, idle_gpu(1800.0))
    world.restart()
    world.connect("a", held=[(1, 1)])
    before = len(world.instructions)
    # Whether the agent has told the job is not known: it is ordered again, under the same number.
    tells(world, idle_gpu(1900.0), warned=0)
    assert [order.warning.number for order in world.instructions[before:] if isinstance(order, WarnIdle)] == [1]
    tells(world, idle_gpu(1930.0), warned=1)
    assert len(said(world)) == 1
    tells(world, idle_gpu(2400.0), warned=1)
    assert ends(world)[-1].reason == "TERM_GPU_IDLE"


@pytest.mark.parametrize(
    "gpu",
    [
        idle_gpu(5000.0, is_known=False),
        GpuIdleness(host="a", uuid="GPU-a0"),
        idle_gpu(0.0),
    ],
)
def test_what_is_unknown_or_works_is_let_alone(gpu: GpuIdleness) -> None:
    world = running(world_of(KILL))
    tells(world, gpu)
    assert said(world) == []
    # Nor is a warning taken back by what is unknown.
    tells(world, idle_gpu(1800.0))
    tells(world, gpu, warned=1)
    assert len(said(world, JobIdleOver)) == (gpu.is_known and not gpu.kind)


def test_a_suspended_job_is_let_alone() -> None:
    world = running(world_of(KILL))
    world.control("stop", 1)
    tells(world, idle_gpu(5000.0))
    assert world.state(1) == "USUSP" and said(world) == []
    world.control("resume", 1)
    tells(world, idle_gpu(5000.0))
    assert len(said(world)) == 1


def test_a_job_that_is_ending_is_let_alone() -> None:
    world = running(world_of(KILL))
    world.control("kill", 1)
    tells(world, idle_gpu(5000.0))
    assert said(world) == []


def test_a_job_on_several_hosts_is_idle_when_all_its_gpus_are() -> None:
    world = world_of(KILL, hosts="ab")
    world.run(gpu_spec(1, res_req="span[ptile=1] select[ngpus>0] rusage[ngpus_excl_p=1]", slots=2))
    assert world.state(1) == "RUN" and len(world.job(1).allocation.hosts) == 2  # type: ignore[union-attr]
    tells(world, idle_gpu(5000.0))
    assert said(world) == []  # nobody knows of b
    tells(world, idle_gpu(0.0, host="b"))
    tells(world, idle_gpu(5030.0))
    assert said(world) == []
    tells(world, idle_gpu(1800.0, kind="no_process", host="b"))
    (event,) = said(world)
    assert (event.warning.idle_s, event.warning.kind) == (1800.0, "stopped")
    assert "GPU 0 of b: no process of the job" in sentence(event.warning.text)
    world.disconnect("b")
    tells(world, idle_gpu(9000.0), warned=1)
    assert ends(world) == []  # what b has told is old
    world.connect("b", held=[(1, 1)])
    tells(world, idle_gpu(2400.0, host="b"))
    assert {order.host for order in ends(world)} == {"a", "b"}
    world.check_replay()


def test_the_agent_judges_by_the_limits_of_the_queue() -> None:
    world = running(world_of(KILL))
    tells(world, idle_gpu(5000.0), limits=IdleLimits())
    judge = [order for order in world.instructions if isinstance(order, JudgeIdleness)]
    assert judge == [JudgeIdleness("a", 1, 1, LIMITS)] and said(world) == []
    # A queue without GPU_IDLE goes by the defaults: what gjobs shows.
    world.do(Reconfigure("root", world.with_queue(gpu_idle=None)))
    tells(world, idle_gpu(5000.0))
    assert [order.limits for order in world.instructions if isinstance(order, JudgeIdleness)][1:] == [IdleLimits()]


def test_a_reconfiguration_changes_what_holds_for_running_jobs() -> None:
    world = running(world_of())
    tells(world, idle_gpu(1800.0))
    tells(world, idle_gpu(6000.0), warned=1)
    assert ends(world) == []
    world.reconfigure(world.with_queue(gpu_idle=msgspec.structs.replace(KILL, grace_s=4000.0)))
    tells(world, idle_gpu(6030.0), warned=1)
    assert len(ends(world)) == 1 and len(said(world)) == 1


@pytest.mark.parametrize(("rule", "code"), [(None, "idle.over.no_rule"), (RULE, "idle.over.exempt")])
def test_a_warning_is_taken_back_where_the_rule_is_gone_or_does_not_hold(rule: GpuIdlePolicy | None, code: str) -> None:
    world = running(world_of())
    tells(world, idle_gpu(1800.0))
    if rule is not None:
        rule = msgspec.structs.replace(rule, exempt=((ExemptKind.PROJECT, "default"),))
    world.reconfigure(world.with_queue(gpu_idle=rule))
    limits = LIMITS if rule is not None else IdleLimits()
    tells(world, idle_gpu(1830.0), warned=1, limits=limits)
    assert [event.text for event in said(world, JobIdleOver)] == [coded(code)]
    tells(world, idle_gpu(1860.0), warned=1, limits=limits)
    assert len(said(world)) == 1
    world.check_replay()


@pytest.mark.parametrize(
    ("exempt", "changes", "is_exempt"),
    [
        ({"exempt": ((ExemptKind.PROJECT, "prod"),)}, {"project": "prod"}, True),
        ({"exempt": ((ExemptKind.PROJECT, "prod"),)}, {"project": "production"}, False),
        ({"exempt": ((ExemptKind.USER, "staff"),), "exempt_users": frozenset({"ann", "bob"})}, {}, True),
        ({"exempt": ((ExemptKind.USER, "staff"),), "exempt_users": frozenset({"bob"})}, {}, False),
        ({"exempt": ((ExemptKind.INTERACTIVE, ""),)}, {"interactive": "Is"}, True),
        ({"exempt": ((ExemptKind.INTERACTIVE, ""),)}, {}, False),
        ({"may_ask": True}, {"gpu_idle_ok": "waits for data"}, True),
        ({"may_ask": True}, {}, False),
    ],
)
def test_who_is_exempt(exempt: dict[str, Any], changes: dict[str, Any], is_exempt: bool) -> None:
    world = running(world_of(msgspec.structs.replace(KILL, **exempt)), **changes)
    tells(world, idle_gpu(9000.0))
    assert len(said(world)) == (not is_exempt)


def test_a_queue_may_refuse_the_reason_and_one_without_a_rule_says_that_it_has_none() -> None:
    world = World(make_config("a", (Queue(name="normal", gpu_idle=RULE), Queue(name="free"))))
    with pytest.raises(Exception, match="Queue does not let jobs say that their GPUs may be idle") as refused:
        world.submit(gpu_spec(1, gpu_idle_ok="I want it"))
    assert refused.value.about == ("gpu_idle_ok",)  # type: ignore[attr-defined]
    world.run(gpu_spec(1, gpu_idle_ok="I want it", queue="free"))
    assert world.job(1).spec.warnings == (coded("warning.no_gpu_idle", "free"),)


def test_gmod_gives_and_takes_the_reason_while_the_job_runs() -> None:
    may_ask = msgspec.structs.replace(KILL, may_ask=True)
    world = running(world_of(may_ask))
    tells(world, idle_gpu(1800.0))
    assert "If that is meant: gmod --gpu-idle-ok REASON 1" in posted(world)[0]
    assert world.modify(1, gpu_idle_ok="is measured") == [""]
    tells(world, idle_gpu(9000.0), warned=1)
    assert [event.text for event in said(world, JobIdleOver)] == [coded("idle.over.exempt")] and ends(world) == []
    assert world.modify(1, gpu_idle_ok="") == [""]
    tells(world, idle_gpu(9030.0), warned=1)
    assert len(said(world)) == 2
    (refused,) = running(world_of(KILL)).modify(1, gpu_idle_ok="is measured")
    assert "GPU_IDLE has no ok=yes" in refused
    world.check_replay()


def test_many_gpus_are_told_in_few_words() -> None:
    world = world_of(hosts="a")
    world.connect("a", gpus(8, host="a"))
    world.run(gpu_spec(8))
    tells(world, *(idle_gpu(2000.0, index=index, kind="no_process") for index in range(8)))
    text = sentence(said(world)[0].warning.text)
    assert "All 8 GPU(s)" in text and "GPU 3 of a" in text and "GPU 4 of a" not in text and "4 more" in text


def test_jobs_without_gpus_and_agents_that_tell_nothing_are_let_alone() -> None:
    world = world_of(KILL)
    world.run(spec())
    world.report("a", usage={(1, 1): Usage()})
    world.report("a", usage={(9, 9): Usage()}, idle={(9, 9): AttemptIdleness(gpus=(idle_gpu(9000.0),))})
    assert said(world) == []


def test_every_kind_and_action_has_its_words() -> None:
    world = running(world_of(KILL))
    for kind in ("no_process", "held", "stopped", "faked"):
        tells(world, idle_gpu(1800.0, kind=kind, power_max_w=66.0), warned=9)
        tells(world, idle_gpu(0.0), warned=9)
    texts = [sentence(event.warning.text) for event in said(world)]
    assert len(set(texts)) == 4 and not any(f"idle.{part}." in text for text in texts for part in ("kind", "gpu"))
