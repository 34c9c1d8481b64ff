"""Queues that are closed and inactivated; job groups: made on demand, limited, removed; who may do it."""

from __future__ import annotations

import pytest
from core_world import World, first_words, make_config, spec

from gsched.base.errors import BadRequest, PermissionDenied
from gsched.base.ids import element_id
from gsched.core.command import ControlQueues
from gsched.core.records.entities import JobGroup
from gsched.core.state.cluster_state import ClusterState
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import UserGroup

QUEUES = (Queue(name="normal", administrators=("carl",)), Queue(name="night"))


# -- queues -----------------------------------------------------------------------------------------------------------


def test_a_closed_queue_takes_no_jobs_and_goes_on_with_those_it_has() -> None:
    world = World(make_config(queues=QUEUES))
    (waiting,) = world.submit(spec())
    assert world.queues("close", "normal", user="carl", comment="full") == ["Queue <normal> is closed"]
    with pytest.raises(BadRequest, match="normal: Queue has been closed"):
        world.submit(spec())
    world.settle()
    assert world.state(waiting) == "RUN"
    assert world.queues("open", "normal") == ["Queue <normal> is opened"]
    assert world.submit(spec()) == [2]
    world.check_replay()


def test_an_inactive_queue_takes_jobs_and_starts_none() -> None:
    world = World(make_config(queues=QUEUES))
    (running,) = world.run(spec())
    world.queues("inactivate", "all", comment="maintenance")
    job_id, array = world.submit(spec(), spec(name="a", indices="1-3"))
    world.settle()
    text = "The queue is inactivated by the administrator: maintenance"
    assert world.reasons(job_id) == (text,) == world.reasons(array)
    assert world.state(running) == "RUN"
    world.queues("close", "normal")  # the one does not undo the other
    world.queues("activate", "normal")
    world.settle()
    assert world.state(job_id) == world.state(element_id(array, 3)) == "RUN"
    with pytest.raises(BadRequest, match="Queue has been closed"):
        world.submit(spec())
    world.check_replay()


def test_who_may_do_what_to_queues() -> None:
    world = World(make_config(queues=QUEUES))
    for names, user, kind, said in (
        (("normal", "night"), "carl", PermissionDenied, "night: User permission denied"),
        (("normal",), "ann", PermissionDenied, "normal: User permission denied"),
        (("normal", "nowhere"), "root", BadRequest, "nowhere: No such queue"),
    ):
        with pytest.raises(kind, match=said):
            world.queues("close", *names, user=user)
    with pytest.raises(BadRequest, match="'paint' is not something"):
        world.do(ControlQueues("root", True, "paint", ("normal",)))
    assert world.engine.state.queue_states == {}


# -- job groups -------------------------------------------------------------------------------------------------------


def test_a_group_is_made_on_demand_and_goes_with_its_last_job() -> None:
    world = World()
    job_id, array = world.run(spec(group="/risk/night"), spec(name="a", indices="1-2", group="/risk"))
    assert set(world.engine.state.groups) == {"/risk", "/risk/night"}
    world.ended(job_id)
    world.wait(4000)
    assert set(world.engine.state.groups) == {"/risk"}
    world.control("kill", array)
    for index in (1, 2):
        world.ended(element_id(array, index), exit_code=None, signal=9)
    world.wait(4000)
    assert world.engine.state.groups == {}
    world.check_replay()


def test_a_limit_counts_the_jobs_of_the_group_and_of_those_below() -> None:
    world = World()
    assert world.groups("add", "/risk", job_limit=2) == [""]
    ids = world.submit(*[spec(group="/risk/a")] * 2, *[spec(group="/risk/b")] * 2, spec(group="/other"))
    world.settle()
    assert [world.state(job_id) for job_id in ids] == ["RUN", "RUN", "PEND", "PEND", "RUN"]
    assert world.reasons(ids[3])[0].startswith("The specified job group has reached its job limit (2 of 2")
    assert world.engine.state.tally.group_jobs == {"/risk/a": 2, "/risk": 2, "/other": 1}
    assert world.groups("modify", "/risk", job_limit=3) == [""]
    world.settle()
    assert [world.state(job_id) for job_id in ids[2:4]] == ["RUN", "PEND"]
    assert world.groups("modify", "/risk") == [""]  # no limit any more
    world.settle()
    assert world.state(ids[3]) == "RUN"
    world.check_replay()


def test_only_empty_groups_are_removed() -> None:
    world = World()
    (job_id,) = world.run(spec(group="/risk/night"))
    used, below = "The group has jobs in it", "The group /risk/night in it has jobs"
    assert world.groups("remove", "/risk/night", "/risk", "/nowhere", user="root") == [used, below, "No such job group"]
    world.ended(job_id)
    assert world.groups("remove", "/risk", user="root") == [""]  # and what is below it
    assert world.engine.state.groups == {}
    assert ClusterState.load(world.engine.state.dump()).groups == {}, "the job has ended, and is still remembered"
    assert world.order("requeue", job_id, states=("DONE",)) == [""]
    assert set(world.engine.state.groups) == {"/risk", "/risk/night"}
    world.settle()
    world.control("kill", job_id)
    world.ended(job_id, 2, exit_code=None, signal=9)
    world.wait(4000)
    assert world.engine.state.groups == {}
    world.check_replay()


