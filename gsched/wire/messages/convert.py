"""Conversion between the model's frozen types and their protobuf mirrors, by equal field names.

One plan per type is built on first use from the type hints; nothing is listed twice by hand. A field that one side
lacks is a programming error and raises at once. Unknown (None) is absence on the wire, never a zero.

A text with a code (gsched.base.coded_text) has two fields: `coded_NAME`, and `NAME` with the sentence, which is what
programs of before know.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache
from itertools import compress
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from google.protobuf.message import Message

from gsched.base.coded_text import AnyText, CodedText, CodedValue, sentence
from gsched.base.errors import BadRequest

T = TypeVar("T", bound=msgspec.Struct)
M = TypeVar("M", bound=Message)

_Encode = Callable[[Message, str, Any], None]
_Decode = Callable[[Any, str], Any]
"""What a field that is there says, and the field's name -> the value's attribute."""


def to_proto(value: msgspec.Struct, message_type: type[M]) -> M:
    """`value` as a `message_type`. Raises BadRequest for text that cannot travel as UTF-8."""
    message = message_type()
    fill(message, value)
    return message


def fill(message: Message, value: msgspec.Struct) -> None:
    """Copy `value` into an existing, empty message."""
    encoders, unimplied = _encoding(type(value))
    items = msgspec.structs.astuple(value)
    for (name, encode), item in zip(compress(encoders, items), filter(None, items), strict=True):
        try:
            if encode is None:
                setattr(message, name, item)
            else:
                encode(message, name, item)
        except UnicodeEncodeError:
            raise BadRequest(f"{name.replace('_', ' ')} {item!r} is not valid UTF-8") from None
    for place in unimplied:
        item = items[place]
        if not item and item is not None:
            name, encode = encoders[place]
            (encode or setattr)(message, name, item)


def from_proto(message: Message, value_type: type[T]) -> T:
    """`message` as a `value_type`."""
    key = (value_type, type(message))
    decoding = _decoding.get(key)
    if decoding is None:
        decoding = _decoding[key] = _decoding_of(value_type, type(message)())
    fields, absent = decoding
    values = absent.copy()
    for field, item in message.ListFields():  # most fields of most messages are absent
        found = fields.get(field)
        if found is not None:  # a text's code comes after its sentence, its number being higher
            name, decode = found
            values[name] = item if decode is None else decode(item, name)
    return value_type(**values)


_Decoding = tuple[dict[Any, tuple[str, _Decode | None]], dict[str, Any]]
_decoding: dict[tuple[type, type], _Decoding] = {}


def _decoding_of(value_type: type[msgspec.Struct], empty: Message) -> _Decoding:
    """Of each field of the message the value's field and its decoder (None: it is taken as it is), and what the fields
    are that a message does not have.
    """
    decoders = {name: decode for name, _, decode, _ in _plan(value_type)}
    hints = typing.get_type_hints(value_type)
    absent = {
        name: None if _split_optional(hints[name])[0] else _decoded(decode, getattr(empty, name), name)
        for name, decode in decoders.items()
    }
    known = empty.DESCRIPTOR.fields_by_name
    fields: dict[Any, tuple[str, _Decode | None]] = {known[name]: (name, each) for name, each in decoders.items()}
    for name, hint in hints.items():
        if _CODED + name in known:
            fields[known[_CODED + name]] = (name, _decode_texts if _is_texts(hint) else _decode_text)
    defaults = dict(zip(value_type.__struct_fields__[::-1], value_type.__struct_defaults__[::-1], strict=False))
    return fields, {name: value for name, value in absent.items() if not _is_same(value, defaults.get(name))}


def _is_same(value: Any, default: Any) -> bool:
    """Whether a field that is left out becomes that value itself, and where it is a dict a new one each time."""
    return isinstance(value, dict) or (type(default) is type(value) and default == value)


def _decoded(decode: _Decode | None, item: Any, name: str) -> Any:
    return item if decode is None else decode(item, name)


@cache
def _encoding(value_type: type[msgspec.Struct]) -> tuple[tuple[tuple[str, _Encode | None], ...], tuple[int, ...]]:
    """Name and encoder of each field (None: it is set as it is), and the places of those that are sent when they are
    empty, 0 or False, too: their absence says that they are unknown.
    """
    plan = _plan(value_type)
    encoders = tuple((name, None if encode is _encode_scalar else encode) for name, encode, _, _ in plan)
    return encoders, tuple(place for place, (_, _, _, is_implied) in enumerate(plan) if not is_implied)


@cache
def _plan(value_type: type[msgspec.Struct]) -> tuple[tuple[str, _Encode, _Decode | None, bool], ...]:
    """Of each field: name, encoder, decoder, and whether its absence says that it is empty, 0 or False."""
    hints = typing.get_type_hints(value_type)
    return tuple((name, *_codec(hints[name]), _is_implied(hints[name])) for name in value_type.__struct_fields__)


def _is_implied(hint: Any) -> bool:
    return hint in (str, bytes, bool, int, float, AnyText) or get_origin(hint) in (tuple, dict)


def _codec(hint: Any) -> tuple[_Encode, _Decode | None]:
    """Encoder and decoder of one field with this type hint."""
    _, hint = _split_optional(hint)
    if hint == AnyText:
        return _encode_text, None
    if _is_texts(hint):
        return _encode_texts, lambda elements, name: tuple(elements)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _encode_struct, _struct_decoder(hint)
    if get_origin(hint) is tuple:
        return _sequence_codec(get_args(hint)[0])
    if get_origin(hint) is dict:
        return _mapping_codec(get_args(hint)[1])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _encode_enum, _enum_decoder(hint)
    return _encode_scalar, _decode_number if hint is float else None


def _split_optional(hint: Any) -> tuple[bool, Any]:
    if get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint):
        rest = [arg for arg in get_args(hint) if arg is not type(None)]
        return True, rest[0] if len(rest) == 1 else Union[tuple(rest)]  # noqa: UP007 - built at run time
    return False, hint


def _encode_scalar(message: Message, name: str, value: Any) -> None:
    setattr(message, name, value)


def _decode_number(value: float, name: str) -> float:
    """A finite number: JSON has no other, so anything else could not be stored."""
    if not math.isfinite(value):
        raise BadRequest(f"{name.replace('_', ' ')} is {value}, not a finite number")
    return value


def _encode_enum(message: Message, name: str, value: Any) -> None:
    setattr(message, name, value.value)


def _enum_decoder(kind: type[Enum]) -> _Decode:
    def decode(text: str, name: str) -> Any:
        try:
            return kind(text) if text else None
        except ValueError:
            known = ", ".join(member.value for member in kind)
            raise BadRequest(f"{name.replace('_', ' ')} '{text}' is none of {known}") from None

    return decode


def _encode_struct(message: Message, name: str, value: Any) -> None:
    child = getattr(message, name)
    child.SetInParent()
    fill(child, value)


def _struct_decoder(kind: type[msgspec.Struct]) -> _Decode:
    return lambda message, name: from_proto(message, kind)


def _sequence_codec(item: Any) -> tuple[_Encode, _Decode]:
    if isinstance(item, type) and issubclass(item, msgspec.Struct):

        def encode_structs(message: Message, name: str, value: Any) -> None:
            field = getattr(message, name)
            for element in value:
                fill(field.add(), element)

        def decode_structs(elements: Any, name: str) -> Any:
            return tuple([from_proto(element, item) for element in elements])

        return encode_structs, decode_structs

    def encode(message: Message, name: str, value: Any) -> None:
        getattr(message, name).extend(value)

    def decode(elements: Any, name: str) -> Any:
        return tuple(elements)

    return encode, decode


def _mapping_codec(item: Any) -> tuple[_Encode, _Decode]:
    if item == float | str:
        return _encode_values, _decode_values

    def encode(message: Message, name: str, value: Any) -> None:
        field = getattr(message, name)
        for key, element in value.items():
            if element is not None:
                field[key] = element

    def decode(items: Any, name: str) -> Any:
        return _finite(name, dict(items))

    return encode, decode


def _encode_values(message: Message, name: str, value: Any) -> None:
    field = getattr(message, name)
    for key, element in value.items():
        if isinstance(element, str):
            field[key].text = element
        else:
            field[key].number = element


def _decode_values(values: Any, name: str) -> Any:
    items = values.items()
    return _finite(name, {key: item.text if item.WhichOneof("kind") == "text" else item.number for key, item in items})


def _finite(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """`found`, unless a number in it is none that could be stored or compared."""
    for key, value in found.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise BadRequest(f"{name} {key} is {value}, not a finite number")
    return found


# -- texts with codes -------------------------------------------------------------------------------------------------

_CODED = "coded_"
MOST_VALUES = 32
"""Parameters of one text."""
MOST_DEPTH = 24
"""A parameter may be a text with parameters in its turn, and so on."""


def _is_texts(hint: Any) -> bool:
    return get_origin(hint) is tuple and get_args(hint)[0] == AnyText


def _encode_text(message: Message, name: str, value: AnyText) -> None:
    setattr(message, name, sentence(value))
    if isinstance(value, CodedText):
        _fill_text(getattr(message, _CODED + name), value)


def _encode_texts(message: Message, name: str, value: tuple[AnyText, ...]) -> None:
    """The codes of all or of none: one that has none travels as its words beside the others."""
    getattr(message, name).extend(map(sentence, value))
    if any(isinstance(each, CodedText) for each in value):
        field = getattr(message, _CODED + name)
        for each in value:
            _fill_text(field.add(), each)


def _fill_text(message: Any, text: AnyText) -> None:
    if isinstance(text, str):
        message.text = text
        return
    message.code = text.code
    for value in text.values:
        field = message.values.add()
        if isinstance(value, CodedText):
            _fill_text(field.coded, value)
        elif isinstance(value, str):
            field.text = value
        elif isinstance(value, int):
            field.whole = value
        else:
            field.number = value


def _decode_text(message: Any, name: str) -> AnyText:
    return _text_of(message, name, MOST_DEPTH) if message.code else str(message.text)


def _decode_texts(messages: Any, name: str) -> tuple[AnyText, ...]:
    return tuple([_decode_text(each, name) for each in messages])


def _text_of(message: Any, name: str, depth: int) -> CodedText:
    if len(message.values) > MOST_VALUES or depth == 0:
        raise BadRequest(f"{name.replace('_', ' ')} has more parameters than a text can have")
    return CodedText(message.code, tuple([_value_of(each, name, depth) for each in message.values]))


def _value_of(value: Any, name: str, depth: int) -> CodedValue:
    match value.WhichOneof("kind"):
        case "coded":
            return _text_of(value.coded, name, depth - 1)
        case "whole":
            return int(value.whole)
        case "number":
            return _decode_number(value.number, name)
        case _:
            return str(value.text)
