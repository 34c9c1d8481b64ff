"""Index lists of job arrays: `1-10:2,20` as ranges, however many indices they hold.

Source of the syntax and the texts: bsub(1), option -J.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gsched.base.errors import BadRequest

BAD_INDEX = "Job array index error"
TOO_LARGE = "Job array index too large"
MAX_RANGES = 4096
MAX_INTERLEAVED = 1_000_000
"""Most indices of ranges that overlap: they are told apart one by one."""
_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10})(?::([0-9]{1,10}))?)?", re.ASCII)


@dataclass(frozen=True)
class Indices:
    """Ascending ranges (start, end, step) that do not overlap; every end is a member of its range."""

    ranges: tuple[tuple[int, int, int], ...]

    @cached_property
    def count(self) -> int:
        """How many indices there are."""
        return sum((end - start) // step + 1 for start, end, step in self.ranges)

    @property
    def largest(self) -> int:
        return max((end for _, end, _ in self.ranges), default=0)

    def __iter__(self) -> Iterator[int]:
        for start, end, step in self.ranges:
            yield from range(start, end + 1, step)

    def __contains__(self, index: int) -> bool:
        return any(start <= index <= end and (index - start) % step == 0 for start, end, step in self.ranges)

    def __str__(self) -> str:
        return ",".join(_show(*each) for each in self.ranges)

    def after(self, index: int) -> Iterator[int]:
        """Indices greater than `index`, ascending."""
        for start, end, step in self.ranges:
            if end > index:
                first = start if start > index else start + ((index - start) // step + 1) * step
                yield from range(first, end + 1, step)


def _show(start: int, end: int, step: int) -> str:
    if start == end:
        return str(start)
    return f"{start}-{end}" if step == 1 else f"{start}-{end}:{step}"


class TooManyIndices(BadRequest):
    """A list that names more indices than the caller takes; `count` says how many."""

    def __init__(self, count: int, most: int) -> None:
        super().__init__(f"{BAD_INDEX}: {count} indices, {most} are the most")
        self.count = count


def parse_indices(text: str, largest: int, *, most: int | None = None) -> Indices:
    """The indices of `1-10:2,20`. Raises BadRequest in LSF's words: for bad syntax, an index of 0 or beyond `largest`,
    an index that is named twice; TooManyIndices for more than `most`, before any work is done on them.
    """
    ranges = []
    parts = text.replace(" ", "").split(",")
    if len(parts) > MAX_RANGES:
        raise BadRequest(f"{BAD_INDEX}: more than {MAX_RANGES} ranges in the index list")
    for part in parts:
        found = _RANGE.fullmatch(part)
        if found is None:
            raise BadRequest(f"{BAD_INDEX}: '{part[:40]}' is not of the form START[-END[:STEP]]")
        start = int(found[1])
        end, step = int(found[2] or start), int(found[3] or 1)
        if start < 1 or end < start or step < 1:
            raise BadRequest(f"{BAD_INDEX}: '{part}' counts no indices upwards from 1")
        if end > largest:
            raise BadRequest(f"{TOO_LARGE}: {end}; the largest allowed is {largest} (MAX_JOB_ARRAY_SIZE)")
        ranges.append((start, end - (end - start) % step, step))
    count = sum((end - start) // step + 1 for start, end, step in ranges)
    if most is not None and count > most:
        raise TooManyIndices(count, most)
    return _disjoint(sorted(ranges))


def _disjoint(ranges: list[tuple[int, int, int]]) -> Indices:
    """Ranges that overlap are told apart index by index; one that is named twice is an error."""
    clash = next((pair for pair in itertools.pairwise(ranges) if pair[0][1] >= pair[1][0]), None)
    if clash is None:
        return Indices(tuple(ranges))
    count = sum((end - start) // step + 1 for start, end, step in ranges)
    if count > max(end for _, end, _ in ranges):
        raise BadRequest(f"{BAD_INDEX}: an index is named twice")
    if count > MAX_INTERLEAVED:
        raise BadRequest(f"{BAD_INDEX}: ranges that overlap may hold {MAX_INTERLEAVED} indices together, not {count}")
    every = sorted(index for start, end, step in ranges for index in range(start, end + 1, step))
    twice = next((one for one, other in itertools.pairwise(every) if one == other), None)
    if twice is not None:
        raise BadRequest(f"{BAD_INDEX}: index {twice} is named twice")
    return of(every)


def of(indices: list[int]) -> Indices:
    """The ascending list `indices` as ranges, runs of equal steps joined."""
    ranges: list[tuple[int, int, int]] = []
    for index in indices:
        if ranges:
            start, end, step = ranges[-1]
            if start == end or index - end == step:
                ranges[-1] = (start, index, index - start if start == end else step)
                continue
        ranges.append((index, index, 1))
    return Indices(tuple(_split(ranges)))


def _split(ranges: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Two indices far apart are two ranges, not one with a large step."""
    for start, end, step in ranges:
        if step > 1 and end - start == step:
            yield (start, start, 1)
            yield (end, end, 1)
        else:
            yield (start, end, step)
