"""gmod and gswitch: each field, what runs, arrays and elements; what is not admissible changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import START, World, first_words, make_config, spec

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.core.command import ModifyJobs
from gsched.core.instruction import LimitAttempt
from gsched.core.submission.modify import _WORDS, FIXED, RUNNING_TEXT
from gsched.model.config import Params
from gsched.model.event import JobModified, JobSwitched
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue, RunLimits
from gsched.model.queues.user import UserGroup

QUEUES = (
    Queue(name="normal", priority=3, run_limit_s=7200, default_run_limit_s=3600, rerunnable=True,
          limits={"MEMLIMIT": RunLimits(maximum=900.0, default=100.0)}, requeue_exit_values="7"),
    Queue(name="short", priority=5, run_limit_s=600),
    Queue(name="theirs", users=("bob",)),
    Queue(name="onb", hosts=("b",)),
    Queue(name="tasks", task_limit=(2, 4, 8)),
)  # fmt: skip


def full(**changes: Any) -> World:
    """Two hosts whose slots are taken."""
    world = World(make_config("ab", QUEUES, **changes))
    world.run(spec(slots=16, hosts=("a",)), spec(slots=16, hosts=("b",)))
    return world


def test_changes_are_told_in_words() -> None:
    world = full()
    (job_id,) = world.submit(spec("old", queue="normal"))
    tasks = "Number of processors"
    for fields, said in (
        ({"slots": 4, "max_slots": 8}, (f"{tasks} changes to : 4", f"Maximum {tasks.lower()} changes to : 8")),
        ({"slots": 1, "max_slots": 0}, (f"{tasks} changes to : 1", f"Maximum {tasks.lower()} changes to : (nothing)")),
        ({"rerunnable": False}, ("Rerunnable changes to : no",)),
        ({"requeue_exit_values": "5 6"}, ("Requeue exit values changes to : 5 6",)),
        ({"begin_at": 1795305540.0}, ("Start time changes to : 2026-11-21 23:59:00 UTC",)),
        ({"run_limit_s": 1200}, ("Run limit changes to : 20 min",)),
        ({"limits": {"MEMLIMIT": 500.0}}, ("Resource limits changes to : MEMLIMIT=500",)),
    ):  # fmt: skip
        assert world.modify(job_id, **fields) == [""]
        assert [event.changes for event in world.events if isinstance(event, JobModified)][-1] == said


def test_every_field_that_can_be_changed_has_a_name() -> None:
    assert set(JobSpec.__struct_fields__) - FIXED <= _WORDS.keys()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": "other"}, {"name": "other"}),
        ({"command": "sleep 9"}, {"command": "sleep 9"}),
        ({"project": "p2"}, {"project": "p2"}),
        ({"description": "why"}, {"description": "why"}),
        ({"slots": 4, "max_slots": 8}, {"slots": 4, "max_slots": 8}),
        ({"res_req": "rusage[mem=5]"}, {"combined_req": "select[type == local] order[r15s:pg] rusage[mem=5.00]"}),
        ({"gpu_req": "num=2:mode=exclusive_process"}, {"gpu_req": "num=2:mode=exclusive_process"}),
        ({"hosts": ("both",)}, {"hosts": ("a", "b")}),
        ({"run_limit_s": 60}, {"run_limit_s": 60}),
        ({"run_limit_s": None}, {"run_limit_s": 3600}),
        ({"limits": {"MEMLIMIT": 500.0}}, {"limits": {"MEMLIMIT": 500.0}}),
        ({"rerunnable": False}, {"rerunnable": False}),
        ({"requeue_exit_values": "all ~0"}, {"requeue_exit_values": "all ~0"}),
        ({"begin_at": START + 99}, {"begin_at": START + 99}),
        ({"terminate_at": START + 99}, {"terminate_at": START + 99}),
        ({"priority": 9}, {"priority": 9}),
        ({"group": "/x//y"}, {"group": "/x/y"}),
        ({"user_group": "lab"}, {"user_group": "lab"}),
        ({"dependency": "ended(1)"}, {"conditions": "ended(1)"}),
        ({"output_file": "o.%J"}, {"output_file": "o.%J"}),
        ({"queue": "short", "run_limit_s": 300}, {"queue": "short", "run_limit_s": 300}),
    ],
)
def test_each_field_of_a_waiting_job_can_be_changed(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    world = full(
        params=Params(max_user_priority=10),
        user_groups={"lab": UserGroup(name="lab", users=("ann",))},
        host_groups={"both": ("a", "b")},
    )
    (job_id,) = world.submit(spec("old", queue="normal"))
    assert world.modify(job_id, **fields) == [""]
    made = world.job(job_id).spec
    assert {name: getattr(made, name) for name in expected} == expected
    event = world.events[-1]
    assert isinstance(event, JobModified) and event.spec == made
    world.settle()
    assert world.reasons(job_id)
    world.check_replay()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"queue": "nowhere"}, "nowhere: No such queue"),
        ({"queue": "theirs"}, "theirs: User cannot use the queue"),
        ({"queue": "onb", "hosts": ("a",)}, "a: Host or host group is not used by the queue"),
        ({"slots": 99}, "Too many processors requested"),
        ({"slots": 4, "max_slots": 2}, "4,2 processors: Bad argument"),
        ({"res_req": "select[nonsense>1]"}, "Bad resource name: nonsense"),
        ({"gpu_req": "num=x"}, "Bad GPU requirement"),
        ({"run_limit_s": 9000}, "Cannot exceed queue's hard limit(s)"),
        ({"limits": {"MEMLIMIT": 999.0}}, "Cannot exceed queue's hard limit(s)"),
        ({"hosts": ("z",)}, "z: Bad host name"),
        ({"priority": 2}, "Job priority control undefined"),
        ({"dependency": "done(99)"}, "job 99 is not known"),
        ({"dependency": "done("}, "Dependency condition syntax error"),
        ({"exclusive": True}, "Queue does not accept EXCLUSIVE jobs"),
        ({"group": "x"}, "Bad job group name"),
        ({"terminate_at": 5.0}, "the termination time is over"),
        ({"command": "  "}, "No command is specified"),
        ({"array_limit": 3}, "a slot limit without an index list"),
        ({"name": "good", "slots": 0}, "0 processors: Bad argument"),
    ],
)
def test_what_is_not_admissible_changes_nothing(fields: dict[str, Any], said: str) -> None:
    world = full()
    (job_id,) = world.submit(spec("old", queue="normal"))
    before, events = world.engine.state.dump(), len(world.events)
    (error,) = world.modify(job_id, **fields)
    assert said in error
    assert world.engine.state.dump() == before and len(world.events) == events


def test_what_nobody_changes_is_refused_by_name() -> None:
    world = full()
    for fields in ({"user": "bob"}, {"indices": "1-3"}, {"conditions": "done(1)"}, {"defaulted": ("slots",)}, {}):
        with pytest.raises(BadRequest, match="this cannot be changed"):
            world.modify(1, **fields)
    assert first_words(world.modify(1, user="bob", name="x")) == ["User permission denied"]
    assert world.modify(77, name="x") == ["No matching job found"]


def test_of_a_started_job_only_what_still_counts_is_changed() -> None:
    world = full()
    text = RUNNING_TEXT
    assert world.modify(1, slots=2) == [text]
    assert world.modify(1, name="x", description="y") == [text]
    (answer,) = world.do(ModifyJobs("ann", False, (1,), spec(name="x", slots=2), ("name", "slots", "rerunnable")))
    assert (answer.about, answer.refused_as) == (("name", "slots"), "FAILED_PRECONDITION")
    (answer,) = world.do(ModifyJobs("bob", False, (1,), spec(rerunnable=True), ("rerunnable",)))
    assert answer.refused_as == "PERMISSION_DENIED"
    assert world.modify(1, rerunnable=False, requeue_exit_values="3", description="y", estimate_s=60) == [""]
    made = world.job(1).spec
    assert (made.rerunnable, made.requeue_exit_values, made.description, made.estimate_s) == (False, "3", "y", 60)
    assert world.job(1).allocation is not None and made.slots == 16
    world.ended(1, exit_code=3)
    assert world.state(1) == "PEND"
    world.control("kill", 1)
    assert world.modify(1, description="z") == ["Job has already finished"]
    world.check_replay()


def limits_told(world: World) -> list[tuple[str, int, int]]:
    return [(each.host, each.job_id, each.attempt) for each in world.instructions if isinstance(each, LimitAttempt)]


def test_limits_of_a_started_job_are_changed_and_its_agent_is_told() -> None:
    world = full()
    assert world.job(1).spec.limits == {"MEMLIMIT": 100.0} and not limits_told(world)
    assert world.modify(1, run_limit_s=600, limits={"MEMLIMIT": 500.0, "PROCESSLIMIT": 9.0}) == [""]
    assert limits_told(world) == [("a", 1, 1)]
    made = world.job(1).spec
    assert (made.run_limit_s, made.limits) == (600, {"MEMLIMIT": 500.0, "PROCESSLIMIT": 9.0})
    assert world.engine.state.running[1].ends_at == START + 600, "the policies reckon with the new end"
    assert world.modify(1, run_limit_s=None, limits={}) == [""]
    made = world.job(1).spec
    assert (made.run_limit_s, made.limits) == (3600, {"MEMLIMIT": 100.0}), "what the queue gives where nothing is said"
    assert world.modify(1, run_limit_s=9000) == [
        "Cannot exceed queue's hard limit(s): 150 minutes, queue normal allows 120"
    ]
    assert world.modify(1, limits={"MEMLIMIT": 901.0}) == [
        "Cannot exceed queue's hard limit(s): MEMLIMIT 901 MB, queue normal allows 900 MB"
    ]
    assert world.modify(1, limits={"MEMLIMIT": 100.0, "FILELIMIT": 7.0}) == [
        "Job has already started: its processes got their FILELIMIT when they began"
    ]
    world.check_replay()


def test_an_agent_that_was_away_is_told_the_limits_when_it_is_back() -> None:
    world = full()
    world.disconnect("a")
    assert world.modify(1, run_limit_s=600) == [""]
    world.restart()
    told = len(world.instructions)
    world.hello("a", held=[(1, 1)])
    assert LimitAttempt("a", 1, 1) in world.instructions[told:]
    world.hello("b", held=[(2, 1)])
    assert LimitAttempt("b", 2, 1) not in world.instructions
    world.ended(1, exit_code=7)
    world.settle()
    assert not world.job(1).relimited, "the next attempt is started with them"


def test_started_elements_follow_their_array() -> None:
    world = World(make_config("a", QUEUES))
    (array_id,) = world.run(spec(slots=8, name="x", indices="1-4"))
    one, three = element_id(array_id, 1), element_id(array_id, 3)
    assert world.modify(array_id, run_limit_s=600) == [""]
    assert {world.job(one).spec.run_limit_s, world.engine.state.item(array_id).spec.run_limit_s} == {600}
    assert world.modify(array_id, queue="short") == [""]
    assert world.job(one).spec.queue == "short" and world.state(one) == "RUN"
    assert world.modify(array_id, slots=4) == [""], "elements that wait can still be changed otherwise"
    assert world.job(one).spec.slots == 8 and world.engine.state.item(array_id).spec.slots == 4
    world.settle()
    assert three not in world.engine.state.jobs
    world.check_replay()


def test_without_n_the_queue_says_how_many_tasks() -> None:
    world = full()
    (job_id,) = world.submit(spec(queue="tasks", slots=2))
    taken_back = spec(slots=1, max_slots=0, defaulted=("slots",))
    world.do(ModifyJobs("ann", False, (job_id,), taken_back, ("slots", "max_slots")))
    assert world.job(job_id).spec.slots == 4
    assert world.modify(job_id, queue="normal") == [""]
    assert world.job(job_id).spec.slots == 1
    world.check_replay()


def test_a_switch_gives_what_the_new_queue_gives() -> None:
    world = full()
    plain, own = world.submit(spec(), spec(run_limit_s=300, limits={"MEMLIMIT": 50.0}, rerunnable=False))
    assert world.job(plain).spec.limits == {"MEMLIMIT": 100.0}
    assert world.modify(plain, queue="short") == [""] and world.modify(own, queue="short") == [""]
    assert isinstance(world.events[-1], JobSwitched)
    made = world.job(plain).spec
    assert (made.run_limit_s, made.limits, made.rerunnable, made.requeue_exit_values) == (600, {}, False, "")
    made = world.job(own).spec
    assert (made.run_limit_s, made.limits, made.rerunnable) == (300, {"MEMLIMIT": 50.0}, False)
    assert world.modify(plain, queue="normal") == [""]
    made = world.job(plain).spec
    assert (made.run_limit_s, made.limits, made.rerunnable) == (3600, {"MEMLIMIT": 100.0}, True)
    assert world.modify(plain, run_limit_s=900) == [""]  # from now on it is the job's own
    assert world.modify(plain, queue="short") == [
        "Cannot exceed queue's hard limit(s): 15 minutes, queue short allows 10"
    ]
    world.check_replay()


def test_a_running_job_is_switched_with_what_it_holds() -> None:
    world = full()
    assert world.engine.state.tally.queue_slots == {"normal": 32}
    assert world.modify(1, queue="short") == [""]
    assert world.engine.state.tally.queue_slots == {"normal": 16, "short": 16}
    assert world.state(1) == "RUN" and world.job(1).spec.queue == "short"
    assert world.modify(1, queue="theirs") == [
        "theirs: User cannot use the queue: for bob and administrators of the cluster (root)"
    ]
    world.check_replay()


def test_jobs_of_a_queue_that_is_closed_or_gone_can_be_changed_and_switched() -> None:
    world = full()
    (job_id,) = world.submit(spec(queue="short"))
    world.queues("close", "short")
    assert world.modify(job_id, slots=2) == [""]
    assert world.modify(job_id, queue="normal") == [""]
    assert world.modify(job_id, queue="short") == ["short: Queue has been closed"]
    assert world.modify(job_id, queue="onb") == [""]
    world.reconfigure(make_config("ab", QUEUES[:1]))
    world.settle()
    assert world.reasons(job_id) == ("The queue onb no longer exists",)
    assert world.modify(job_id, slots=1) == ["onb: No such queue"]
    assert world.modify(job_id, queue="normal") == [""]
    world.ended(1)
    world.settle()
    assert world.state(job_id) == "RUN"


def test_names_in_what_stays_are_not_looked_up_again() -> None:
    world = full()
    (first,) = world.submit(spec(name="prepare"))
    (job_id,) = world.submit(spec(dependency='ended("prepare")'))
    world.control("kill", first)
    world.wait(4000)
    world.settle()
    assert first not in world.engine.state.jobs
    assert world.modify(job_id, slots=2) == [""]
    world.ended(1)
    world.settle()
    assert world.state(job_id) == "RUN"


def test_an_array_is_changed_whole_or_by_element() -> None:
    world = full()
    (array,) = world.submit(spec(name="a", indices="1-4"))
    third = element_id(array, 3)
    assert world.modify(third, slots=2) == [""]
    assert world.job(third).spec.slots == 2 and world.engine.state.arrays[array].spec.slots == 1
    assert world.modify(array, project="p2", array_limit=1) == [""]
    assert world.engine.state.arrays[array].spec.project == world.job(third).spec.project == "p2"
    world.ended(1)
    world.settle()
    states = [job.state.value for job in world.engine.state.jobs.values() if job.array_id == array]
    assert states.count("RUN") == 1
    assert world.modify(array, slots=99)[0].startswith("Too many processors")
    assert world.modify(array, queue="onb") == [""]
    world.check_replay()


def test_a_condition_may_come_and_go() -> None:
    world = full()
    (job_id,) = world.submit(spec())
    world.modify(job_id, dependency="done(1)")
    world.settle()
    assert world.reasons(job_id) == ("Job dependency condition not satisfied (done(1): job 1 is RUN)",)
    world.modify(job_id, dependency="started(1)")  # which is so already
    world.settle()
    assert not world.reasons(job_id)[0].startswith("Job dependency")
    world.modify(job_id, dependency="done(2)")
    world.modify(job_id, dependency="")
    world.settle()
    assert not world.engine.state.waits.dependents
    assert world.modify(job_id, dependency=f"done({job_id})")[0].startswith("A cycle of dependencies")


def test_the_default_number_of_tasks_is_the_queues() -> None:
    world = full()
    plain, own = world.submit(spec(queue="tasks", defaulted=("slots",)), spec(queue="tasks", slots=3))
    assert (world.job(plain).spec.slots, world.job(own).spec.slots) == (4, 3)
    world.modify(plain, queue="normal")
    assert world.job(plain).spec.slots == 1
    world.modify(own, queue="normal")
    assert world.job(own).spec.slots == 3


def test_a_job_that_is_named_twice_is_changed_twice() -> None:
    world = full()
    (array,) = world.submit(spec(name="a", indices="1-3"))
    second = element_id(array, 2)
    assert world.modify(second, second, array, project="p") == ["", "", ""]
    assert world.control("kill", second, array, second, array, 77) == [
        "", "", "Job has already finished", "Job has already finished", "No matching job found",
    ]  # fmt: skip
    world.check_replay()
