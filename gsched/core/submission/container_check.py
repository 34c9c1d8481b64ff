"""May this job have its container: does the site allow image and mounts, and is there a host that can run it?

Forms and tables are the business of gsched.model.queues.container. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gsched.base.errors import BadRequest, about
from gsched.core.resources.observed_hosts import Observation
from gsched.model.config import Params
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.application import Application
from gsched.model.queues.container import (
    MOST_MOUNTS,
    check_image,
    check_mounts,
    check_path,
    read_image,
    read_mount,
    read_site_container,
    runtimes_of,
)
from gsched.model.queues.queue import Queue

CONTAINER_FIELDS = ("container", "container_mounts")


def site_container(spec: JobSpec, queue: Queue, profile: Application) -> dict[str, Any]:
    """CONTAINER of the profile, or else of the queue, for a job that names none; empty where there is none."""
    text = profile.container or queue.container
    if spec.container or not text:
        return {}
    image, mounts = read_site_container(text)
    return {"container": image, "container_mounts": tuple(str(each) for each in mounts)}


def check_container(spec: JobSpec, params: Params, *, is_of_site: bool) -> None:
    """Whoever has written them. `is_of_site`: queue or profile say so, or an administrator asks. Raises BadRequest."""
    if not spec.container:
        with about("container_mounts"):
            if spec.container_mounts:
                raise BadRequest("--container-mount needs --container IMAGE beside it")
        return
    with about("container"):
        read_image(spec.container)
        if not is_of_site:
            check_image(spec.container, params.container_images)
    with about("specified_cwd"):
        check_path(spec.run_dir)
    with about("container_mounts"):
        if len(spec.container_mounts) > MOST_MOUNTS:
            raise BadRequest(f"{len(spec.container_mounts)} mounts are too many, {MOST_MOUNTS} are the most")
        mounts = [read_mount(each) for each in spec.container_mounts]
        if not is_of_site:
            check_mounts(mounts, [read_mount(each) for each in params.container_mounts])


def check_runtime(spec: JobSpec, hosts: Iterable[Observation]) -> None:
    """Refuse a container that none of these hosts can run; silent while one of them is unknown. Raises BadRequest."""
    if not spec.container:
        return
    wanted = runtimes_of(spec.container)
    if not any(_may_run(wanted, seen) for seen in hosts):
        with about("container"):
            raise BadRequest(f"No host that the job may use has {' or '.join(wanted)}, which run containers")


def _may_run(wanted: Sequence[str], seen: Observation) -> bool:
    if seen.load is None or not seen.connected:
        return True
    return not set(wanted).isdisjoint(seen.load.container_runtimes.split())
