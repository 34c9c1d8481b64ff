"""Curves as they travel: what was packed comes back, and nothing that was not packed does any harm."""

from __future__ import annotations

import zlib

import msgspec
import pytest

from gsched.model.gpus.gpu_curve import MOST_PACKED, MOST_POINTS, MOST_UNPACKED, CurvePoint, GpuCurve, pack, unpack


def curve(*points: CurvePoint, uuid: str = "GPU-a") -> GpuCurve:
    return GpuCurve(uuid=uuid, index=3, since=1_700_000_000.25, step_s=10.0, points=points)


def test_what_was_packed_comes_back_to_a_tenth() -> None:
    """Points 3 to 6 are a hole, and so is the power of point 7."""
    first = CurvePoint(2, {"sm": (0.0, 33.3, 100.0), "power": (70.5, 300.1, 700.0), "mem": (0.0, 40_000.5, 81_559.0)})
    second = CurvePoint(7, {"sm": (1.0, 2.0, 3.0)})
    packed = pack([curve(first, second), curve(uuid="GPU-b")])
    assert unpack(packed) == (curve(first, second), curve(uuid="GPU-b"))
    (rounded,) = unpack(pack([curve(CurvePoint(0, {"sm": (0.04, 33.34, 99.96)}), second)]))
    point, _ = rounded.points
    assert point.values == {"sm": (0.0, 33.3, 100.0)}


def packed(*fields: object) -> bytes:
    return zlib.compress(msgspec.msgpack.encode([list(fields)]))


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"junk",
        zlib.compress(b"junk"),
        zlib.compress(msgspec.msgpack.encode({"uuid": "GPU-a"})),
        packed("GPU-a", 0, 0.0, 0.0, [], []),
        packed("GPU-a", 0, 0.0, float("nan"), [], []),
        packed("GPU-a", 0, 0.0, float("inf"), [], []),
        packed("GPU-a", 0, float("nan"), 10.0, [], []),
        packed("GPU-a", 0, 0.0, 10.0, [3, 2], []),
        packed("GPU-a", 0, 0.0, 10.0, [2, 2], []),
        packed("GPU-a", 0, 0.0, 10.0, [-1], []),
        packed("GPU-a", 0, 0.0, 10.0, [MOST_POINTS], []),
        packed("GPU-a", 0, 0.0, 10.0, [1], [["sm", [0], [1], [1], []]]),
        packed("GPU-a", 0, 0.0, 10.0, [1], [["sm", [1], [1], [1], [1]]]),
        packed("GPU-a", 0, 0.0, 10.0, [1], [[f"q{place}", [], [], [], []] for place in range(99)]),
        b"x" * (MOST_PACKED + 1),
        zlib.compress(bytes(MOST_UNPACKED + 1)),
    ],
)
def test_junk_is_refused(junk: bytes) -> None:
    with pytest.raises(ValueError):
        unpack(junk)
