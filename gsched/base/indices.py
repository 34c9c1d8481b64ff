"""Index lists of job arrays: `1-10:2,20` as ranges, however many indices they hold.

Source of the syntax and the texts: bsub(1), option -J.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from gsched.base.errors import BadRequest

BAD_INDEX = "Job array index error"
TOO_LARGE = "Job array index too large"
MAX_RANGES = 4096
MAX_INTERLEAVED = 50_000
"""Most indices of ranges that overlap and do not make one range together: they are told apart one by one."""
_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10})(?::([0-9]{1,10}))?)?", re.ASCII)
Range = tuple[int, int, int]
"""Start, end, step."""


@dataclass(frozen=True)
class Indices:
    """Ascending ranges (start, end, step) that do not overlap; every end is a member of its range."""

    ranges: tuple[Range, ...]

    @cached_property
    def count(self) -> int:
        """How many indices there are."""
        return _count(self.ranges)

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
    count = _count(ranges)
    if most is not None and count > most:
        raise TooManyIndices(count, most)
    return _disjoint(sorted(ranges))


def _disjoint(ranges: list[Range]) -> Indices:
    """Ranges in order of their starts as ranges that do not overlap; an index that is named twice is an error."""
    clash = next((pair for pair in itertools.pairwise(ranges) if pair[0][1] >= pair[1][0]), None)
    if clash is None:
        return Indices(tuple(ranges))
    count = _count(ranges)
    if count > max(end for _, end, _ in ranges):
        raise BadRequest(f"{BAD_INDEX}: an index is named twice")
    pieces = iter([ranges]) if count <= MAX_INTERLEAVED else _pieces(ranges)
    return _joined(_told_apart(pieces))


def _count(ranges: Iterable[Range]) -> int:
    return sum((end - start) // step + 1 for start, end, step in ranges)


def _pieces(ranges: list[Range]) -> Iterator[list[Range]]:
    """The ranges cut wherever one of them begins or ends, piece by piece: in a piece each goes from end to end.

    Raises BadRequest where it would take more steps than telling apart what may be told apart one by one.
    """
    cuts = sorted({cut for start, end, _ in ranges for cut in (start, end + 1)})
    waiting, within, steps = deque(ranges), list[Range](), 0
    for low, beyond in itertools.pairwise(cuts):
        while waiting and waiting[0][0] == low:
            within.append(waiting.popleft())
        within = [each for each in within if each[1] >= low]
        steps += len(within)
        if steps > MAX_INTERLEAVED:
            raise BadRequest(f"{BAD_INDEX}: too many ranges of the index list overlap")
        cut = ((start + -((start - low) // step) * step, end, step) for start, end, step in within)
        yield [(first, last, step) for first, end, step in cut if first <= (last := _last(first, end, beyond, step))]


def _last(first: int, end: int, beyond: int, step: int) -> int:
    """The last member before `beyond` and up to `end`; less than `first` where there is none."""
    most = min(end, beyond - 1)
    return most - (most - first) % step if most >= first else first - 1


def _told_apart(pieces: Iterable[list[Range]]) -> Iterator[Range]:
    """Ranges one after the other. Raises BadRequest for an index that is named twice, and for too many that are told
    apart one by one.
    """
    spread = 0
    for piece in map(sorted, pieces):
        if len(piece) < 2:
            yield from piece
        elif _take_turns(piece):
            yield piece[0][0], max(end for _, end, _ in piece), piece[1][0] - piece[0][0]
        else:
            spread += _count(piece)
            if spread > MAX_INTERLEAVED:
                raise BadRequest(f"{BAD_INDEX}: {_too_many(piece)}")
            yield from _one_by_one(piece)


def _one_by_one(piece: list[Range]) -> Iterator[Range]:
    every = sorted(index for start, end, step in piece for index in range(start, end + 1, step))
    twice = next((one for one, other in itertools.pairwise(every) if one == other), None)
    if twice is not None:
        raise BadRequest(f"{BAD_INDEX}: index {twice} is named twice")
    return ((index, index, 1) for index in every)


def _too_many(piece: list[Range]) -> str:
    """What is wrong with ranges that overlap and are not to be spread out."""
    courses = {(start % step, step) for start, _, step in piece}
    if len(courses) < len(piece) or (0, 1) in courses:
        return "an index is named twice"
    return f"ranges that overlap may hold {MAX_INTERLEAVED} indices together, where they do not take turns"


def _take_turns(piece: list[Range]) -> bool:
    """Whether ranges make one of a smaller step together, as 1-9:2 and 2-10:2 do."""
    period, width = piece[0][2], piece[1][0] - piece[0][0]
    ends = sorted(end for _, end, _ in piece)
    return (
        width * len(piece) == period
        and all(step == period for _, _, step in piece)
        and all(other[0] - one[0] == width for one, other in itertools.pairwise(piece))
        and all(other - one == width for one, other in itertools.pairwise(ends))
    )


def of(indices: list[int]) -> Indices:
    """The ascending list `indices` as ranges, runs of equal steps joined."""
    return _joined((index, index, 1) for index in indices)


def _joined(runs: Iterable[Range]) -> Indices:
    """Ranges one after the other, joined as their indices would be if each came by itself."""
    ranges: list[Range] = []
    for first, end, step in runs:
        begin = first
        while begin <= end:
            if ranges and ranges[-1][0] == ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], begin, begin - ranges[-1][0])
            elif ranges and begin - ranges[-1][1] == ranges[-1][2]:
                # The rest of a run with this step goes on with it.
                ranges[-1] = (ranges[-1][0], end if step == ranges[-1][2] else begin, ranges[-1][2])
            else:
                ranges.append((begin, begin, 1))
            begin = ranges[-1][1] + step
    return Indices(tuple(_split(ranges)))


def _split(ranges: list[Range]) -> Iterator[Range]:
    """Two indices far apart are two ranges, not one with a large step."""
    for start, end, step in ranges:
        if step > 1 and end - start == step:
            yield (start, start, 1)
            yield (end, end, 1)
        else:
            yield (start, end, step)
