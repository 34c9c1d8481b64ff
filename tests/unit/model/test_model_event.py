"""Events as stored: what is written is read back, and an older record without the newer fields too."""

from __future__ import annotations

import functools
import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.coded_text import AnyText, CodedText
from gsched.model.event import AnyEvent, JobSubmitted, decode_event, encode_event, kind_of
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from tests.support.property_examples import examples

KINDS = AnyEvent.__args__


def texts() -> st.SearchStrategy[CodedText]:
    """Any coded text, also one whose parameters are texts."""
    plain = st.text() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    inner = st.builds(CodedText, st.text(), st.lists(plain, max_size=2).map(tuple))
    return st.builds(CodedText, st.text(), st.lists(plain | inner, max_size=3).map(tuple))


@functools.cache
def instances(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a struct or of one of its fields' types; numbers are those that JSON knows."""
    if kind == AnyText:
        return st.text() | texts()
    arguments = typing.get_args(kind)
    if type(None) in arguments:
        return st.none() | instances(arguments[0])
    if typing.get_origin(kind) is tuple:
        return st.lists(instances(arguments[0]), max_size=3).map(tuple)
    if typing.get_origin(kind) is dict:
        return st.dictionaries(instances(arguments[0]), instances(arguments[1]), max_size=3)
    if issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        return st.builds(kind, **{name: instances(hints[name]) for name in kind.__struct_fields__})
    if kind is msgspec.Raw:
        return st.integers(-9, 9).map(lambda number: msgspec.Raw(msgspec.json.encode({"number": number})))
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    return st.integers(-(2**63), 2**63 - 1) if kind is int else st.from_type(kind)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(12), deadline=None)
@given(data=st.data())
def test_what_is_encoded_is_decoded(kind: type[AnyEvent], data: st.DataObject) -> None:
    event = data.draw(instances(kind))
    payload = encode_event(event)
    assert decode_event(payload) == event
    assert type(decode_event(payload)) is kind
    assert msgspec.json.decode(payload)["kind"] == kind_of(event)


def test_kinds_are_distinct_words() -> None:
    tags = [kind.__struct_config__.tag for kind in KINDS]
    assert len(set(tags)) == len(tags)
    assert all(tag == tag.lower() and tag.replace("_", "").isalpha() for tag in tags)


def test_a_record_of_an_older_version_reads_with_defaults() -> None:
    payload = b'{"kind":"job_submitted","at":1.5,"job_id":7,"spec":{"command":"run","user":"ann","queue":"normal"}}'
    assert decode_event(payload) == JobSubmitted(
        at=1.5, job_id=7, spec=JobSpec(command="run", user="ann", queue="normal")
    )


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b'{"kind":"job_teleported","at":1}',
        b'{"kind":"job_forgotten","at":1}',
        b'{"kind":"job_noted","at":"x"}',
    ],
)
def test_anything_else_is_refused(payload: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_event(payload)


def test_the_gpu_message_names_hosts_and_indices() -> None:
    def part(host: str, *indices: int) -> HostAllocation:
        held = tuple(HeldGpu(uuid=f"{host}{i}", index=i, claim="ngpus_excl_p") for i in indices)
        return HostAllocation(host=host, slots=2, gpus=held)

    assert Allocation(hosts=(part("h1", 0, 1), part("none"), part("h2", 0))).gpu_message() == "h1:gpus=0,1;h2:gpus=0;"
    assert Allocation(hosts=(part("none"),)).gpu_message() == ""
    assert Allocation(hosts=(part("h1"), part("h2"))).slots == 4
    assert Allocation(hosts=(part("h1"), part("h2"))).first_host == "h1"
