"""What a submission is answered, the first time and when it is repeated. It changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from gsched.base.errors import Conflict
from gsched.core.cluster import ClusterState
from gsched.core.command import Submit
from gsched.core.specs import fingerprint
from gsched.model.job import JobSpec
from gsched.model.view import Submitted


def each_once(specs: Sequence[JobSpec], admit: Callable[[JobSpec], JobSpec]) -> list[JobSpec]:
    """Each completed by `admit`; equal ones are looked at once, since nothing changes in between."""
    known: dict[bytes, JobSpec] = {}
    admitted = []
    for spec in specs:
        key = fingerprint(spec)
        if key not in known:
            known[key] = admit(spec)
        admitted.append(known[key])
    return admitted


def submitted(spec: JobSpec, job_id: int) -> Submitted:
    """The answer for one job."""
    return Submitted(job_id=job_id, queue=spec.queue, default_queue=not spec.queue_named, warnings=spec.warnings)


def answered_before(
    state: ClusterState, command: Submit, known: dict[int, int], default_queues: Sequence[str]
) -> list[Submitted]:
    """The first answer again. A submission's jobs have numbers in a row, so those forgotten since are known too.

    `known`: place in the submission -> job, of those in memory. Raises Conflict if it was another submission.
    """
    first = min(job_id - place for place, job_id in known.items())
    replies = []
    for place, spec in enumerate(command.specs):
        item = state.arrays.get(first + place) or state.jobs.get(first + place)
        if item is not None and (item.token, item.place, item.spec.user) != (command.token, place, command.user):
            raise Conflict(f"submission {command.token} is already known, and it is another one")
        answer = submitted(item.spec if item is not None else spec, first + place)
        # Which one of several took a job that is forgotten nobody knows any more.
        queues = answer.queue.split() or default_queues
        replies.append(structs.replace(answer, queue=queues[0]))
    return replies
