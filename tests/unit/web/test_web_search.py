"""A text in the output: where it stands, whatever pieces the output comes in, and how much is looked at."""

from __future__ import annotations

import json
import math

import pytest
from fake_master import FakeMaster, spec
from hypothesis import given
from hypothesis import strategies as st
from served_pages import Pages

from gsched.model.views.view import JobView, OutputChunk
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
    assert search([b"a\n" * 10], "loss", 0, deadline=-math.inf).is_cut


def test_the_page_asks_for_it(master: FakeMaster, pages: Pages) -> None:
    master.views = [JobView(job_id=7, spec=spec(), state="RUN", submitted_at=1.0, dispatched_at=2.0)]
    master.outputs = [[OutputChunk(stream="stdout", data=b"one\ntwo <b>\n")]]
    told = json.loads(pages.get("/jobs/7/output/stdout/search?text=TWO").text)
    assert told == {"found": [{"start": 4, "line": 2, "text": "two <b>"}], "is_cut": False, "skipped": 0}


@pytest.mark.parametrize("path", ["stdin/search?text=a", "stdout/search", "stdout/search?text=" + "x" * 201])
def test_what_cannot_be_searched_is_refused(pages: Pages, path: str) -> None:
    assert pages.get(f"/jobs/7/output/{path}").status == 400
