"""Users with their slots, groups, definitions, and which hosts a requirement string means."""

from __future__ import annotations

import msgspec
import pytest

from gsched.base.errors import BadRequest, GschedError, NotFound
from gsched.master.rpc.catalogue_service import compute_units, definitions, host_groups, user_groups
from gsched.master.views.application_views import application_views
from gsched.master.views.host_choice import admitted
from gsched.master.views.user_views import user_views
from gsched.model.config import ClusterConfig, Locations
from gsched.model.hosts.resource import Resource, ResourceType
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.queues.application import Application
from gsched.model.queues.user import Share, UserGroup, UserLimits
from gsched.model.views.view import HostView, JobView, ResourceValue

FOLDERS = Locations(**dict.fromkeys(Locations.__struct_fields__, "/x"))
CONFIG = ClusterConfig(
    cluster="c",
    master_host="m",
    locations=FOLDERS,
    resources={
        "bigmem": Resource(name="bigmem", type=ResourceType.BOOLEAN, description="much memory"),
        "ngpus": Resource(name="ngpus", interval_s=60, consumable=False),
        "lic": Resource(name="lic", type=ResourceType.STRING),
    },
    host_types=("LINUX",),
    host_models=("P8",),
    model_factors={"P8": 60.5},
    users={
        "default": UserLimits(name="default", max_jobs=3),
        "ann": UserLimits(name="ann", max_jobs=10, max_jobs_per_processor=1.5, max_pending=7),
        "vision": UserLimits(name="vision", max_jobs=20),
    },
    user_groups={
        "vision": UserGroup(
            name="vision", members=("ann", "inner"), users=("ann", "bob"), shares=(Share("ann", 3),), admins=("ann",)
        )
    },
    host_groups={"gpu": ("h1", "h2")},
    host_members={"gpu": ("h1", "rest"), "rack1": ("h[1-2]",)},
    compute_units={"rack": {"rack1": ("h1", "h2")}},
)


def job(job_id: int, user: str, state: str, slots: int = 1, shares: tuple[float, ...] = ()) -> JobView:
    gpus = tuple(HeldGpu(uuid=str(n), index=n, claim="ngpus_shared", share=share) for n, share in enumerate(shares))
    where = Allocation(hosts=(HostAllocation(host="h1", slots=slots, gpus=gpus),)) if state != "PEND" else None
    spec = JobSpec(command="x", user=user, queue="normal", slots=slots)
    return JobView(job_id=job_id, spec=spec, state=state, submitted_at=1.0, allocation=where)


JOBS = [
    *(job(1, "ann", "RUN", 2, (1.0, 0.5)), job(2, "ann", "PEND", 4), job(3, "bob", "USUSP")),
    *(job(4, "ann", "DONE", 9), job(5, "ann", "SSUSP", 3)),
]


def test_slots_of_users_and_groups() -> None:
    ann, group, bob = user_views(CONFIG, [], JOBS, [], ["ann", "vision/", "bob"])
    assert (ann.pend, ann.run, ann.ssusp, ann.ususp, ann.pending_jobs, ann.started_jobs) == (4, 2, 3, 0, 1, 2)
    assert (ann.max_slots, ann.per_processor, ann.max_pending) == (10, 1.5, 7)
    assert ann.gpus == {"ngpus_shared": 1.5}
    assert (group.name, group.run, group.ususp, group.max_slots) == ("vision/", 2, 1, 20)
    assert bob.max_slots == 3


def test_everybody_who_is_known() -> None:
    found = user_views(CONFIG, [], [*JOBS, job(6, "guest", "PEND")], [], ["all"])
    assert [user.name for user in found] == ["default", "ann", "bob", "guest", "vision/"]
    with pytest.raises(NotFound, match="nobody: Unknown user"):
        user_views(CONFIG, [], JOBS, [], ["ann", "nobody"])


def test_groups_as_written_and_resolved() -> None:
    (group,) = host_groups(CONFIG)
    assert (group.members, group.resolved) == (("h1", "rest"), ("h1", "h2"))
    (unit,) = compute_units(CONFIG)
    assert (unit.name, unit.unit_type, unit.members) == ("rack1", "rack", ("h[1-2]",))
    (users,) = user_groups(CONFIG)
    assert (users.shares, users.admins) == (("[ann, 3]",), ("ann",))


def test_definitions() -> None:
    found = definitions(CONFIG)
    by_name = {each.name: each for each in found.resources}
    assert (by_name["mem"].order, by_name["mem"].interval_s, by_name["mem"].dynamic) == ("Dec", 15, True)
    assert (by_name["r15s"].order, by_name["type"].order, by_name["bigmem"].type) == ("Inc", "N/A", "Boolean")
    assert by_name["ngpus"].dynamic and not by_name["bigmem"].dynamic
    assert (found.models[0].name, found.models[0].cpu_factor) == ("P8", 60.5)


def host(name: str, mem: float, ngpus: float | None, **more: object) -> HostView:
    values: dict[str, object] = {"load": {"mem": mem, "r15s": 1.0}, "ncpus": 8, "type": "LINUX"}
    external = (ResourceValue(name="ngpus", total=ngpus),)
    return HostView(name=name, status="ok", externals=external, **{**values, **more})  # type: ignore[arg-type]


HOSTS = [
    host("m", 100.0, 0.0, server=False),
    host("h1", 500.0, 4.0, resources=("bigmem",), values={"lic": "gold"}),
    host("h2", 900.0, 2.0, slots_free=3),
    host("h3", 300.0, None),
]


@pytest.mark.parametrize(
    ("requirement", "names"),
    [
        ("select[mg]", ["m"]),
        ("select[!mg]", ["h1", "h2", "h3"]),
        ("ngpus>0", ["h1", "h2"]),
        ("select[bigmem && lic=='gold']", ["h1"]),
        ("order[mem]", ["h2", "h1", "h3", "m"]),
        ("order[-mem]", ["m", "h3", "h1", "h2"]),
        ("order[ngpus:mem]", ["h1", "h2", "m", "h3"]),
        ("select[type==local && slots<5]", ["h2"]),
        ("select[mem/ncpus>50] order[ngpus]", ["h1", "h2"]),
        ("", ["m", "h1", "h2", "h3"]),
    ],
)
def test_hosts_that_a_requirement_means(requirement: str, names: list[str]) -> None:
    assert [host.name for host in admitted(HOSTS, requirement, CONFIG)] == names


def test_requirements_that_choose_no_hosts_are_refused() -> None:
    with pytest.raises(GschedError, match="did you mean mem"):
        admitted(HOSTS, "select[memm>1]", CONFIG)
    with pytest.raises(BadRequest, match="only select"):
        admitted(HOSTS, "rusage[mem=5]", CONFIG)


def test_slots_of_application_profiles() -> None:
    profile = Application(
        name="train", run_limit_s=60, limits={"CPULIMIT": 5.0}, task_limit=(1, 2, 3), rerunnable=False
    )
    config = msgspec.structs.replace(CONFIG, applications={"train": profile, "idle": Application(name="idle")})
    jobs = [
        msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, application="train")) for each in JOBS
    ]
    train, idle = application_views(config, [], [*jobs, *JOBS])
    assert (train.pend, train.run, train.ssusp, train.ususp) == (4, 2, 3, 1)
    assert train.facts == {"TASKLIMIT": "1 2 3", "RERUNNABLE": "N"}
    assert (idle.pend, idle.run, idle.facts) == (0, 0, {})
