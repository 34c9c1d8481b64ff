"""What is known of an attempt's use of its GPUs, in a file of the attempt's folder: the next agent goes on with it.

Written whole or not at all, and small however long the attempt runs. Not forced to disk: a machine that goes down takes
the attempt along. A file that cannot be read is a hole, and no reason for anything to fail.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from gsched.agent.gpu_use.use_curve import MOST_POINTS, UseCurve
from gsched.agent.gpu_use.use_totals import DeviceTotals
from gsched.base.atomic_write import replace_file

log = logging.getLogger(__name__)

NAME = "gpu-use"
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


def _is_sound(curve: UseCurve) -> bool:
    """Whether it can go on."""
    return curve.step_s > 0.0 and len(curve.points) <= MOST_POINTS
