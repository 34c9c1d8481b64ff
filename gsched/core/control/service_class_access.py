"""Which service class a job belongs to, and whether it may: ACCESS_CONTROL and AUTO_ATTACH of lsb.serviceclasses.

It decides nothing about what is guaranteed to the class.
"""

from __future__ import annotations

from gsched.base.errors import BadRequest, about
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.guarantee import ServiceClass
from gsched.model.queues.queue import Queue


@about("service_class")
def attached_class(spec: JobSpec, user: str, queue: Queue, config: ClusterConfig, *, is_new: bool) -> dict[str, str]:
    """The first class with AUTO_ATTACH that admits a job which names none, as a field of its specification.

    `is_new`: what the job says is looked at. Raises BadRequest for a class that does not exist or does not admit it.
    """
    if not spec.service_class:
        classes = config.service_classes.values()
        fitting = (each for each in classes if each.auto_attach and not _refused(each, spec, user, queue, config))
        found = next(fitting, None)
        return {} if found is None else {"service_class": found.name}
    if is_new:
        _check(spec, user, queue, config)
    return {}


def _check(spec: JobSpec, user: str, queue: Queue, config: ClusterConfig) -> None:
    name = spec.service_class
    found = config.service_classes.get(name)
    if found is None:
        raise BadRequest(f"{name}: No such service class")
    refused = _refused(found, spec, user, queue, config)
    if refused:
        raise BadRequest(f"{name}: Service class does not admit the job by {refused} of its ACCESS_CONTROL")


def _refused(found: ServiceClass, spec: JobSpec, user: str, queue: Queue, config: ClusterConfig) -> str:
    return found.refused(
        queue=queue.name,
        user=user,
        share_group=spec.user_group,
        application=spec.application,
        project=spec.project or config.params.default_project,
    )
