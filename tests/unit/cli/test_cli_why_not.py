"""`gadmin why-not`: what people and programs read of two jobs, and that each field and rule is on its page."""

from __future__ import annotations

import json
import re
from datetime import UTC
from pathlib import Path

import pytest

from gsched.base.coded_text import coded
from gsched.base.sentences.comparison_texts import COMPARISON_TEXTS
from gsched.cli.render.explaining.comparison_json import comparison_json
from gsched.cli.render.explaining.comparison_text import comparison_lines
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.views.job_comparison import ComparedJob, JobComparison
from gsched.model.views.view import ShareView

SHARE = ShareView(path="fair/", name="ann", shares=1, priority=0.25, started=3, run_s=60.0, gpu_s=90.0, cpu_s=1.5)
WAITS = ComparedJob(job_id=7, user="ann", queue="fair", state="PEND", queue_priority=30, slots=1, gpus=2, share=SHARE)
RUNS = ComparedJob(
    job_id=8,
    user="bob\n",
    queue="fair",
    state="RUN",
    queue_priority=30,
    priority=70.5,
    started_at=60.0,
    ends_at=3600.0,
    is_limit=True,
    hosts=("gpu01", "gpu02"),
    slots=2,
    share=ShareView(path="fair/", name="bob", shares=1, priority=0.5),
)
FOUND = JobComparison(
    at=100.0,
    job=WAITS,
    other=RUNS,
    rule="fairshare",
    text=coded("why_not.fairshare", "8", "7", "/bob", 0.5, "/ann", 0.25),
    first=8,
    order_rule="fairshare",
    order_text=coded("why_not.fairshare", "8", "7", "/bob", 0.5, "/ann", 0.25),
    reasons=(PendingReason(coded("pending.no_slot"), 1),),
)
PAGE = (Path(__file__).parents[3] / "docs" / "explain.md").read_text("utf-8")


def test_lines_of_one_that_runs() -> None:
    lines = list(comparison_lines(FOUND, UTC))
    assert lines == [
        "Job <7> waits, and job <8> runs: fairshare: /bob of job 8 has dynamic priority 0.5, /ann of job 7 has 0.25",
        "Job <7> waits because: Job slot limit reached: 1 host",
        "Job <7>, User <ann>, Queue <fair> (PRIORITY 30), Status <PEND>",
        "  submitted Thu Jan  1 00:00:00, 1 slot and 2 GPUs",
        "  share of fair/ann: SHARES 1, PRIORITY 0.250, 3 slots started, RUN_TIME 60, GPU_RUN_TIME 90, CPU_TIME 1.5",
        "Job <8>, User <bob;>, Queue <fair> (PRIORITY 30), Status <RUN>",
        "  submitted Thu Jan  1 00:00:00, priority 70.5, 2 slots",
        "  on gpu01, gpu02 since Thu Jan  1 00:01:00; ends by Thu Jan  1 01:00:00",
        "  share of fair/bob: SHARES 1, PRIORITY 0.500, 0 slots started, RUN_TIME 0, GPU_RUN_TIME 0, CPU_TIME 0.0",
    ]


def changed(**fields: object) -> list[str]:
    values = {name: getattr(FOUND, name) for name in FOUND.__struct_fields__}
    return list(comparison_lines(JobComparison(**{**values, **fields}), UTC))


def test_the_order_is_told_beside_another_rule_and_backfill_with_its_plan() -> None:
    text = coded("why_not.backfill_ends", "7", "8")
    plan = PlannedStart(at=7200.0, hosts=("gpu01",))
    order = coded("why_not.submission", "7", "8")
    lines = changed(rule="backfill", text=text, planned=plan, first=7, order_rule="submission", order_text=order)
    assert lines[1] == "In the order of jobs <7> comes first: job 7 was submitted before job 8"
    assert lines[2] == "Planned start: Thu Jan  1 02:00:00 1970 on host(s) <gpu01>"


@pytest.mark.parametrize(("first", "words"), [(7, "waits before job <8>"), (8, "waits behind job <8>")])
def test_both_wait(first: int, words: str) -> None:
    other = ComparedJob(job_id=8, state="PEND")
    assert words in changed(other=other, first=first)[0]
    assert "waits, and job <8> as well: " in changed(other=other, first=0, order_rule="")[0]


def test_each_field_of_the_json_and_each_rule_is_documented() -> None:
    found = json.loads(comparison_json(FOUND))
    assert (found["rule"], found["job"]["job_id"], found["order"]["first"]) == ("fairshare", "7", "8")
    names = {*found, *found["job"], *found["job"]["share"], *found["order"], *found["planned"]}
    assert len(names) > 30
    assert {name for name in names if f"`{name}`" not in PAGE} == set()


def test_no_text_has_a_blank_that_is_never_filled() -> None:
    for code, words in COMPARISON_TEXTS.items():
        blanks = [int(each) for each in re.findall(r"{(\d)", words)]
        assert set(blanks) <= set(range(max(blanks) + 1)), code
