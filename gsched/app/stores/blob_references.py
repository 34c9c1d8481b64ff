"""Which blobs of a store events and jobs name: scripts, environments, inputs, attachments, targets, configurations.

What may have been dropped by now (gsched.store.passing_blobs) is named by the state alone. It reads no store.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gsched.base.ids import show_job
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import AnyEvent, ConfigApplied, JobMessagePosted
from gsched.model.jobs.job import JobSpec
from gsched.model.views.message_boxes import OWN_BOXES

Reference = tuple[str, str]
"""Name of a blob, and what it is, for people."""

_spec_of = msgspec.json.Decoder(JobSpec).decode


def of_event(event: AnyEvent) -> Iterator[Reference]:
    """Those that stay as long as the event does; what an accepted submission names stays for the events of its jobs."""
    if isinstance(event, ConfigApplied):
        yield from _named((event.files, "the files of a configuration"))
    elif isinstance(event, JobMessagePosted):
        if event.box not in OWN_BOXES:
            yield from _named((event.attachment, f"an attachment of job {show_job(event.job_id)}"))
    elif (spec := getattr(event, "spec", None)) is not None and isinstance(spec, JobSpec):
        yield from _of_spec(spec, f"of job {show_job(getattr(event, 'job_id', 0))}")


def of_state(state: ClusterState) -> Iterator[Reference]:
    """Those that go with the jobs that name them."""
    for number, job in state.jobs.items():
        yield from _named((job.spec.spooled_input, f"what job {show_job(number)} reads"))
        for message in job.messages:
            yield from _named((message.attachment, f"an attachment of job {show_job(number)}"))
    for number, array in state.arrays.items():
        yield from _named((array.spec.spooled_input, f"what job {show_job(number)} reads"))
    for number, accepted in state.accepted.items():
        whose = f"the submission from job {show_job(number)} on"
        for spec in map(_spec_of, accepted.event.specs):
            yield from _of_spec(spec, f"of {whose}")
            yield from _named((spec.spooled_input, f"what {whose} reads"))


def _of_spec(spec: JobSpec, whose: str) -> Iterator[Reference]:
    return _named(
        (spec.script, f"the script {whose}"),
        (spec.environment, f"the environment {whose}"),
        (spec.notice_targets, f"where notices go {whose}"),
    )


def _named(*references: Reference) -> Iterator[Reference]:
    return (each for each in references if each[0])