def test_groups_made_by_name_stay_and_belong_to_their_makers() -> None:
    world = World()
    assert world.groups("add", "/mine", "/mine/sub") == ["", ""]
    assert world.groups("add", "/mine") == ["The group already exists"]
    assert first_words(world.groups("modify", "/mine", user="bob", job_limit=1)) == ["User permission denied"]
    assert first_words(world.groups("remove", "/mine/sub", user="bob")) == ["User permission denied"]
    assert world.groups("modify", "/mine", user="root", job_limit=5) == [""]
    assert world.engine.state.groups["/mine"] == JobGroup(5, "root", "ann")
    (job_id,) = world.run(spec(group="/mine"), user="bob")
    world.ended(job_id)
    world.wait(4000)
    assert "/mine" in world.engine.state.groups
    assert world.groups("remove", "/mine/sub", "/mine") == ["", ""]
    world.check_replay()


@pytest.mark.parametrize("name", ["risk", "/", "/a/../b", "/" + "x" * 600, "/a/ b", "/50%"])
def test_bad_names_refuse_the_whole_command(name: str) -> None:
    world = World()
    with pytest.raises(BadRequest, match="Bad job group name"):
        world.groups("add", "/good", name)
    assert world.engine.state.groups == {}
    with pytest.raises(BadRequest):
        world.submit(spec(group=name))
    with pytest.raises(BadRequest, match="a job limit of -2"):
        world.groups("add", "/good", job_limit=-2)


def test_jobs_change_groups() -> None:
    world = World()
    running, array = world.run(spec(group="/a"), spec(name="x", indices="1-2", group="/a/b", hold=True))
    assert world.modify(array, group="/c") == [""]
    assert set(world.engine.state.groups) == {"/a", "/c"}
    assert world.modify(array, group="") == [""]
    assert set(world.engine.state.groups) == {"/a"}
    world.ended(running)
    world.check_replay()


# -- who may control jobs ---------------------------------------------------------------------------------------------


def test_group_administrators_control_the_jobs_of_their_members() -> None:
    groups = {"lab": UserGroup(name="lab", users=("ann",), admins=("dora",))}
    world = World(make_config(queues=QUEUES, user_groups=groups))
    mine, his = world.run(spec(), user="ann")[0], world.run(spec(), user="bob")[0]
    assert first_words(world.control("stop", mine, his, user="dora")) == ["", "User permission denied"]
    assert world.modify(mine, description="x", user="dora") == [""]
    assert world.control("stop", his, user="carl") == [""]  # the queue's administrator


@pytest.mark.parametrize("running", [True, False])
def test_what_an_administrator_has_stopped_its_owner_cannot_resume(running: bool) -> None:
    world = World()
    (job_id,) = world.run(spec(hold=not running))
    stopped = "USUSP" if running else "PSUSP"
    assert world.control("stop", job_id) == [""]
    assert world.control("stop", job_id, user="root") == [""]  # what she stopped he stops too
    assert world.state(job_id) == stopped
    if not running:
        assert world.reasons(job_id) == ("The job was suspended by LSF admin or root while pending",)
    assert world.control("stop", job_id) == [""]
    assert first_words(world.control("resume", job_id)) == ["User permission denied"]
    assert world.state(job_id) == stopped
    assert world.control("resume", job_id, user="root") == [""]
    assert world.state(job_id) == ("RUN" if running else "PEND")
    assert world.control("stop", job_id) == [""] == world.control("resume", job_id)
    world.check_replay()


def test_the_same_holds_of_arrays() -> None:
    world = World()
    (array,) = world.submit(spec(name="a", indices="1-3", hold=True))
    assert world.control("resume", array) == [""] == world.control("stop", array, user="root")
    assert first_words(world.control("resume", array, element_id(array, 2))) == ["User permission denied"] * 2
    assert world.control("resume", element_id(array, 2), user="root") == [""]
    world.settle()
    assert [job.job_id for job in world.engine.state.jobs.values()] == [element_id(array, 2)]
    world.check_replay()


def test_jobs_that_name_no_group_are_in_the_one_of_the_site() -> None:
    world = World()
    world.reconfigure(world.with_params(default_job_group="/of/%p/%u"))
    plain, own, pattern = world.submit(spec(project="p1"), spec(group="/mine"), spec(group="/to/%u"))
    groups = [world.job(number).spec.group for number in (plain, own, pattern)]
    assert groups == ["/of/p1/ann", "/mine", "/to/ann"]
    assert world.modify(own, group="") == [""] and world.job(own).spec.group == ""
    with pytest.raises(BadRequest, match="Bad job group name"):
        world.submit(spec(group="/to/%x"))


@pytest.mark.parametrize(
    ("project", "part"),
    [("a/b", "a_b"), ("/", "_"), (".", "_"), ("..", "_"), ("50%p", "50_p"), (" x ", "x"), ("a.b", "a.b")],
)
def test_a_project_is_one_part_of_the_path_of_a_job_group(project: str, part: str) -> None:
    world = World()
    world.reconfigure(world.with_params(default_job_group="/of/%p/%u"))
    (job_id,) = world.submit(spec(project=project))
    assert world.job(job_id).spec.group == f"/of/{part}/ann"
