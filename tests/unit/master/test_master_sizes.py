"""How large a request may be: every text and every list of every call has its limit, and the limit is the last that
is let through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from gsched.base.errors import BadRequest
from gsched.master.access.method_policy import RULES, Who
from gsched.master.access.request_sizes import COUNTED_ELSEWHERE, LENGTHS, LISTS, MOST_BYTES, check_sizes
from gsched.wire.v1 import (
    catalogue_pb2,
    fleet_pb2,
    job_service_pb2,
    job_table_pb2,
    past_pb2,
    scheduler_pb2,
    terminal_pb2,
    waiting_pb2,
)

MODULES = (scheduler_pb2, catalogue_pb2, fleet_pb2, job_service_pb2, job_table_pb2, past_pb2, terminal_pb2, waiting_pb2)
SERVICES = {name: service for module in MODULES for name, service in module.DESCRIPTOR.services_by_name.items()}
ASKED = sorted(method for method, rule in RULES.items() if rule.who is not Who.AGENT)
OPEN = 5_000
"""More than any name has characters, fewer than the longest texts have."""


def request_of(method: str) -> Message:
    service, _, name = method.partition(".")
    return GetMessageClass(SERVICES[service].methods_by_name[name].input_type)()


def fields_in(message: Message, seen: tuple[str, ...] = ()) -> Iterator[tuple[Message, Any]]:
    """All fields of a message and of those in it."""
    for field in message.DESCRIPTOR.fields:
        key = f"{field.containing_type.name}.{field.name}"
        yield message, field
        if key in COUNTED_ELSEWHERE or field.message_type is None or field.message_type.full_name in seen:
            continue
        if field.message_type.GetOptions().map_entry:
            continue
        inner = getattr(message, field.name)
        yield from fields_in(inner.add() if _is_list(field) else inner, (*seen, field.message_type.full_name))


def _is_list(field: Any) -> bool:
    """Newer protobuf says so itself, older by a label."""
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


@pytest.mark.parametrize("method", ASKED)
def test_no_text_and_no_list_of_a_call_is_without_end(method: str) -> None:
    request = request_of(method)
    for message, field in list(fields_in(request)):
        key = f"{field.containing_type.name}.{field.name}"
        if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            value: Any = "x" if field.type == FieldDescriptor.TYPE_STRING else b"x"
            too_long = value * (LENGTHS.get(key, OPEN) + 1)
            if _is_list(field):
                _refused(message, field, [too_long])
                _refused(message, field, [value] * (LISTS.get(key, 100_000) + 1))
            else:
                setattr(message, field.name, too_long)
                with pytest.raises(BadRequest, match="too long"):
                    check_sizes(message)
                setattr(message, field.name, value)
                check_sizes(message)
                message.ClearField(field.name)
        elif _is_list(field) and field.message_type is None:
            _refused(message, field, [1] * 100_001)


def _refused(message: Message, field: Any, values: list[Any]) -> None:
    getattr(message, field.name).extend(values)
    with pytest.raises(BadRequest, match=r"too long|are the most"):
        check_sizes(message)
    message.ClearField(field.name)


def test_the_tables_name_what_exists() -> None:
    known = {f"{field.containing_type.name}.{field.name}" for m in ASKED for _, field in fields_in(request_of(m))}
    assert {*LENGTHS, *LISTS} <= known
    assert MOST_BYTES.keys() <= RULES.keys()


def test_an_equal_length_is_let_through() -> None:
    request = scheduler_pb2.ControlRequest(action="stop")
    request.filter.name = "x" * LENGTHS["JobFilter.name"]
    check_sizes(request)
    request.filter.name += "x"
    with pytest.raises(BadRequest, match=r"^Bad argument: name too long \(4096 characters, at most 4095\)$"):
        check_sizes(request)


def test_a_number_in_a_call_is_one() -> None:
    """NaN as a time made the call fail with a traceback in the master's log."""
    tried = set()
    for method in ASKED:
        request = request_of(method)
        for message, field in list(fields_in(request)):
            if field.type != FieldDescriptor.TYPE_DOUBLE or _is_list(field):
                continue
            tried.add(method)
            for value in (float("nan"), float("inf"), float("-inf")):
                setattr(message, field.name, value)
                with pytest.raises(BadRequest, match=r"is no number$"):
                    check_sizes(request)
            message.ClearField(field.name)
            check_sizes(request)
    assert {"Past.Histories", "Catalogue.Accounts", "Catalogue.Notices"} <= tried


def test_making_advance_reservations_weighs_since_it_goes_through_all_hosts() -> None:
    assert RULES["Administration.ReservationControl"].load == "changes"
