"""Which blobs an event names: scripts, environments, targets of notices, attachments, files of configurations.

It reads an event's JSON, and of that these names alone. What it leaves out may be dropped while the event is there, so
every field that names a blob belongs here. SubmissionAccepted alone is left out: each of its jobs has an event that
names the same, and until the last of them is there ClusterState.accepted has it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gsched.model.event import (
    ConfigApplied,
    JobMessagePosted,
    JobModified,
    JobNoticeMade,
    JobSubmitted,
    JobSwitched,
    PastJobRecorded,
)

NAMING_KINDS = tuple(
    str(each.__struct_config__.tag)
    for each in (
        *(JobSubmitted, JobModified, JobSwitched, PastJobRecorded),
        *(JobMessagePosted, JobNoticeMade, ConfigApplied),
    )
)
"""Kinds of events that may name blobs."""


class _NamesOfSpec(msgspec.Struct):
    script: str = ""
    environment: str = ""
    notice_targets: str = ""
    spooled_input: str = ""


class _NamesOfNotice(msgspec.Struct):
    targets: str = ""


class _NamesOfEvent(msgspec.Struct):
    spec: _NamesOfSpec | None = None
    notice: _NamesOfNotice | None = None
    attachment: str = ""
    files: str = ""


_decode = msgspec.json.Decoder(_NamesOfEvent).decode


def blobs_named(payload: bytes) -> set[str]:
    """By the JSON of an event of one of NAMING_KINDS. Raises ValueError where it is none."""
    return {name for name in _names(_decode(payload)) if name}


def _names(found: _NamesOfEvent) -> Iterator[str]:
    if found.spec is not None:
        yield from (found.spec.script, found.spec.environment, found.spec.notice_targets, found.spec.spooled_input)
    if found.notice is not None:
        yield found.notice.targets
    yield found.attachment
    yield found.files
