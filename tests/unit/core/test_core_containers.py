"""Jobs in containers: what the site allows, which hosts can run them, what their queue says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_world import World, load, make_config
from core_world import spec as any_spec

from gsched.base.errors import BadRequest
from gsched.model.config import Params
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.application import Application
from gsched.model.queues.queue import Queue

IMAGE = "docker://a/b"
SITE = "docker[image(site/x) options(-v /opt/site:/opt/site:ro)]"


def spec(**changes: Any) -> JobSpec:
    return any_spec(**{"cwd": "/work"} | changes)


def world_of(runtimes: str = "podman", **params: Any) -> World:
    """Hosts a and b; the programs are on a."""
    queues = (Queue(name="normal"), Queue(name="boxed", container=SITE))
    world = World(make_config("ab", queues, params=Params(**params)))
    for host, there in (("a", runtimes), ("b", "")):
        world.report(host, load=msgspec.structs.replace(load(), container_runtimes=there))
    return world


def refusal(world: World, user: str = "ann", **changes: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        world.submit(spec(**changes), user=user)
    return caught.value.text


def test_it_goes_where_a_program_for_it_is_and_says_why_not_elsewhere() -> None:
    world = world_of()
    world.run(spec(container=IMAGE, hosts=("b", "a"), slots=16))
    assert world.job(1).allocation.first_host == "a"
    world.submit(spec(container=IMAGE))
    world.cycle()
    assert any("no program for the job's container (apptainer or podman)" in each for each in world.reasons(2))
    world.check_replay()


def test_one_that_no_host_can_run_is_refused() -> None:
    assert refusal(world_of(), container="/i/a.sif").startswith("No host that the job may use has apptainer,")
    assert refusal(world_of(""), container=IMAGE).startswith("No host that the job may use has apptainer or podman,")
    assert refusal(world_of(), container=IMAGE, hosts=("b",)).startswith("No host that the job may use has")


def test_while_a_host_is_unknown_a_job_may_wait_for_it() -> None:
    world = world_of("")
    world.disconnect("b")
    assert world.submit(spec(container=IMAGE)) == [1]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"container": "x y"}, "'x y' is no image: it has a blank"),
        ({"container_mounts": ("/a:/a",)}, "--container-mount needs --container IMAGE"),
        ({"container": IMAGE, "container_mounts": ("/a:/a",)}, "/a may not be mounted: the site allows none"),
        ({"container": IMAGE, "container_mounts": ("nonsense:x:y:z",)}, "'nonsense:x:y:z' is not of the form"),
        ({"container": IMAGE, "container_mounts": ("/a:/a",) * 65}, "65 mounts are too many"),
        ({"container": IMAGE, "specified_cwd": "/usr"}, "/usr cannot be mounted into a container"),
    ],
)
def test_what_cannot_be_or_is_not_allowed_is_refused(changes: dict[str, Any], told: str) -> None:
    assert refusal(world_of(), **changes).startswith(told)


def test_the_sites_tables_bind_users_and_not_administrators() -> None:
    world = world_of(container_mounts=("/data:ro",), container_images=("docker://site/*",))
    assert refusal(world, container=IMAGE).startswith("docker://a/b is none of the images that the site allows")
    asked = spec(container="docker://site/x", container_mounts=("/data/a:/a:ro",))
    assert world.submit(asked) == [1]
    wrong = {"container": "docker://site/x", "container_mounts": ("/data/a:/a",)}
    assert refusal(world, **wrong).startswith("/data/a may be mounted with :ro alone")
    assert world.submit(spec(user="root", container=IMAGE, container_mounts=("/x:/x",)), user="root") == [2]


def test_what_a_queue_says_counts_for_jobs_that_say_nothing_and_another_queue_takes_it_back() -> None:
    world = world_of(container_images=("docker://b/*",))
    world.submit(spec(queue="boxed", hold=True), spec(queue="boxed", hold=True, container="docker://b/c"))
    site, own = world.job(1).spec, world.job(2).spec
    assert (site.container, site.container_mounts) == ("docker://site/x", ("/opt/site:/opt/site:ro",))
    assert (own.container, own.container_mounts) == ("docker://b/c", ())
    assert world.modify(1, queue="normal") == [""]
    assert (world.job(1).spec.container, world.job(1).spec.container_mounts) == ("", ())
    world.check_replay()


def test_a_profile_counts_before_the_queue() -> None:
    world = world_of()
    profile = Application(name="mine", container="podman[image(mine/y)]")
    world.reconfigure(msgspec.structs.replace(world.config, applications={"mine": profile}))
    world.submit(spec(queue="boxed", application="mine", hold=True))
    assert world.job(1).spec.container == "docker://mine/y"


def test_it_can_be_changed_while_the_job_waits() -> None:
    world = world_of()
    world.submit(spec(container=IMAGE, hold=True))
    assert world.modify(1, container="docker://c/d") == [""]
    assert world.job(1).spec.container == "docker://c/d"
    assert "may not be mounted" in world.modify(1, container_mounts=("/a:/a",))[0]
