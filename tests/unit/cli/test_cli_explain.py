"""`gjobs -p4`: what people read of why a job waits, and what cannot be asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster

from gsched.base.coded_text import coded
from gsched.cli.render.explaining.dry_run_text import dry_run_json
from gsched.cli.render.explaining.estimate_errors import estimate_errors_record
from gsched.cli.render.explaining.explanation_json import explanation_json
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.views.explanation import (
    AdminChange,
    AdminMeasure,
    AwaitedEnd,
    JobDryRun,
    JobExplanation,
    LimitTake,
    MovedJob,
    PlacedPart,
    RefusingHost,
    RefusingHosts,
    ResourceHolder,
    StartChange,
    StartSuggestion,
    UnofferedGpu,
)
from gsched.policy.future.start_estimate_errors import EstimateErrors

LACKS = coded("pending.reserving", "ngpus_physical")
FREE = coded("numbers.free", coded("numbers.amount", 2.0), coded("numbers.of", 1.0, 4.0), "gpu01", "")
FULL = JobExplanation(
    job_id=7,
    user="ann",
    queue="normal",
    state="PEND",
    at=0.0,
    reasons=(PendingReason(LACKS, 1, FREE), PendingReason(coded("pending.not_asked"), 2, "", False)),
    hosts=(
        RefusingHosts(
            text=LACKS,
            count=1,
            hosts=(
                RefusingHost(
                    host="gpu01",
                    detail=FREE,
                    holders=(
                        ResourceHolder(
                            job_id=3, user="bob", state="RUN", slots=1, gpus=2, ends_at=3600.0, is_limit=True
                        ),
                        ResourceHolder(job_id=4, user="carl", state="USUSP", slots=1, gpus=1),
                    ),
                    gpus=(UnofferedGpu(index=3, uuid="GPU-3", problem="lost", foreign_pids=(812, 813)),),
                ),
            ),
        ),
        RefusingHosts(text=coded("pending.not_asked"), count=2, candidate=False),
    ),
    planned=PlannedStart(at=3600.0, hosts=("gpu01",)),
    is_reserved=True,
    awaits=(AwaitedEnd(job_id=3, user="bob", host="gpu01", at=3600.0, is_limit=True),),
)


def test_all_that_is_known_of_why_it_waits(master: FakeMaster, call: Callable[..., FakeCall]) -> None:
    master.explanations = {7: FULL}
    asked = call("gjobs", "-p4", "7", TZ="UTC")
    assert asked.run() == 0
    assert asked.out.splitlines() == [
        "Job <7>, User <ann>, Queue <normal>, Status <PEND>",
        "Waits because: Job's requirements for reserving resource (ngpus_physical) not satisfied: 1 host "
        "(2 wanted, 1 of 4 free on gpu01)",
        "Expected start: Thu Jan  1 01:00:00 1970 on host(s) <gpu01>, when job 3 of bob ends, "
        "by Thu Jan  1 01:00:00 at its run limit",
        "Job's requirements for reserving resource (ngpus_physical) not satisfied: 1 host",
        "  gpu01: 2 wanted, 1 of 4 free on gpu01",
        "    job 3 of bob holds 1 slot and 2 GPUs; ends by Thu Jan  1 01:00:00 at its run limit",
        "    job 4 of carl, USUSP, holds 1 slot and 1 GPU; no known end",
        "    GPU 3 is not offered: lost; used by processes 812, 813",
        "Not specified in job submission: 2 hosts, which it could not use anyway",
    ]


def test_who_is_asked_to_end_or_to_give_lent_gpus_back_is_said(
    master: FakeMaster, call: Callable[..., FakeCall]
) -> None:
    holders = (
        ResourceHolder(job_id=3, user="bob", state="RUN", slots=1, gpus=4, ends_at=60.0, is_ending=True, gives_gpus=2),
        ResourceHolder(job_id=4, user="carl", state="RUN", slots=1, gpus=1, ends_at=30.0, is_ending=True),
    )
    awaited = AwaitedEnd(job_id=3, user="bob", host="gpu01", at=60.0, is_ending=True, gives_gpus=2)
    host = msgspec.structs.replace(FULL.hosts[0].hosts[0], holders=holders, gpus=())
    group = msgspec.structs.replace(FULL.hosts[0], hosts=(host,))
    master.explanations = {7: msgspec.structs.replace(FULL, hosts=(group,), awaits=(awaited,))}
    asked = call("gjobs", "-p4", "7", TZ="UTC")
    assert asked.run() == 0
    assert "when job 3 of bob gives 2 GPUs back, by Thu Jan  1 00:01:00" in asked.out
    assert "job 3 of bob holds 1 slot and 4 GPUs; gives 2 GPUs back by Thu Jan  1 00:01:00\n" in asked.out
    assert "job 4 of carl holds 1 slot and 1 GPU; is asked to end by Thu Jan  1 00:00:30\n" in asked.out


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"starts_now": True}, "now, with the next scheduling cycle"),
        ({"waits_for": "hold"}, "not while it is held; gresume lets it go on"),
        (
            {"waits_for": "time", "waits_until": 3600.0},
            "not before the time that it waits for, Thu Jan  1 01:00:00 1970",
        ),
        (
            {"planned": PlannedStart(text=coded("planned.unknown", coded("planned.no_run_limit", "812")))},
            "unknown: no run limit on job 812",
        ),
        ({"planned": PlannedStart(text=coded("planned.never", "no host has it"))}, "never: no host has it"),
        ({"is_alone": True}, "unknown: other jobs come before it"),
        ({}, "unknown: no start is planned for it"),
        (
            {"planned": PlannedStart(at=60.0, hosts=("a",)), "is_alone": True},
            "not before Thu Jan  1 00:01:00 1970 on host(s) <a>; other jobs come before it",
        ),
        (
            {"planned": PlannedStart(at=60.0, hosts=("a",))},
            "Thu Jan  1 00:01:00 1970 on host(s) <a>; planned behind all jobs that come before it",
        ),
    ],
)
def test_when_it_starts(master: FakeMaster, call: Callable[..., FakeCall], changes: dict[str, Any], text: str) -> None:
    master.explanations = {7: JobExplanation(job_id=7, **changes)}
    asked = call("gjobs", "-p4", "7", TZ="UTC")
    assert asked.run() == 0
    assert asked.out.splitlines()[2] == f"Expected start: {text}"


def test_what_cannot_be_asked(master: FakeMaster, call: Callable[..., FakeCall]) -> None:
    none, also, many = call("gjobs", "-p4"), call("gjobs", "-p4", "-l", "7"), call("gjobs", "-p4", "7[1-21]")
    assert (none.run(), none.err) == (255, "gjobs: -p4 is given the jobs that are to be explained\n")
    assert (also.run(), also.err) == (255, "gjobs: -p4 and -l cannot be given together\n")
    assert (many.run(), many.err) == (255, "gjobs: -p4 explains 20 jobs at a time, not 21\n")


def test_one_that_is_missing_fails_and_the_others_are_shown(master: FakeMaster, call: Callable[..., FakeCall]) -> None:
    master.explanations = {7: FULL}
    asked = call("gjobs", "-p4", "6", "7")
    assert asked.run() == 255
    assert asked.err == "Job <6>: No matching job found\n" and "Job <7>" in asked.out


def test_the_json_has_codes_beside_the_words() -> None:
    found = json.loads(explanation_json(FULL))
    assert found["job"] == "7" and found["start"]["awaits"][0]["job_id"] == "3"
    assert found["reasons"][0]["reason"]["code"] == "pending.reserving"
    assert found["reasons"][0]["reason"]["values"] == ["ngpus_physical"]
    host = found["hosts"][0]["hosts"][0]
    assert [holder["user"] for holder in host["holders"]] == ["bob", "carl"]
    assert host["holders"][1]["ends_at"] is None and host["gpus"][0]["pids"] == [812, 813]
    assert [group["usable"] for group in found["hosts"]] == [True, False]


CHANGES = (
    ("gpus", "1", "1 GPU on each host"),
    ("slots", "2", "-n 2"),
    ("hosts", "", "without -m"),
    ("rusage[mem]", "30G", "rusage[mem=30G]"),
    ("run_limit", "1:00", "-W 1:00, so that it ends before planned jobs start"),
)


def test_what_would_start_it(master: FakeMaster, call: Callable[..., FakeCall]) -> None:
    told = tuple(
        StartSuggestion(changes=(StartChange(what=what, value=value),), options="x", command="gmod x 7", hosts=("a",))
        for what, value, _ in CHANGES
    )
    master.explanations = {7: JobExplanation(job_id=7, suggestions=told)}
    asked = call("gjobs", "-p4", "7")
    assert asked.run() == 0
    lines = asked.out.splitlines()
    at = lines.index("It would start now, with one of:")
    assert lines[at + 1 :] == [f"  {words} (on a): gmod x 7" for _, _, words in CHANGES]
    assert len(json.loads(explanation_json(master.explanations[7]))["suggestions"]) == len(CHANGES)


MEASURES = (
    AdminMeasure(
        changes=(AdminChange(what="host", name="gpu02"), AdminChange(what="queue", name="night")),
        commands=("gadmin hopen gpu02", "gadmin qact night"),
        hosts=("gpu02",),
    ),
    AdminMeasure(changes=(AdminChange(what="gpu", name="gpu01:3"),), commands=("gadmin gpuopen gpu01:3",)),
    AdminMeasure(
        changes=(AdminChange(what="reservation", name="ann#0", setting="gpus", old="4", new="1"),),
        commands=("grsvmod -gpu 1 -m gpu01 ann#0",),
    ),
    AdminMeasure(changes=(AdminChange(what="reservation", name="ann#0"),), commands=("grsvdel ann#0",)),
    AdminMeasure(
        changes=(AdminChange(what="limit", name="few", file="lsb.resources", setting="NGPUS", old="8", new="10"),),
        commands=("gadmin reconfig",),
    ),
    AdminMeasure(
        changes=(AdminChange(what="limit", name="job group /a", setting="-L", old="1", new="2"),),
        commands=("gbgmod -L 2 /a",),
    ),
    AdminMeasure(
        changes=(AdminChange(what="job", name="3"), AdminChange(what="job", name="9")),
        commands=("grequeue 3 9",),
        hosts=("gpu01",),
        jobs=(
            MovedJob(job_id=3, user="bob", gpus=2, lost_gpu_s=600, lost_s=300, hosts=("gpu02",)),
            MovedJob(job_id=9, user="eve", gpus=0.5, lost_gpu_s=60, lost_s=120),
        ),
    ),
)


def test_what_an_administrator_could_do(master: FakeMaster, call: Callable[..., FakeCall]) -> None:
    master.explanations = {7: JobExplanation(job_id=7, measures=MEASURES, measures_cut=True)}
    asked = call("gjobs", "-p4", "7")
    assert asked.run() == 0
    lines = asked.out.splitlines()
    assert lines[lines.index("An administrator could:") + 1 :] == [
        "  open host gpu02 and activate queue night (the job starts on gpu02): gadmin hopen gpu02; gadmin qact night",
        "  open GPU gpu01:3: gadmin gpuopen gpu01:3",
        "  leave reservation ann#0 1 of its 4 GPUs: grsvmod -gpu 1 -m gpu01 ann#0",
        "  end reservation ann#0: grsvdel ann#0",
        "  raise NGPUS of few in lsb.resources from 8 to 10: gadmin reconfig",
        "  raise -L of job group /a from 1 to 2: gbgmod -L 2 /a",
        "  requeue jobs 3 and 9, at the cost of 11.0 GPU minutes (the job starts on gpu01): grequeue 3 9",
        "    job 3 of bob has run 5.0 minutes on 2 GPUs; it starts again on gpu02",
        "    job 9 of eve has run 2.0 minutes on 0.5 GPUs; it waits again",
        "Not everything was tried: there may be other ways.",
    ]
    record = json.loads(explanation_json(master.explanations[7]))
    assert record["measures"][-1]["lost_gpu_minutes"] == 11 and record["measures"][0]["lost_gpu_minutes"] == 0
    assert [each["job_id"] for each in record["measures"][-1]["moved"]] == ["3", "9"]


def test_that_not_all_was_tried_is_told_where_nothing_was_found(
    master: FakeMaster, call: Callable[..., FakeCall]
) -> None:
    master.explanations = {7: JobExplanation(job_id=7, measures_cut=True)}
    asked = call("gjobs", "-p4", "7")
    assert asked.run() == 0
    assert "What an administrator could do: not everything was tried: there may be other ways." in asked.out


STARTS = JobDryRun(
    explanation=JobExplanation(job_id=0, queue="normal", starts_now=True),
    parts=(PlacedPart(host="gpu01", slots=2, gpus=(0, 3)), PlacedPart(host="gpu02", slots=1)),
    limits=(
        LimitTake(text="reached", limit="few", kind="section", resource="ngpus", takes=2, used=1, allowed=4),
        LimitTake(text="full", kind="queue", name="normal", resource="slots", takes=3, used=0),
        LimitTake(text="spent", limit="hours", kind="budget", resource="gpu_hours", takes=None, used=1.5, allowed=9),
    ),
    warnings=("careful",),
)


def test_a_dry_run_tells_where_it_starts_and_what_it_takes(master: FakeMaster, call: Callable[..., FakeCall]) -> None:
    master.dry_run = STARTS
    asked = call("gsub", "--dry-run", "-n", "3", "./train.sh")
    assert (asked.run(), asked.err) == (0, "Warning: careful\n")
    assert asked.out.splitlines() == [
        "Queue <normal>",
        "Would start now:",
        "  gpu01: 2 slots, GPUs 0, 3",
        "  gpu02: 1 slot",
        "Takes of limits:",
        "  ngpus (limit few): 2, beside 1 in use; 4 allowed",
        "  slots of queue: 3, beside 0 in use; no limit now",
        "  gpu_hours (limit hours): unknown without a run limit (-W) and a place, beside 1.5 in use; 9 allowed",
        "Job not submitted.",
    ]
    assert not master.submissions and master.forecast_spec is not None and master.forecast_spec.slots == 3


def test_a_dry_run_for_programs(master: FakeMaster, call: Callable[..., FakeCall]) -> None:
    master.dry_run = STARTS
    asked = call("gsub", "--dry-run", "--json", "true")
    assert asked.run() == 0
    found = json.loads(asked.out)
    assert found["start"]["now"] and found["parts"][0] == {"host": "gpu01", "slots": 2, "gpus": [0, 3]}
    assert found["limits"][0]["allowed"] == 4 and found["limits"][1]["allowed"] is None


def test_how_long_such_jobs_waited(master: FakeMaster, call: Callable[..., FakeCall]) -> None:
    known = msgspec.structs.replace(FULL, p50_at=109_000.0, p90_at=118_000.0, such_jobs=21)
    master.explanations = {7: known, 8: FULL}
    half, most = "Fri Jan  2 06:16:40", "Fri Jan  2 08:46:40"
    line = f"Judging by 21 such jobs that waited: by {half} one half starts, by {most} nine in ten"
    asked, none = call("gjobs", "-p4", "7", TZ="UTC"), call("gjobs", "-p4", "8", TZ="UTC")
    assert (asked.run(), none.run()) == (0, 0)
    assert line in asked.out.splitlines() and "Judging" not in none.out
    start = json.loads(explanation_json(known))["start"]
    assert (start["p50"], start["p90"], start["such_jobs"]) == (109_000.0, 118_000.0, 21)
    master.dry_run = JobDryRun(explanation=known)
    dry = call("gsub", "--dry-run", "true", TZ="UTC")
    assert dry.run() == 0 and line in dry.out.splitlines()


def test_a_dry_run_of_one_that_waits(master: FakeMaster, call: Callable[..., FakeCall]) -> None:
    master.dry_run = JobDryRun(explanation=FULL)
    asked = call("gsub", "--dry-run", "true", TZ="UTC")
    assert asked.run() == 0
    assert "Would wait because: Job's requirements for reserving resource (ngpus_physical)" in asked.out
    assert "Expected start: Thu Jan  1 01:00:00 1970 on host(s) <gpu01>" in asked.out


def test_what_a_dry_run_refuses(master: FakeMaster, call: Callable[..., FakeCall]) -> None:
    for words, text in (
        (["--dry-run", "-K", "true"], "-K cannot wait for a job that --dry-run does not submit"),
        (["--dry-run", "--test-only", "true"], "--test-only and --dry-run cannot be given together"),
        (["--json", "true"], "--json is given together with --dry-run"),
    ):
        asked = call("gsub", *words)
        assert asked.run() == 255
        assert text in asked.err
    master.refusal = "No host can ever provide 99 GPUs"
    refused = call("gsub", "--dry-run", "-gpu", "num=99", "true")
    assert refused.run() == 255 and "No host can ever provide 99 GPUs" in refused.err


def keys(value: object) -> set[str]:
    """Those of all objects in it."""
    if isinstance(value, dict):
        return set(value) | set().union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def test_each_field_of_the_json_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explain.md").read_text("utf-8")
    told = StartSuggestion(changes=(StartChange(what="hosts"),), options="-mn", command="gmod -mn 7", hosts=("a",))
    waiting = msgspec.structs.replace(FULL, suggestions=(told,), measures=MEASURES)
    found = keys(json.loads(explanation_json(waiting))) | keys(json.loads(dry_run_json(STARTS)))
    assert len(found) > 40
    assert {key for key in found if f"`{key}`" not in page and f".{key}`" not in page} == set()


def test_each_figure_of_estimates_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explain.md").read_text("utf-8")
    assert {key for key in estimate_errors_record(EstimateErrors()) if f"`{key}`" not in page} == set()
