"""Roles: who controls whose jobs, who sees and says what they run, and who rules queues, hosts and reservations."""

from __future__ import annotations

import pytest
from core_world import World, make_config, spec

from gsched.base.errors import PermissionDenied
from gsched.core.command import ControlHosts, ControlQueues, ControlReservations, ModifyJobs
from gsched.core.roles import ACTS_FOR_OWNER, DENIED, Caller
from gsched.model.job import JobSpec
from gsched.model.queue import Queue
from gsched.model.room_view import ReservationView
from gsched.model.user import UserGroup

QUEUES = (Queue(name="normal", priority=3, administrators=("quentin",)), Queue(name="other"))
GROUPS = {"lab": UserGroup(name="lab", users=("ann",), admins=("gwen",))}
CONFIG = make_config(queues=QUEUES, user_groups=GROUPS, administrators=("boss",))
ADMINS = ("boss",)


def caller(user: str) -> Caller:
    return Caller(user, user in ADMINS)


def job(user: str = "ann", queue: str = "normal") -> JobSpec:
    return JobSpec(command="run", user=user, queue=queue)


@pytest.mark.parametrize(
    ("user", "spec", "touches", "speaks"),
    [
        ("ann", job(), True, True),
        ("bob", job(), False, False),
        ("gwen", job(), True, False),
        ("gwen", job(user="bob"), False, False),
        ("quentin", job(user="bob"), True, False),
        ("quentin", job(user="bob", queue="other"), False, False),
        ("boss", job(user="bob", queue="other"), True, True),
        ("boss", job(user="root"), True, False),
        ("root", job(), False, False),  # root is nobody special: ClusterAdmins may name it
        ("root", job(user="root"), True, True),
    ],
)
def test_who_controls_a_job_and_who_speaks_for_its_owner(user: str, spec: JobSpec, touches: bool, speaks: bool) -> None:
    assert caller(user).may_touch(spec, CONFIG) is touches
    assert caller(user).speaks_for(spec) is speaks


def modified(world: World, user: str, job_id: int, **fields: object) -> str:
    command = ModifyJobs(user, user in ADMINS, (job_id,), spec(**fields), tuple(fields))
    (result,) = world.do(command)
    return str(result.error)


def test_who_controls_a_job_does_not_run_his_own_commands_as_its_owner() -> None:
    world = World(CONFIG)
    world.hosts("close", "a", user="root")
    mine, roots = world.submit(spec(), user="ann")[0], world.submit(spec(), user="root")[0]
    for user in ("gwen", "quentin"):
        assert modified(world, user, mine, run_limit_s=60) == ""
        for name in ("command", "pre_exec", "post_exec", "output_file", "error_file", "input_file", "specified_cwd"):
            assert modified(world, user, mine, **{name: "/bin/evil"}) == DENIED
        assert modified(world, user, mine, run_limit_s=60, file_copies=("/etc/shadow > x",)) == DENIED
    assert modified(world, "boss", mine, command="better") == ""
    assert modified(world, "boss", roots, command="worse") == DENIED
    assert world.job(mine).spec.command == "better" and world.job(roots).spec.command == "run"
    assert frozenset(JobSpec.__struct_fields__) >= ACTS_FOR_OWNER


def test_strangers_do_nothing_to_a_job_whatever_it_is() -> None:
    world = World(CONFIG)
    (mine,) = world.run(spec(), user="ann")
    before = list(world.events)
    for action in ("kill", "stop", "resume", "requeue", "top", "bottom", "post", "run"):
        assert world.order(action, mine, user="bob", hosts=("a",) if action == "run" else ()) == [DENIED]
    assert world.order("signal", mine, user="bob", signal=9) == [DENIED]
    assert modified(world, "bob", mine, run_limit_s=60) == DENIED
    assert world.events == before


def test_hosts_queues_and_reservations_are_for_their_administrators() -> None:
    world = World(CONFIG)
    for user in ("ann", "gwen", "quentin", "root"):
        with pytest.raises(PermissionDenied):
            world.do(ControlHosts(user, user in ADMINS, "close", ("a",)))
        with pytest.raises(PermissionDenied):
            world.do(ControlReservations(user, user in ADMINS, "add", ReservationView(name="r", users=(user,))))
        with pytest.raises(PermissionDenied):
            world.do(ControlQueues(user, user in ADMINS, "close", ("other",)))
    world.do(ControlQueues("quentin", False, "close", ("normal",)))
    with pytest.raises(PermissionDenied):  # all or none
        world.do(ControlQueues("quentin", False, "open", ("normal", "other")))
    assert not world.engine.state.queue_states["normal"].is_open


def test_only_administrators_force_a_job_to_run() -> None:
    world = World(CONFIG)
    (mine,) = world.submit(spec(hold=False), user="ann")
    for user in ("ann", "gwen", "quentin"):
        assert world.order("run", mine, user=user, hosts=("a",)) == [DENIED]
