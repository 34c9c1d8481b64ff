"""Job numbers on command lines: arrays, elements, ranges of elements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id, show_job
from gsched.base.indices import of
from gsched.cli.options.job_selection import MAX_ELEMENTS, not_found, parse_job_ids
from gsched.master.access.request_sizes import MOST_LISTED


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["12"], ["12"]),
        (["0"], ["0"]),
        (["12[3]"], ["12[3]"]),
        (["12[1-5:2,7]"], ["12[1]", "12[3]", "12[5]", "12[7]"]),
        (["12[3, 5-6]", "12[3]", "4 5"], ["12[3]", "12[5]", "12[6]", "4", "5"]),
    ],
)
def test_numbers_are_read_in_order_and_once(words: list[str], shown: list[str]) -> None:
    assert [show_job(job_id) for job_id in parse_job_ids(words)] == shown


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("abc", "abc: Illegal job ID."),
        ("", ": Illegal job ID."),
        ("-5", "-5: Illegal job ID."),
        ("12[3", "12[3: Illegal job ID."),
        ("x[1]", "x[1]: Illegal job ID."),
        ("12[1]z", "12[1]z: Illegal job ID."),
        ("²", "²: Illegal job ID."),
        ("99999999999", "99999999999: Job ID out of valid range."),
        ("12[0]", "Job array index error: '0' counts no indices upwards from 1"),
        ("12[5-3]", "Job array index error: '5-3' counts no indices upwards from 1"),
        ("12[]", "Job array index error: '' is not of the form START[-END[:STEP]]"),
        ("0[1]", "0[1]: Job array index error: 0 is no array"),
    ],
)
def test_what_is_no_job_is_refused_in_lsfs_words(word: str, text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_job_ids([word])
    assert refused.value.text == text


def test_a_list_of_elements_is_bounded() -> None:
    with pytest.raises(BadRequest, match="elements are too many to name; <12> is all"):
        parse_job_ids([f"12[1-{MAX_ELEMENTS + 1}]"])


HALVES = f"1-{MAX_ELEMENTS}:2,2-{MAX_ELEMENTS}:2"


@pytest.mark.parametrize(
    "words",
    [
        [f"{array}[1-{MAX_ELEMENTS}]" for array in range(1, 10)],
        [f"1[1-{MAX_ELEMENTS}]"] * 2,
        [f"1[{HALVES}]", f"2[{HALVES}]"],
        [f"1[{HALVES},1-{MAX_ELEMENTS}]"],
        ["1[" + ",".join(f"{start}-1000000:4096" for start in range(1, 4097)) + "]"],
        [" ".join(map(str, range(1, MAX_ELEMENTS + 2)))],
        ["7"] * (MAX_ELEMENTS + 1),
    ],
    ids=["arrays", "one twice", "interleaved", "a clash", "many ranges", "numbers", "one number"],
)
def test_what_is_too_many_is_refused_before_it_is_spread_out(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    spread = 0

    def counted(array: int, index: int) -> int:
        nonlocal spread
        spread += 1
        return element_id(array, index)

    monkeypatch.setattr("gsched.cli.options.job_selection.element_id", counted)
    with pytest.raises(BadRequest, match="too many to name"):
        parse_job_ids(words)
    assert spread <= MAX_ELEMENTS


def test_the_master_takes_as_many_as_can_be_named() -> None:
    assert MAX_ELEMENTS <= MOST_LISTED
    assert len(parse_job_ids([f"1[1-{MAX_ELEMENTS}]"])) == MAX_ELEMENTS


@given(st.integers(1, 2**31 - 2), st.sets(st.integers(1, 10_000), min_size=1, max_size=30))
def test_what_is_shown_can_be_typed(array: int, indices: set[int]) -> None:
    wanted = [element_id(array, index) for index in sorted(indices)]
    assert list(parse_job_ids([f"{array}[{of(sorted(indices))}]"])) == wanted
    assert list(parse_job_ids([show_job(job_id) for job_id in wanted])) == wanted


def test_elements_are_named_as_they_are_typed() -> None:
    assert not_found([12, element_id(12, 3)]) == "Job <12> is not found\nJob <12[3]> is not found\n"
