"""Roles: who controls whose jobs, who sees and says what they run, and who rules queues, hosts and reservations."""

from __future__ import annotations

import msgspec
import pytest
from core_world import World, first_words, make_config, spec

from gsched.base.coded_text import sentence
from gsched.base.errors import PermissionDenied
from gsched.core import authorization
from gsched.core.authorization import ACTS_FOR_OWNER, DENIED, Caller
from gsched.core.command import ControlGroups, ControlHosts, ControlQueues, ControlReservations, ModifyJobs
from gsched.model.config import Network
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import UserGroup
from gsched.model.views.room_view import ReservationView

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
    return str(result.error).partition(": for ")[0]


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


def test_who_may_use_a_service_is_its_owners_to_say() -> None:
    world = World(CONFIG)
    (mine,) = world.run(spec(service="auto"), user="ann")
    for user in ("gwen", "quentin", "bob"):
        assert modified(world, user, mine, service_users=(user,)) == DENIED
    assert modified(world, "ann", mine, service_users=("bob",)) == ""
    assert world.job(mine).spec.service_users == ("bob",)


def test_strangers_do_nothing_to_a_job_whatever_it_is() -> None:
    world = World(CONFIG)
    (mine,) = world.run(spec(), user="ann")
    before = list(world.events)
    for action in ("kill", "stop", "resume", "requeue", "top", "bottom", "post"):
        assert first_words(world.order(action, mine, user="bob")) == [DENIED]
    assert first_words(world.order("run", mine, user="bob", hosts=("a",))) == [DENIED]
    assert first_words(world.order("signal", mine, user="bob", signal=9)) == [DENIED]
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
        assert first_words(world.order("run", mine, user=user, hosts=("a",))) == [DENIED]


def test_who_is_refused_is_told_who_may_and_from_where() -> None:
    world = World(CONFIG)
    (mine,) = world.run(spec(), user="ann")
    told = "User permission denied: for its owner (ann), administrators of the owner's groups (gwen), "
    of_queue, of_cluster = "administrators of queue normal (quentin)", "administrators of the cluster (boss)"
    assert world.order("kill", mine, user="bob") == [f"{told}{of_queue} and {of_cluster}"]
    assert authorization.owner_denied(job(), CONFIG) == f"{DENIED}: for its owner (ann) and {of_cluster}"
    assert authorization.owner_denied(job(user="root"), CONFIG) == f"{DENIED}: for its owner (root)"
    assert authorization.queue_denied("normal", CONFIG) == f"{DENIED}: for {of_queue} and {of_cluster}"
    theirs = Queue(name="theirs", users=("ann", "gwen"), excluded_users=("gwen",))
    assert (
        sentence(authorization.queue_closed_to_user(theirs, CONFIG))
        == f"theirs: User cannot use the queue: for ann and {of_cluster}"
    )
    shared = msgspec.structs.replace(CONFIG, network=Network(port=1), admin_hosts=("a", "h2"))
    assert authorization.cluster_denied(shared) == f"{DENIED}: for administrators of the cluster (boss from a h2)"
    shared = msgspec.structs.replace(shared, administrators=tuple("abcdefg"), admin_hosts=())
    assert authorization.cluster_denied(shared) == f"{DENIED}: for administrators of the cluster (a b c d e ... from a)"
    everywhere = msgspec.structs.replace(shared, administrators=(), admin_hosts=("all",))
    assert authorization.cluster_denied(everywhere) == f"{DENIED}: for administrators of the cluster (none)"


def test_who_may_not_open_and_close_a_host_is_told_whose_it_is() -> None:
    of_cluster = "administrators of the cluster (boss)"
    world = World(
        msgspec.structs.replace(
            make_config(hosts=("a", "b", "c"), administrators=("boss",)),
            host_groups={"rack": ("a", "b"), "all_gpu": ("b", "c")},
            host_group_admins={"rack": ("rita", "rolf"), "all_gpu": ("gus",)},
        )
    )

    def refused(user: str, *hosts: str) -> str:
        with pytest.raises(PermissionDenied) as caught:
            world.do(ControlHosts(user, False, "close", hosts))
        return caught.value.text

    of_rack, of_gpu = "administrators of host group rack (rita rolf)", "administrators of host group all_gpu (gus)"
    assert refused("bob", "a") == f"a: {DENIED}: for {of_rack} and {of_cluster}"
    assert refused("rita", "a", "c") == f"c: {DENIED}: for {of_gpu} and {of_cluster}"
    assert refused("bob", "b") == f"b: {DENIED}: for {of_rack}, {of_gpu} and {of_cluster}"
    assert authorization.host_denied("elsewhere", world.engine.config) == f"{DENIED}: for {of_cluster}"


def test_who_may_not_change_a_job_group_or_end_lost_runs_is_told_who_may() -> None:
    world = World(CONFIG)
    world.do(ControlGroups("ann", False, "add", ("/a",)))
    world.do(ControlGroups("bob", False, "add", ("/a/b",)))
    (answer,) = world.do(ControlGroups("eve", False, "remove", ("/a/b",)))
    of_cluster = "administrators of the cluster (boss)"
    assert answer.error == f"{DENIED}: for its owner (bob), owners of groups above it (ann) and {of_cluster}"
    (answer,) = world.do(ControlGroups("eve", False, "modify", ("/a",), 3))
    assert answer.error == f"{DENIED}: for its owner (ann) and {of_cluster}"
    (answer,) = world.do(ControlGroups("ann", False, "remove", ("/a/b",)))
    assert answer.error == ""
