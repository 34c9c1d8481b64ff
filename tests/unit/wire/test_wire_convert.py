"""Every model type that travels has a protobuf mirror with the same fields, and comes back as it went."""

from __future__ import annotations

import functools
import typing

import msgspec
import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.coded_text import AnyText, CodedText, coded, sentence
from gsched.base.errors import BadRequest
from gsched.model import event
from gsched.model.hosts import host
from gsched.model.jobs import job, reason
from gsched.model.ledgers import allocation
from gsched.model.views import view
from gsched.wire.messages.convert import from_proto, to_proto
from gsched.wire.v1 import model_pb2
from tests.support.property_examples import examples

MIRRORED = {
    name: value
    for module in (view, job, host, allocation, reason)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, msgspec.Struct) and hasattr(model_pb2, name)
    if value.__module__.startswith("gsched.model.")  # texts with a code have a mirror too, of another form
}
WITHOUT_MIRROR = {"HostConfig"}
"""Model types that never travel."""

_NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


_WHOLE = st.integers(-(2**63), 2**63 - 1)
_PLAIN = st.builds(CodedText, st.text("ab.", min_size=1), st.lists(_TEXTS | _NUMBERS | _WHOLE, max_size=2).map(tuple))
_CODED = st.builds(
    CodedText, st.text("ab.", min_size=1), st.lists(_TEXTS | _NUMBERS | _WHOLE | _PLAIN, max_size=3).map(tuple)
)


@functools.cache
def values_of(kind: type, descriptor: typing.Any) -> st.SearchStrategy[typing.Any]:
    """Instances of `kind` whose integers fit the mirror's fields."""
    hints = typing.get_type_hints(kind)
    fields = {name: _field(hints[name], descriptor.fields_by_name[name]) for name in kind.__struct_fields__}
    return st.builds(kind, **fields)


def _field(hint: typing.Any, field: typing.Any) -> st.SearchStrategy[typing.Any]:
    if hint == AnyText:
        return _TEXTS | _CODED
    arguments = typing.get_args(hint)
    if type(None) in arguments:
        return st.none() | _field(next(each for each in arguments if each is not type(None)), field)
    if typing.get_origin(hint) is tuple:
        return st.lists(_field(arguments[0], field), max_size=3).map(tuple)
    if typing.get_origin(hint) is dict:
        kinds = {float | str: _NUMBERS | _TEXTS, str: _TEXTS, int: st.integers(-(2**31), 2**31 - 1)}
        return st.dictionaries(kinds[arguments[0]], kinds.get(arguments[1], _NUMBERS), max_size=3)
    if issubclass(hint, msgspec.Struct):
        return values_of(hint, field.message_type)
    if hint is int:
        limit = 2**31 if field.type == field.TYPE_INT32 else 2**63
        return st.integers(-limit, limit - 1)
    plain = {str: _TEXTS, float: _NUMBERS, bool: st.booleans(), bytes: st.binary(max_size=9)}
    return plain[hint] if hint in plain else st.sampled_from(hint)


def test_every_type_has_a_mirror_or_a_reason_to_have_none() -> None:
    missing = {
        name
        for module in (view, job, host, allocation, reason)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
    } - MIRRORED.keys()
    assert missing == WITHOUT_MIRROR


@pytest.mark.parametrize("name", MIRRORED)
def test_fields_are_equal_by_name(name: str) -> None:
    mirror = set(getattr(model_pb2, name).DESCRIPTOR.fields_by_name)
    hints = typing.get_type_hints(MIRRORED[name])
    coded = {f"coded_{field}" for field, hint in hints.items() if hint in (AnyText, tuple[AnyText, ...])}
    assert mirror == {*MIRRORED[name].__struct_fields__, *coded}


@pytest.mark.parametrize("name", MIRRORED)
@settings(max_examples=examples(10), deadline=None)
@given(data=st.data())
def test_what_is_sent_arrives(name: str, data: st.DataObject) -> None:
    message = getattr(model_pb2, name)
    value = data.draw(values_of(MIRRORED[name], message.DESCRIPTOR))
    wire = to_proto(value, message).SerializeToString()
    assert from_proto(message.FromString(wire), MIRRORED[name]) == value


def test_unknown_is_absence_and_zero_is_zero() -> None:
    unknown, zero = host.Gpu(uuid="G", index=0), host.Gpu(uuid="G", index=0, memory_mib=0, utilization_percent=0)
    sent = to_proto(unknown, model_pb2.Gpu)
    assert not sent.HasField("memory_mib") and not sent.HasField("mode")
    assert from_proto(sent, host.Gpu) == unknown
    assert from_proto(to_proto(zero, model_pb2.Gpu), host.Gpu) == zero


