"""Curves of a job's output: which patterns its page has, and which jobs are compared."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable

import msgspec
import pytest
from fake_master import FakeMaster, spec
from served_pages import Pages

from gsched.base.ids import element_id
from gsched.model.jobs.job import JobPlot
from gsched.model.views.view import JobView
from gsched.web.job_pages.compare_page import MOST_COMPARED

HARMFUL = JobPlot(name='<i>"', pattern='"([0-9])<script>')


def in_page(text: str, name: str) -> object:
    found = re.search(rf'data-{name}="([^"]*)"', text)
    assert found is not None
    return json.loads(html.unescape(found[1]))


def running(job_id: int, **changes: object) -> JobView:
    return JobView(job_id=job_id, spec=spec(**changes), state="RUN", submitted_at=1.0, dispatched_at=2.0)


def test_the_patterns_of_a_job_are_on_its_page_as_text(master: FakeMaster, pages: Pages) -> None:
    master.views = [running(7, plots=(HARMFUL,))]
    text = pages.get("/jobs/7").text
    assert in_page(text, "given") == [[HARMFUL.name, HARMFUL.pattern]]
    assert "<script>" not in re.sub(r'<script src="[^"]*"[^>]*>', "", text) and "&lt;i&gt;" in text


def test_a_page_says_which_attempt_it_is_about(master: FakeMaster, new_pages: Callable[..., Pages]) -> None:
    for attempt in (1, 2):
        master.views = [msgspec.structs.replace(running(7), attempt=attempt)]
        (stands,) = re.findall(r'<section [^>]*id="stands"[^>]*>', new_pages().entered().get("/jobs/7").text)
        assert "data-live" in stands and f'data-attempt="{attempt}"' in stands and 'data-started="2.0"' in stands


def test_several_jobs_are_compared_by_their_own_patterns(master: FakeMaster, pages: Pages) -> None:
    master.views = [running(7, name="<a>", plots=(HARMFUL,)), running(8)]
    text = pages.get("/compare?job=7&job=8&job=7").text
    assert in_page(text, "jobs") == [
        {
            "label": "7 <a>",
            "address": "/jobs/7/output",
            "plots": [['<i>"', HARMFUL.pattern]],
            "started": 2.0,
            "runs": True,
        },
        {"label": "8", "address": "/jobs/8/output", "plots": [], "started": 2.0, "runs": True},
    ]
    assert "&lt;a&gt;" in text and "jobs are left out" not in text


def test_of_an_array_the_first_elements_are_compared(master: FakeMaster, new_pages: Callable[..., Pages]) -> None:
    master.views = [running(element_id(5, index)) for index in range(1, 12)]
    text = new_pages().entered().get("/compare?job=5").text
    labels = [job["label"] for job in in_page(text, "jobs")]  # type: ignore[attr-defined]
    assert labels == [f"5[{index}]" for index in range(1, MOST_COMPARED + 1)] and "3 jobs are left out" in text


@pytest.mark.parametrize(("words", "status"), [("", 400), ("?job=", 404), ("?job=999", 404), ("?job=7&job=x", 404)])
def test_what_cannot_be_compared_is_said(master: FakeMaster, pages: Pages, words: str, status: int) -> None:
    master.views = [running(7)]
    assert pages.get(f"/compare{words}").status == status
