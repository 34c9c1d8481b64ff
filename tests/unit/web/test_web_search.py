"""A text in the output: where it stands, whatever pieces the output comes in, and how much is looked at."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator

import pytest
from fake_master import FakeMaster, spec
from hypothesis import given
from hypothesis import strategies as st
from served_pages import Pages

from gsched.base.errors import Unavailable
from gsched.model.views.view import JobView, OutputChunk
from gsched.web.job_pages import output_search
from gsched.web.job_pages.output_search import LONGEST_LINE, MOST_FOUND, search


@given(st.lists(st.sampled_from(["loss 1", "Loss 2", "", "nothing", "é loss"]), max_size=12), st.integers(1, 9))
def test_each_line_is_found_at_its_byte(lines: list[str], size: int) -> None:
    data = "\n".join(lines).encode()
    found = search([data[at : at + size] for at in range(0, len(data), size)], "LOSS", 0).found
    assert [each.line for each in found] == [n for n, line in enumerate(lines, 1) if "loss" in line.casefold()]
    for each in found:
        assert data[each.start :].decode().split("\n")[0] == each.text


def test_behind_what_was_not_read_lines_have_no_numbers() -> None:
    (found,) = search([b"rest\nxx loss\n"], "loss", 1000).found
    assert (found.line, found.start, found.text) == (None, 1005, "xx loss")


def test_it_is_bounded() -> None:
    many = search([b"loss\n" * (MOST_FOUND + 1)], "loss", 0)
    assert len(many.found) == MOST_FOUND and many.is_cut
    long = search([b"x" * LONGEST_LINE, b"y" * 99, b"loss\nloss\n"], "loss", 0)
    assert [(each.line, each.start) for each in long.found] == [(2, LONGEST_LINE + 99 + 5)]
    assert long.is_cut, "99 bytes were not looked at"
    assert not search([b"x" * LONGEST_LINE, b"\nloss"], "loss", 0).is_cut
    assert search([b"x" * LONGEST_LINE, b"y"], "loss", 0).is_cut
    assert search([b"a\n" * 10], "loss", 0, deadline=-math.inf).is_cut


def test_an_error_behind_progress_is_found() -> None:
    progress = b"".join(b"\r%3d%%|####      | 12/100 [00:01<00:09]" % each for each in range(100)) * 10
    data = b"begin\n" + progress + b"\rRuntimeError: CUDA out of memory\r\nend error\n"
    for size in (7, 100, len(data)):
        told = search([data[at : at + size] for at in range(0, len(data), size)], "error", 0)
        assert [(each.line, each.text) for each in told.found] == [
            (2, "RuntimeError: CUDA out of memory"),
            (3, "end error"),
        ]
        assert not told.is_cut
        assert all(data[each.start :].startswith(each.text.encode()) for each in told.found)


def test_the_time_is_looked_at_where_much_is_found_and_where_nothing_comes() -> None:
    def late() -> Iterator[bytes]:
        yield b"loss\n" * 3
        raise Unavailable("the master did not answer in time")

    told = search(late(), "loss", 0, deadline=-math.inf)
    assert len(told.found) == 3 and told.is_cut
    with pytest.raises(Unavailable):
        search(late(), "loss", 0)


def test_a_master_that_does_not_answer_is_waited_for_no_longer(
    master: FakeMaster, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    class Silent:
        def __iter__(self) -> Iterator[OutputChunk]:
            over.wait(60)
            return iter(())

    master.views = [JobView(job_id=7, spec=spec(), state="RUN", submitted_at=1.0, dispatched_at=2.0)]
    master.outputs = [Silent()]  # type: ignore[list-item]
    monkeypatch.setattr(output_search, "LONGEST_S", 0.2)
    try:
        told = json.loads(pages.get("/jobs/7/output/stdout/search?text=two").text)
    finally:
        over.set()
    assert told == {"found": [], "is_cut": True, "skipped": 0}


@pytest.mark.parametrize("path", ["stdin/search?text=a", "stdout/search", "stdout/search?text=" + "x" * 201])
def test_what_cannot_be_searched_is_refused(pages: Pages, path: str) -> None:
    assert pages.get(f"/jobs/7/output/{path}").status == 400
