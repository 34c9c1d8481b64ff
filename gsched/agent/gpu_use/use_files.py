"""What is known of an attempt's use of its GPUs, in a file of the attempt's folder: the next agent goes on with it.

Written whole or not at all, and small however long the attempt runs. Not forced to disk: a machine that goes down takes
the attempt along. A file that cannot be read is a hole, and no reason for anything to fail.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from gsched.agent.gpu_use.use_curve import UseCurve
from gsched.agent.gpu_use.use_totals import DeviceTotals
from gsched.base.machine.atomic_write import replace_file
from gsched.model.gpus.gpu_curve import MOST_PACKED, MOST_POINTS, pack

log = logging.getLogger(__name__)

NAME = "gpu-use"
CURVES = "gpu-curves"
"""What is told of the time that is over, packed once."""
MOST_BYTES = 16 << 20

_decoder = msgspec.json.Decoder(list[DeviceTotals])


def write(folder: Path, totals: list[DeviceTotals]) -> None:
    """Keep it. A full disk, or a folder that is gone, costs what has come since the last time."""
    try:
        replace_file(str(folder / NAME), msgspec.json.encode(totals))
    except OSError as error:
        log.warning("%s: %s: the use of GPUs is not kept", folder, error.strerror or error)


def read(folder: Path) -> list[DeviceTotals]:
    """What was kept; empty when there is nothing, or nothing that can be read."""
    try:
        with (folder / NAME).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        found = _decoder.decode(data) if len(data) <= MOST_BYTES else []
        return found if all(_is_sound(totals.curve) for totals in found) else []
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        log.warning("%s: the use of GPUs that was kept there cannot be read: %s", folder, error)
        return []


def pack_curves(folder: Path, totals: list[DeviceTotals]) -> None:
    """The attempt is over: keep its curves as they will travel, so that they are made once."""
    packed = _packed(totals, MOST_PACKED)
    try:
        replace_file(str(folder / CURVES), packed)
    except OSError as error:  # they are made again, from what is kept besides
        log.warning("%s: %s: the packed curves are not kept", folder, error.strerror or error)


def packed_curves(folder: Path, most: int) -> bytes:
    """The curves of an attempt that is over, in so many bytes at most: the less room, the longer the spans of time that
    their points stand for. Empty where nothing is known, or there is no room for anything.
    """
    try:
        with (folder / CURVES).open("rb") as file:
            packed = file.read(MOST_PACKED + 1)
        if len(packed) <= min(most, MOST_PACKED):
            return packed
    except OSError:
        pass  # then they are made now
    return _packed(read(folder), most)


def _packed(totals: list[DeviceTotals], most: int) -> bytes:
    curves = [(each, msgspec.convert(msgspec.to_builtins(each.curve), UseCurve)) for each in totals]
    curves = [(each, curve) for each, curve in curves if curve.points]
    while curves:
        packed = pack([curve.told(each.uuid, each.index) for each, curve in curves])
        if len(packed) <= most:
            return packed
        if all(len(curve.points) <= 1 for _, curve in curves):
            break
        for _, curve in curves:
            curve.halve()
    return b""


def _is_sound(curve: UseCurve) -> bool:
    """Whether it can go on."""
    return curve.step_s > 0.0 and len(curve.points) <= MOST_POINTS
