"""Which blobs events name: no field of any event that names one is left out."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from gsched.app.stores.blob_references import of_event
from gsched.model.event import AnyEvent, ConfigApplied, JobMessagePosted, JobSubmitted, SubmissionAccepted, encode_event
from gsched.model.event_blobs import NAMING_KINDS, blobs_named
from gsched.model.jobs.job import JobSpec

SPEC = JobSpec(
    command="x", user="ann", queue="normal", script="s", environment="e", notice_targets="t", spooled_input="i"
)
OF_BLOBS = {"spec", "specs", "notice", "attachment", "files"}
"""Fields of events that name blobs, or hold what does."""


def test_every_kind_with_such_a_field_is_read() -> None:
    kinds = {
        str(each.__struct_config__.tag)
        for each in get_args(AnyEvent)
        if OF_BLOBS & {field.name for field in msgspec.structs.fields(each)}
    }
    accepted = str(SubmissionAccepted.__struct_config__.tag)
    assert kinds - {accepted} == set(NAMING_KINDS), "the jobs of a submission have events that name the same"


@pytest.mark.parametrize(
    ("event", "names"),
    [
        (JobSubmitted(at=1.0, job_id=1, spec=SPEC), {"s", "e", "t", "i"}),
        (ConfigApplied(at=1.0, digest="d", by="root", files="f"), {"f"}),
        (JobMessagePosted(at=1.0, job_id=1, user="ann", box=2, text="", attachment="a"), {"a"}),
        (JobMessagePosted(at=1.0, job_id=1, user="ann", box=2, text=""), set()),
    ],
)
def test_what_an_event_names(event: Any, names: set[str]) -> None:
    assert blobs_named(encode_event(event)) == names
    assert {name for name, _ in of_event(event)} <= names


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(ValueError, match=r".+"):
        blobs_named(b"{damaged")
