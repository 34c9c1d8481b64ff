"""Index lists whose ranges overlap: read alike however many indices they hold, hardly ever spread out."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gsched.base import indices
from gsched.base.errors import BadRequest
from gsched.base.indices import Indices, of, parse_indices

MOST = 10**9


class Never:
    """Stands for `range`: whoever goes through a huge one index by index fails at once."""

    def __call__(self, start: int, end: int, step: int) -> range:
        assert (end - start) // step < 100_000, "a huge range is spread out"
        return range(start, end, step)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (f"1-{MOST}:2,2-{MOST}:2", f"1-{MOST}"),
        (f"3-{MOST}:6,1-{MOST}:6,5-{MOST}:6", f"1-{MOST - 1}:2"),
        (f"1-{MOST}:2,2-{MOST // 2}:2", f"1-{MOST // 2 + 1},{MOST // 2 + 3}-{MOST - 1}:2"),
        (f"1-{MOST - 9},{MOST - 8}-{MOST}:2,{MOST - 7}-{MOST}:2", f"1-{MOST}"),
    ],
)
def test_ranges_that_take_turns_are_one(monkeypatch: pytest.MonkeyPatch, text: str, read: str) -> None:
    monkeypatch.setattr(indices, "range", Never(), raising=False)
    assert str(parse_indices(text, MOST)) == read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1-1000000,1-1000000", "an index is named twice"),
        (f"1-1000000,1-1000000,{MOST}", "an index is named twice"),
        (f"5-1000000:5,10-1000000:5,{MOST}", "an index is named twice"),
        (f"1-1000000:3,2-1000000:3,{MOST}", "ranges that overlap may hold 50000 indices together"),
        (",".join(f"{n}-{MOST}:4096" for n in (*range(1, 4000), 4096)), "too many ranges of the index list overlap"),
    ],
)
def test_what_cannot_be_read_is_refused_before_it_is_spread_out(
    monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    monkeypatch.setattr(indices, "range", Never(), raising=False)
    with pytest.raises(BadRequest, match=why):
        parse_indices(text, MOST)


RANGES = st.lists(
    st.builds(
        lambda start, length, step: (start, start + length, step),
        st.integers(1, 30),
        st.integers(0, 40),
        st.integers(1, 6),
    ),
    min_size=1,
    max_size=5,
)


@given(RANGES, st.sampled_from([0, 3, 10, 10_000]))
@example([(1, 10, 2), (2, 9, 2)], 0)
@example([(1, 60, 3), (2, 61, 3), (3, 62, 3)], 0)
def test_they_are_read_as_one_by_one(ranges: list[tuple[int, int, int]], most: int) -> None:
    every = sorted(index for start, end, step in ranges for index in range(start, end + 1, step))
    text = ",".join(f"{start}-{end}:{step}" for start, end, step in ranges)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indices, "MAX_INTERLEAVED", most)
        try:
            read = parse_indices(text, MOST)
        except BadRequest as error:
            assert len(set(every)) < len(every) or (most < 10_000 and "overlap" in error.text)
            return
    assert list(read) == every
    ordered = sorted((start, end - (end - start) % step, step) for start, end, step in ranges)
    if any(one[1] >= other[0] for one, other in itertools.pairwise(ordered)):
        assert read == of(every)  # however it was done: the same list of indices has one text
    else:
        assert read == Indices(tuple(ordered))