def test_text_that_is_not_utf8_is_refused_by_the_field_name() -> None:
    spec = job.JobSpec(command="run \udcff", user="ann", queue="normal")
    with pytest.raises(BadRequest, match=r"command .* is not valid UTF-8"):
        to_proto(spec, model_pb2.JobSpec)


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_numbers_that_cannot_be_stored_are_refused(number: float) -> None:
    with pytest.raises(BadRequest, match=r"run s is .*, not a finite number"):
        from_proto(model_pb2.AttemptResult(run_s=number), job.AttemptResult)
    with pytest.raises(BadRequest, match="sampled at"):
        from_proto(model_pb2.Usage(sampled_at=number), job.Usage)
    with pytest.raises(BadRequest, match="indices ut"):
        from_proto(model_pb2.LoadReport(indices={"ut": number}), host.LoadReport)
    bad = model_pb2.LoadReport()
    bad.external["heat"].number = number
    with pytest.raises(BadRequest, match="external heat"):
        from_proto(bad, host.LoadReport)


def test_a_mode_that_nobody_knows_is_refused() -> None:
    with pytest.raises(BadRequest, match="mode"):
        from_proto(model_pb2.Gpu(uuid="G", mode="turbo"), host.Gpu)


def test_events_are_stored_and_do_not_travel_as_messages() -> None:
    assert not any(hasattr(model_pb2, kind.__name__) for kind in event.AnyEvent.__args__)


def test_what_a_message_does_not_have_is_nobody_elses():
    first, second = (from_proto(model_pb2.JobSpec(command="a"), job.JobSpec) for _ in range(2))
    assert first.limits == {}
    first.limits["mem"] = 1.0
    assert second.limits == {}
    assert from_proto(model_pb2.JobSpec(), job.JobSpec).limits == {}


def test_a_coded_text_is_also_there_in_words_for_programs_of_before() -> None:
    text = coded("gpu.foreign", "ann", 4711, 700, coded("gpu.and_more", 2))
    sent = to_proto(host.Gpu(uuid="G", index=0, problem=text), model_pb2.Gpu)
    assert sent.problem == "foreign(ann,4711,700) and 2 more"
    assert from_proto(sent, host.Gpu).problem == text
    assert from_proto(model_pb2.Gpu(uuid="G", problem="dirty(1,2)"), host.Gpu).problem == "dirty(1,2)"
    notes = (text, "told before")
    spec = job.JobSpec(command="", user="", queue="")
    seen = view.JobView(job_id=1, spec=spec, state="RUN", submitted_at=1.0, notes=notes)
    told = to_proto(seen, model_pb2.JobView)
    assert list(told.notes) == [sentence(text), "told before"]
    assert from_proto(told, view.JobView).notes == notes


@pytest.mark.parametrize(
    ("value", "message", "name"),
    [
        (host.Gpu(uuid="G", index=0, fault=coded("gpu.silent")), model_pb2.Gpu, "fault"),
        (host.GpuReport(reason=coded("nvml.no_driver")), model_pb2.GpuReport, "reason"),
        (host.GpuReport(unfenced=coded("fence.no_root")), model_pb2.GpuReport, "unfenced"),
        (host.GpuReport(modes_note=coded("mode.denied")), model_pb2.GpuReport, "modes_note"),
        (host.GpuReport(unheard=coded("nvml.of_gpus", "1, 3", coded("nvml.no_xids"))), model_pb2.GpuReport, "unheard"),
        (
            host.LoadReport(notes=(coded("elim.no_resource", "elim.a", "'b'"), "said before")),
            model_pb2.LoadReport,
            "notes",
        ),
        (view.HostView(name="h", status="ok", notes=(coded("remark.no_gpus"),)), model_pb2.HostView, "notes"),
        (job.AttemptResult(problem=coded("attempt.silent_host", "h")), model_pb2.AttemptResult, "problem"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_hosts_and_attempts_tell_has_codes_and_words(
    value: msgspec.Struct, message: type[Message], name: str
) -> None:
    told = getattr(value, name)
    words = [*map(sentence, told)] if isinstance(told, tuple) else sentence(told)
    sent = to_proto(value, message)
    assert from_proto(sent, type(value)) == value
    seen = getattr(sent, name)
    assert (list(seen) if isinstance(told, tuple) else seen) == words  # what a program of before reads
    sent.ClearField(f"coded_{name}")  # what it says
    assert getattr(from_proto(sent, type(value)), name) == (tuple(words) if isinstance(told, tuple) else words)


def test_a_text_whose_parameters_have_no_end_is_refused() -> None:
    text = coded("a")
    for _ in range(30):
        text = coded("a", text)
    with pytest.raises(BadRequest, match="problem has more parameters than a text can have"):
        from_proto(to_proto(host.Gpu(uuid="G", index=0, problem=text), model_pb2.Gpu), host.Gpu)
    wide = coded("a", *range(100))
    with pytest.raises(BadRequest, match="problem has more parameters"):
        from_proto(to_proto(host.Gpu(uuid="G", index=0, problem=wide), model_pb2.Gpu), host.Gpu)
