"""How large a request may be, and each text and list in it: the one place where that is written down.

Whoever may ask at all could otherwise keep the master busy with one message. What a request means is not looked at
here, but that a number is one. Texts of submissions are counted with their jobs (spec_sizes): of equal
ones once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gsched.base.errors import BadRequest
from gsched.core.control.administration import MOST_GROUPS
from gsched.core.control.job_control import MOST_ATTACHED, MOST_TEXT
from gsched.core.records.dependency_condition import MAX_LENGTH
from gsched.core.submission.spec_sizes import MOST_TEXT as MOST_OF_SPEC
from gsched.core.submission.submit import MOST_TOKEN

MIB = 1 << 20
MOST_BYTES: Mapping[str, int] = {
    "Scheduler.Submit": 64 * MIB,
    "Scheduler.SubmitInParts": 64 * MIB,
    "Scheduler.Control": MOST_ATTACHED + 2 * MIB,
    "Scheduler.ControlInParts": MOST_ATTACHED + 2 * MIB,
}
"""SERVICE.METHOD -> bytes of one request; of any other SMALL."""
SMALL = 4 * MIB

NAME = 256
"""Characters of a user, host, queue, project, application …"""
LONGEST_NAME = 4095
"""Of a job's name with indices, a job group, a path."""
SENTENCE = 4096
"""Of what somebody says: why a host is closed, say."""
LENGTHS: Mapping[str, int] = {
    "SubmitRequest.token": MOST_TOKEN,
    "ControlRequest.text": 2 * MOST_TEXT,  # it is refused with what is allowed by those who take it
    "ControlRequest.attachment": MOST_ATTACHED + 1,
    "JobFilter.name": LONGEST_NAME,
    "JobFilter.group": LONGEST_NAME,
    "HostControlRequest.comment": SENTENCE,
    "GpuControlRequest.comment": SENTENCE,
    "QueueControlRequest.comment": SENTENCE,
    "GroupControlRequest.groups": LONGEST_NAME,
    "GroupsRequest.names": LONGEST_NAME,
    "HostsRequest.requirement": 1 << 16,
    "ReservationControlRequest.requirement": 1 << 16,
    "ConditionRequest.text": 2 * MAX_LENGTH,
    "TypeRequest.data": MIB,
    "ServiceBytes.data": MIB,
    **{f"JobSpec.{name}": most for name, most in MOST_OF_SPEC.items()},
}
"""MESSAGE.FIELD -> characters (bytes, of what is no text) of it, or of each value of a list; of any other of JobSpec
SENTENCE, else NAME.
"""

MOST_LISTED = 100_000
"""Numbers in one list."""
MOST_NAMED = 10_000
"""Names in one list."""
A_WHILE = 500
"""Values of a list that is gone through beside the loop that serves everybody."""
MOST_GPUS = 1_000
"""Closed or opened at once."""
LISTS: Mapping[str, int] = {
    "ControlRequest.states": 20,
    "JobFilter.states": 20,
    "AccountFilter.states": 20,
    "ModifyRequest.fields": 100,
    "GroupControlRequest.groups": MOST_GROUPS,
    "GpuControlRequest.gpus": MOST_GPUS,
    "SubmitRequest.submissions": MOST_LISTED,
}
"""MESSAGE.FIELD -> values of it; of any other list MOST_LISTED numbers or MOST_NAMED of something else."""
COUNTED_ELSEWHERE = frozenset({"SubmitRequest.submissions"})
_TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
_COMPOUND = (*_TEXTS, FieldDescriptor.TYPE_MESSAGE)


def most_bytes(method: str) -> int:
    """Bytes of a request of SERVICE.METHOD."""
    return MOST_BYTES.get(method, SMALL)


def check_sizes(request: Message) -> None:
    """Raise BadRequest for a text or a list that is larger than it may be, and for NaN and the infinite."""
    field: Any
    for field, value in request.ListFields():
        key = f"{field.containing_type.name}.{field.name}"
        if isinstance(value, Message):
            check_sizes(value)
        elif isinstance(value, str | bytes):
            _check_length(key, field, value)
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise BadRequest(f"Bad argument: {_shown(field)} {value} is no number")
        elif isinstance(value, Sized):
            _check_list(key, field, value)


def is_long(message: object) -> bool:
    """Whether a list in the message is so long that going through it takes a while."""
    if not isinstance(message, Message):
        return False
    return any(
        isinstance(value, Sized) and not isinstance(value, str | bytes | Message) and len(value) > A_WHILE
        for _, value in message.ListFields()
    )


def _check_list(key: str, field: Any, values: Any) -> None:
    most = LISTS.get(key, MOST_NAMED if field.type in _COMPOUND else MOST_LISTED)
    if len(values) > most:
        raise BadRequest(f"{len(values)} {_shown(field)} in one request: {most} are the most")
    if key in COUNTED_ELSEWHERE:
        return
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        for name in values:
            _check_length(key, field, str(name))
    elif field.type in _TEXTS:
        for value in values:
            _check_length(key, field, value)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        for value in values:
            check_sizes(value)


def _check_length(key: str, field: Any, text: str | bytes) -> None:
    most = LENGTHS.get(key, SENTENCE if key.startswith("JobSpec.") else NAME)
    if len(text) > most:
        unit = "characters" if isinstance(text, str) else "bytes"
        raise BadRequest(f"Bad argument: {_shown(field)} too long ({len(text)} {unit}, at most {most})")


def _shown(field: Any) -> str:
    return str(field.name).replace("_", " ")
