"""Reads the section rusage[...]: what is reserved, how long, and the alternatives.

It must never drop an option: each belongs to a resource or is refused at its place.

`:` joins resources that share duration and decay, `,` begins anew, `||` separates alternatives; threshold and GPU
options belong to the resource before them. Source: bsub(1), option -R; the usage string of LSF's administration guide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from gsched.resreq.ast import Number, Phase, Reservation
from gsched.resreq.parsing.gpu import RUSAGE_OPTIONS, check_option
from gsched.resreq.parsing.lexer import Cursor, Token, in_section, read_number, refuse
from gsched.resreq.parsing.names import SIZES, canonical

MAX_ALTERNATIVES = 64
"""Alternatives of one rusage section."""
MAX_PHASES = 64

T = TypeVar("T")

_GPU_PREFIX = "ngpus"
_METHODS = ("job", "host", "task")
_SHARED = ("duration", "decay")
_DURATION = re.compile(r"([0-9]{1,9})([hms]?)", re.ASCII)
_SECONDS = {"h": 3600, "m": 60, "": 60, "s": 1}


class _Group(msgspec.Struct):
    """One usage string: resources that share their durations and decays while it is read."""

    items: list[tuple[Reservation, list[Number]]] = msgspec.field(default_factory=list)
    durations: list[float] = msgspec.field(default_factory=list)
    decays: list[bool] = msgspec.field(default_factory=list)
    positions: dict[str, int] = msgspec.field(default_factory=dict)


def read_rusage(cursor: Cursor) -> tuple[tuple[Reservation, ...], ...]:
    """The alternatives inside `rusage[...]`, at least one. Raises RequirementError."""
    alternatives: list[tuple[Reservation, ...]] = []
    while True:
        usage: list[Reservation] = []
        while True:
            usage += _usage_string(cursor)
            if not cursor.accept(","):
                break
        alternatives.append(tuple(usage))
        if len(alternatives) > MAX_ALTERNATIVES:
            cursor.fail(f"rusage[...] has more than {MAX_ALTERNATIVES} alternatives")
        if not cursor.accept("||"):
            return tuple(alternatives)


def check_repeats(alternatives: Iterable[tuple[Reservation, ...]], source: str) -> None:
    """Raises RequirementError for a resource that one alternative reserves twice."""
    for usage in alternatives:
        seen: set[str] = set()
        for item in usage:
            if canonical(item.name) in seen:
                refuse(f"{in_section('rusage')}'{item.name}' is reserved twice in rusage[...]", source, item.position)
            seen.add(canonical(item.name))


def _usage_string(cursor: Cursor) -> list[Reservation]:
    group = _Group()
    while True:
        token = cursor.resource("rusage[...]")
        if token.text in (*_SHARED, "threshold") or token.text in RUSAGE_OPTIONS:
            if not group.items:
                cursor.fail(f"{token.text}= wants a resource before it", token.start)
            cursor.expect("=", f"after {token.text}")
            _option(cursor, group, token)
        else:
            group.items.append(_reservation(cursor, token))
        if not cursor.accept(":"):
            return [_finished(cursor, group, item, amounts) for item, amounts in group.items]


def _several(cursor: Cursor, read: Callable[[], T]) -> list[T]:
    """What `read` reads once, or as often as it takes to close a parenthesis that stands here."""
    if not cursor.accept("("):
        return [read()]
    values = [read()]
    while not cursor.accept(")"):
        values.append(read())
        if len(values) > MAX_PHASES:
            cursor.fail(f"a reservation has at most {MAX_PHASES} phases")
    return values


def _reservation(cursor: Cursor, name: Token) -> tuple[Reservation, list[Number]]:
    cursor.expect("=", f"after {name.text}: rusage[resource=amount]")
    amounts = _several(cursor, lambda: _amount(cursor, name.text, name.text))
    method = ""
    if cursor.accept("/"):
        method = cursor.peek().text
        if method not in _METHODS:
            cursor.fail(f"a reservation is made per {', '.join(_METHODS)}, not per {cursor.peek()}")
        cursor.take()
    return Reservation(name.text, amounts[0].value, amounts[0].text, method, name.start), amounts


def _amount(cursor: Cursor, what: str, name: str) -> Number:
    """The amount that `what`= wants, of the resource `name`."""
    value = cursor.peek()
    number = read_number(value.text) if value.kind == "word" else None
    if number is None:
        cursor.fail(f"{what}= wants an amount such as 2, 0.5 or 16G, not {value}")
    cursor.take()
    if not number.has_unit and number.value and canonical(name) in SIZES:
        cursor.note_size(value.start, value.end)
    return number


def _duration(cursor: Cursor) -> float:
    value = cursor.peek()
    found = _DURATION.fullmatch(value.text) if value.kind == "word" else None
    if found is None or int(found.group(1)) == 0:
        cursor.fail(f"duration= wants a time such as 30, 30m, 8h or 90s, not {value}")
    cursor.take()
    return float(int(found.group(1)) * _SECONDS[found.group(2)])


def _decay(cursor: Cursor) -> bool:
    return cursor.word("0 or 1", ("0", "1")).text == "1"


def _option(cursor: Cursor, group: _Group, token: Token) -> None:
    item, amounts = group.items[-1]
    if token.text in _SHARED:
        if token.text in group.positions:
            cursor.fail(f"{token.text}= is given twice", token.start)
        group.positions[token.text] = token.start
        if token.text == "duration":
            group.durations = _several(cursor, lambda: _duration(cursor))
        else:
            group.decays = _several(cursor, lambda: _decay(cursor))
        return
    if token.text == "threshold":
        if item.threshold is not None:
            cursor.fail("threshold= is given twice", token.start)
        item = replace(item, threshold=_amount(cursor, token.text, item.name).value)
    else:
        item = _with_gpu_option(cursor, item, token)
    group.items[-1] = (item, amounts)


def _with_gpu_option(cursor: Cursor, item: Reservation, key: Token) -> Reservation:
    if not item.name.startswith(_GPU_PREFIX):
        cursor.fail(f"{key.text}= belongs to a GPU resource such as ngpus_physical, not to {item.name}", key.start)
    if key.text in dict(item.gpu_options):
        cursor.fail(f"{key.text}= is given twice", key.start)
    first = cursor.take()
    value = first.text
    # A value such as K80-12G or 3/2 is several tokens without a blank between them.
    while first.kind != "text" and cursor.is_glued(0) and not _ends_value(cursor):
        value += cursor.take().text
    fault = check_option(key.text, value)
    if fault:
        cursor.fail(fault, first.start)
    size = read_number(value) if key.text == "gmem" else None
    if size is not None and not size.has_unit:
        quotes = 1 if first.kind == "text" else 0
        cursor.note_size(first.start + quotes, first.start + quotes + len(value))
    return replace(item, gpu_options=(*item.gpu_options, (key.text, value)))


def _ends_value(cursor: Cursor) -> bool:
    return cursor.peek().kind == "end" or any(cursor.sees(sign) for sign in (":", ",", "]", "||"))


def _finished(cursor: Cursor, group: _Group, item: Reservation, amounts: list[Number]) -> Reservation:
    """`item` with the durations and decays of its group."""
    phases, durations, decays = len(amounts), group.durations, group.decays
    if phases > 1 and not phases - 1 <= len(durations) <= phases:
        where = group.positions.get("duration", item.position)
        cursor.fail(f"{item.name} has {phases} amounts: {phases - 1} or {phases} durations are wanted", where)
    if phases == 1 and len(durations) > 1:
        cursor.fail(f"{item.name} has one amount and {len(durations)} durations", group.positions["duration"])
    if len(decays) > phases or any(decays[len(durations) :]):
        cursor.fail("decay=1 wants a duration, and each amount has one decay", group.positions["decay"])
    times = [*durations, *[None] * (phases - len(durations))]
    falls = [*decays, *[False] * (phases - len(decays))]
    item = replace(item, duration_s=times[0], decay=falls[0])
    if phases == 1:
        return item
    return replace(
        item,
        phases=tuple(
            Phase(amount.value, amount.text, time, falling)
            for amount, time, falling in zip(amounts, times, falls, strict=True)
        ),
    )
