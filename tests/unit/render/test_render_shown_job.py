"""A shown job is its view: what it adds is how much is to be told, and what is derived from the view."""

from __future__ import annotations

import msgspec
import pytest
from seed_jobs import at, job

from gsched.base.coded_text import coded, sentence
from gsched.cli.render.jobs.shown_job import SOON_S, ShownJob, slots_on_host
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.views.view import JobView

NOON = at(7, "12:00:00")
TWO_HOSTS = (
    HostAllocation(host="a", slots=4, amounts={"mem": 100.0}),
    HostAllocation(host="b", slots=1, amounts={"mem": 50.0}, gpus=(HeldGpu(index=2, uuid="u", claim="ngpus_shared"),)),
)


def test_no_field_of_the_view_is_repeated() -> None:
    assert not {*ShownJob.__struct_fields__} & {*JobView.__struct_fields__, *JobSpec.__struct_fields__}


def test_an_array_and_its_element_are_named_as_lsf_names_them() -> None:
    whole = job(7, NOON, name="a", indices="1-10:2", array_limit=5)
    assert (whole.label, whole.array_spec, whole.display_name) == ("7", "[1-10:2]%5", "a[1-10:2]%5")
    element = job(7, NOON, name="a", indices="1-10:2", index=3)
    assert (element.label, element.job_id, element.index, element.display_name) == ("7[3]", 7, 3, "a[3]")
    assert job(8, NOON, "x.sh").display_name.endswith("/x.sh"), "without a name the command stands for it"


def test_hosts_are_shown_as_they_may_be_typed_again() -> None:
    asked = job(1, NOON, hosts=("a", "b"), host_levels=(2, 0), first_hosts=("b", "c"), other_hosts=True)
    assert asked.hosts_asked == ("c!", "a+2", "b!", "others")


@pytest.mark.parametrize(
    ("spec", "told"),
    [({}, ""), ({"notify_begin": True}, "begins"), ({"notify_begin": True, "notify_error": True}, "begins/ends")],
)
def test_when_mail_is_sent(spec: dict[str, bool], told: str) -> None:
    assert job(1, NOON, **spec).notify == told


def test_what_it_holds() -> None:
    held = job(1, NOON, placed=TWO_HOSTS)
    assert [slots_on_host(part) for part in held.placed] == ["4*a", "b"]
    assert (held.reserved_mem_mib, held.gpus, held.gpu_count) == (150.0, "b:gpus=2;", 1)
    waits = job(1, NOON, state="PEND")
    assert (waits.placed, waits.reserved_mem_mib, waits.gpus, waits.gpu_count) == ((), None, "", 0)


def test_an_end_is_told_when_the_job_has_ended() -> None:
    end = AttemptResult(exit_code=3, term_reason="TERM_OWNER", usage=Usage(cpu_s=5.0))
    before = job(1, NOON, state="PEND", finished_at=NOON, end=end)  # it was requeued
    assert (before.ended_at, before.exit_code, before.term_reason, before.ran) == (None, None, "", True)
    ended = job(1, NOON, state="EXIT", finished_at=NOON, end=end)
    assert (ended.ended_at, ended.exit_code, ended.term_reason, ended.ran) == (NOON, 3, "TERM_OWNER", True)
    assert ended.usage.cpu_s == 5.0
    assert not job(1, NOON, state="EXIT", finished_at=NOON).ran


def test_warnings_are_those_of_spec_and_notes_once_and_what_is_awaited() -> None:
    shown = job(1, NOON, warnings=("first",), notes=("first", "second"))
    assert shown.warnings == ("first", "second")
    waits = coded("warning.waits_for_host", "No host has it")
    assert job(1, NOON, state="PEND", warnings=(waits,)).warnings == (sentence(waits),)
    assert job(1, NOON, state="RUN", warnings=(waits,)).warnings == ()
    over = job(1, NOON, state="DONE", placed=TWO_HOSTS, leaving=("b",))
    assert over.warnings == ("1 slot and GPU 2 of host b are still held: what the job had there has not ended",)
    begun = job(1, NOON, placed=TWO_HOSTS, awaited=("b",), dispatched_at=NOON)
    assert msgspec.structs.replace(begun, now=NOON + SOON_S - 1).warnings == ()
    assert msgspec.structs.replace(begun, now=NOON + SOON_S).warnings == (
        "starting: waiting for host b to open what the job has there",
    )


def test_why_it_is_suspended() -> None:
    assert job(1, NOON, state="USUSP").suspending_reasons == ("The job was suspended by user",)
    assert job(1, NOON, state="SSUSP", suspending_reason="load").suspending_reasons == ("load",)
    assert job(1, NOON).suspending_reasons == ()
