"""What an attempt made of its GPUs over time, as it travels and is stored: a few bytes for each span of time. Pure.

A point covers `step_s` seconds and has the smallest, the mean and the largest value of each quantity. Where nobody has
looked there is no point: a hole stays a hole. What was packed may come from anywhere: it is read with limits.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import msgspec

MOST_POINTS = 360
"""Of one GPU, however long its job runs."""
MOST_QUANTITIES = 16
MOST_GPUS = 1 << 14
MOST_PACKED = 128 << 10
"""Bytes of all GPUs of an attempt on one host."""
MOST_UNPACKED = 16 << 20
_TENTHS = 10

Spread = tuple[float, float, float]
"""The smallest, the mean and the largest."""


class CurvePoint(msgspec.Struct, frozen=True, gc=False):
    """The span of time number `slot`; a quantity that was not seen then is missing."""

    slot: int
    values: dict[str, Spread]


class GpuCurve(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The use of one GPU over time. Point n covers `step_s` seconds from `since` (UTC seconds) + n * `step_s` on."""

    uuid: str
    index: int
    since: float
    step_s: float
    points: tuple[CurvePoint, ...] = ()


class _Column(msgspec.Struct, array_like=True):
    """One quantity: at which of the points it was seen, and its values in tenths."""

    name: str
    places: list[int]
    low: list[int]
    mean: list[int]
    high: list[int]


class _Packed(msgspec.Struct, array_like=True):
    uuid: str
    index: int
    since: float
    step_s: float
    slots: list[int]
    columns: list[_Column]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[_Packed])


def pack(curves: Sequence[GpuCurve]) -> bytes:
    """The curves of one attempt on one host. Values are kept to a tenth of their unit."""
    return zlib.compress(_encoder.encode([_columns_of(curve) for curve in curves]), 6)


def _columns_of(curve: GpuCurve) -> _Packed:
    columns: dict[str, _Column] = {}
    for place, point in enumerate(curve.points):
        for name, spread in point.values.items():
            column = columns.setdefault(name, _Column(name, [], [], [], []))
            column.places.append(place)
            for values, value in zip((column.low, column.mean, column.high), spread, strict=True):
                values.append(round(value * _TENTHS))
    slots = [point.slot for point in curve.points]
    return _Packed(curve.uuid, curve.index, curve.since, curve.step_s, slots, list(columns.values()))


def unpack(data: bytes) -> tuple[GpuCurve, ...]:
    """The curves that were packed. Raises ValueError for what is none, or too large."""
    if len(data) > MOST_PACKED:
        raise ValueError(f"{len(data)} bytes are too many")
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(data, MOST_UNPACKED)
        found = _decoder.decode(plain)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from None
    if unpacking.unconsumed_tail or len(found) > MOST_GPUS:
        raise ValueError("there is too much of it")
    return tuple(map(_curve_of, found))


def _curve_of(packed: _Packed) -> GpuCurve:
    slots = packed.slots
    if not 0.0 < packed.step_s < math.inf or not math.isfinite(packed.since):
        raise ValueError("its times are none")
    if len(slots) > MOST_POINTS or len(packed.columns) > MOST_QUANTITIES:
        raise ValueError("it is no curve")
    if any(not 0 <= slot < MOST_POINTS for slot in slots) or sorted(set(slots)) != slots:
        raise ValueError("its points are not in order")
    values: list[dict[str, Spread]] = [{} for _ in slots]
    for column in packed.columns:
        if not len(column.places) == len(column.low) == len(column.mean) == len(column.high):
            raise ValueError(f"values of {column.name[:20]} are missing")
        for place, *spread in zip(column.places, column.low, column.mean, column.high, strict=True):
            if not 0 <= place < len(slots):
                raise ValueError(f"a value of {column.name[:20]} is at no point")
            low, mean, high = spread
            values[place][column.name] = (low / _TENTHS, mean / _TENTHS, high / _TENTHS)
    points = tuple(map(CurvePoint, slots, values))
    return GpuCurve(uuid=packed.uuid, index=packed.index, since=packed.since, step_s=packed.step_s, points=points)
