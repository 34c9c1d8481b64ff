"""The page that explains why a job waits: asked for by a person, with names taken as text, never loaded by itself."""

from __future__ import annotations

from fake_master import FakeMaster, spec
from served_pages import Pages

from gsched.base.coded_text import coded
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.views.explanation import (
    AdminChange,
    AdminMeasure,
    JobExplanation,
    MovedJob,
    RefusingHost,
    RefusingHosts,
    ResourceHolder,
    StartChange,
    StartSuggestion,
)
from gsched.model.views.view import JobView

REASON = PendingReason(coded("pending.new"))
EXPLAINED = JobExplanation(
    job_id=7,
    user="ann",
    queue="normal",
    state="PEND",
    at=60.0,
    reasons=(REASON,),
    planned=PlannedStart(at=3600.0, hosts=("gpu01",)),
    is_reserved=True,
    hosts=(
        RefusingHosts(
            text=REASON.text,
            count=1,
            hosts=(RefusingHost(host="gpu01", holders=(ResourceHolder(job_id=3, user="<b>", state="RUN"),)),),
        ),
    ),
    suggestions=(
        StartSuggestion(
            changes=(StartChange(what="slots", value="1"),), options="-n 1", command="gmod -n 1 7", hosts=("gpu01",)
        ),
    ),
    measures=(
        AdminMeasure(
            changes=(AdminChange(what="job", name="3"),),
            commands=("grequeue 3",),
            jobs=(MovedJob(job_id=3, user="<b>", gpus=1, lost_s=60, lost_gpu_s=60),),
        ),
    ),
    measures_cut=True,
)


def test_it_tells_what_is_in_the_way_and_what_would_start_the_job(master: FakeMaster, pages: Pages) -> None:
    master.explanations = {7: EXPLAINED}
    text = pages.get("/jobs/7/why").text
    assert "-n 1" in text and "<code>gmod -n 1 7</code>" in text and "job 3 of &lt;b&gt;" in text
    assert "What an administrator could do" in text and "<code>grequeue 3</code>" in text
    assert "job 3 of &lt;b&gt; has run 1.0 minutes" in text and "Not everything was tried" in text
    assert "Thu Jan  1 01:00:00 1970" in text and "<b>" not in text.split("<main", 1)[1]
    assert "data-live" not in text.split("<main", 1)[1], "each look costs the master plans of its own"


def test_where_nothing_would_start_it_that_is_said(master: FakeMaster, pages: Pages) -> None:
    master.explanations = {7: JobExplanation(job_id=7, state="PEND", reasons=(REASON,))}
    text = pages.get("/jobs/7/why").text
    assert "No smaller request was found" in text and "administrator could" not in text


def test_the_page_of_a_job_that_waits_leads_there(master: FakeMaster, pages: Pages) -> None:
    master.views = [JobView(job_id=7, spec=spec(), state="PEND", submitted_at=1.0, pending_reasons=(REASON,))]
    assert 'href="/jobs/7/why"' in pages.get("/jobs/7").text


def test_a_job_that_does_not_wait_has_none(master: FakeMaster, pages: Pages) -> None:
    master.explanations = {}
    answer = pages.get("/jobs/7/why")
    assert answer.status == 404 and "Traceback" not in answer.text
