"""What pages show of a cluster, and how: escaped, filtered, sorted, paged."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable

import pytest
from fake_master import FakeMaster, allocation, record, spec
from served_pages import Pages

from gsched.base.coded_text import coded
from gsched.model import event as events
from gsched.model.gpus.gpu_closure import GpuClosure
from gsched.model.gpus.gpu_curve import CurvePoint, GpuCurve, pack
from gsched.model.hosts.host import ComputeMode, Gpu, GpuProcess, GpuXid
from gsched.model.jobs.job import FINISHED, AttemptResult, JobState
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.views.catalogue import Account, UserLimitView
from gsched.model.views.gpu_sums import GpuSums
from gsched.model.views.message_boxes import PROFILES_BOX
from gsched.model.views.room_view import LimitView
from gsched.model.views.view import GpuView, HostView, JobView, Message, OutputChunk, QueueView, ShareView
from gsched.web.mirror.cluster_load import EVERY_S, MOST_SAMPLES, MOST_TOLD, ClusterLoad
from gsched.web.mirror.job_rows import MirroredJob
from gsched.web.shown.job_list import PER_PAGE, ListQuery, page_of, read_query
from gsched.wire.identity.caller_identity import user_name

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
NewPages = Callable[..., Pages]


def job(number: int, state: str = "RUN", **changes: object) -> JobView:
    values: dict[str, object] = {
        "job_id": number,
        "spec": spec(name=f"job{number}"),
        "state": state,
        "submitted_at": 1.0,
    }
    return JobView(**(values | changes))  # type: ignore[arg-type]


def gpu(index: int, **changes: object) -> Gpu:
    values: dict[str, object] = {"uuid": f"GPU-{index}", "index": index, "mode": ComputeMode.EXCLUSIVE_PROCESS}
    return Gpu(**(values | changes))  # type: ignore[arg-type]


def tile(text: str, index: int) -> str:
    """The tile of that GPU as it stands in the page."""
    found = re.search(rf'<li class="(tile [^"]*)"[^>]*>\s*<div><b><a [^>]*>{index}</a></b>.*?</li>', text, re.DOTALL)
    assert found is not None
    return found[0]


def test_names_and_outputs_are_never_markup(master: FakeMaster, new_pages: NewPages) -> None:
    reason = PendingReason(EVIL, detail=EVIL, hosts=1, names=(EVIL,))
    evil = spec(name=EVIL, command=EVIL, project=EVIL, queue=EVIL, res_req=EVIL, output_file=EVIL, dependency=EVIL)
    master.views = [
        job(1, "PEND", spec=evil, pending_reasons=(reason,), planned=PlannedStart(9e9, (EVIL,), EVIL), notes=(EVIL,)),
        job(2, "EXIT", spec=evil, finished_at=3.0, result=AttemptResult(exit_code=1, problem=EVIL), kill_reason=EVIL),
    ]
    told = record(1, events.JobSubmitted(at=1.0, job_id=1, spec=evil))
    master.histories = {1: (told, record(2, events.JobNoted(at=2.0, job_id=1, text=EVIL)))}
    master.host_views = [
        HostView(
            name=EVIL, status=EVIL, comment=EVIL, notes=(EVIL,), gpus=(GpuView(gpu=gpu(0, model=EVIL, problem=EVIL)),)
        )
    ]
    master.queue_views = [QueueView(name=EVIL, priority=1, status=EVIL)]
    master.outputs = [[OutputChunk(stream="stdout", data=EVIL.encode())]]
    pages = new_pages().entered()
    for path in (
        "/",
        f"/?text={EVIL[:3]}",
        "/jobs?whose=all&states=any",
        "/jobs?text=%3Cscript%3E&queue=%3Cb%3E",
        "/jobs/1",
        "/jobs/2",
    ):
        text = pages.get(path).text
        assert "<script>alert" not in text and "<img" not in text and "<b>&" not in text, path
    assert "&lt;script&gt;alert(1)" in pages.get("/jobs/1").text
    answer = pages.get("/jobs/1/output")
    assert answer.headers["content-type"] == "application/json" and json.loads(answer.text)["text"] == EVIL
    file = pages.get("/jobs/1/output/stdout")
    assert file.headers["content-type"].startswith("text/plain") and "attachment" in file.headers["content-disposition"]


def test_tiles_say_whose_a_gpu_is(master: FakeMaster, new_pages: NewPages) -> None:
    closure = GpuClosure(host="h", uuid="GPU-4", index=4, by="ann", at=1.0, comment="its fan is broken")
    process = GpuProcess(pid=77)
    master.host_views = [
        HostView(
            name="h",
            status="ok",
            gpus=(
                GpuView(gpu=gpu(0, utilization_percent=42, used_mib=512, memory_mib=1024, temperature_c=61)),
                GpuView(gpu=gpu(1), holders=("1.1",)),
                GpuView(gpu=gpu(2), holders=("2.1",)),
                GpuView(gpu=gpu(3), holders=("1.1", "2.1")),
                GpuView(gpu=gpu(4, problem=coded("gpu.closed", "ann")), closure=closure),
                GpuView(gpu=gpu(5, foreign_pids=(77,), processes=(process,))),
                GpuView(gpu=gpu(6, problem="it is lost")),
                GpuView(gpu=gpu(7, mode=None)),
            ),
        )
    ]
    me = user_name(os.getuid())
    master.views = [job(1, spec=spec(user=me)), job(2, spec=spec(user="ann"))]
    text = new_pages().entered().get("/").text
    free = tile(text, 0)
    assert "free" in free and "42%" in free and "512M" in free and "61°" in free and 'class="w8"' in free
    assert 'class="tile mine"' in tile(text, 1) and 'href="/jobs/1"' in tile(text, 1)
    assert 'class="tile others"' in tile(text, 2) and "ann" in tile(text, 2)
    assert "2 jobs" in tile(text, 3) and "ann" in tile(text, 3) and me in tile(text, 3)
    assert "closed" in tile(text, 4) and "its fan is broken" in tile(text, 4) and "ann" in tile(text, 4)
    assert "foreign" in tile(text, 5) and "77" in tile(text, 5)
    assert "failed" in tile(text, 6) and "it is lost" in tile(text, 6)
    assert "not offered" in tile(text, 7) and "–" in tile(text, 7)


def test_a_pending_job_says_why_and_when(master: FakeMaster, new_pages: NewPages) -> None:
    reason = PendingReason("Not enough job slot(s)", hosts=2, detail="3 wanted, 0 of 4 free on a", names=("a", "b"))
    planned = PlannedStart(1_900_000_000.0, ("gpu01",), "when job 3 ends")
    master.views = [job(1, "PEND", pending_reasons=(reason,), planned=planned, pending_reasons_at=5.0)]
    text = new_pages().entered().get("/jobs/1").text
    assert "Not enough job slot(s): 2 hosts (3 wanted, 0 of 4 free on a)" in text
    assert "2030-" in text and "&lt;gpu01&gt;" in text and "when job 3 ends" in text
    assert 'value="kill"' in text and 'value="stop"' in text and 'id="output"' not in text


def test_files_of_profilers_are_listed_apart_from_messages(master: FakeMaster, new_pages: NewPages) -> None:
    texts = {3: "epoch 12 of 90", PROFILES_BOX: f"profiles in /w/prof.1: {EVIL}"}
    messages = tuple(Message(box=box, user="ann", posted_at=2.0, text=text) for box, text in texts.items())
    master.views = [job(1, messages=messages), job(2)]
    pages = new_pages().entered()
    text = pages.get("/jobs/1").text
    part, _, rest = text.partition('<div id="profiles" data-live>')[2].partition("</div>")
    assert "<h2" in part and '<p lang="en">profiles in /w/prof.1: &lt;script&gt;' in part
    assert "epoch 12 of 90" in rest and "prof.1" not in rest
    without = pages.get("/jobs/2").text.partition('<div id="profiles" data-live>')[2].partition("</div>")[0]
    assert not without.strip()  # the place is there: what comes while the page is open is put into it


def test_a_job_that_is_not_there(pages: Pages) -> None:
    for word in ("17", "0", "x", "17[1]", "99999999999", "1.", "%3Cb%3E"):
        answer = pages.get(f"/jobs/{word}")
        assert answer.status == 404 and "<b>" not in answer.text, word


def test_deeds_reach_the_master_as_they_are_meant(master: FakeMaster, new_pages: NewPages) -> None:
    master.views = [job(1), job(2, "DONE"), job(3, "PEND")]
    pages = new_pages().entered()
    done = pages.deed(action="kill", job="1", back="job")
    assert (done.status, done.headers["location"]) == (303, "/jobs/1?said=kill")
    assert "Job 1 is being ended." in pages.get("/jobs/1?said=kill").text
    assert pages.deed(action="stop", job=["1", "3", "1"]).status == 303
    assert pages.deed(action="requeue_finished", job="2", back="job").headers["location"] == "/jobs/2?said=requeue"
    assert [(what, ids) for what, ids, _, _ in master.controls] == [("kill", (1,)), ("stop", (1, 3)), ("requeue", (2,))]
    assert all(wanted is None for _, _, wanted, _ in master.controls), "a filter would mean other jobs"


@pytest.mark.parametrize(
    ("action", "one", "several"),
    [
        ("kill", "One job is being ended.", "2 jobs are being ended."),
        ("stop", "One job is being stopped.", "2 jobs are being stopped."),
        ("resume", "One job is being resumed.", "2 jobs are being resumed."),
        ("requeue", "One job is being requeued.", "2 jobs are being requeued."),
        ("top", "One job is now at the top of its queue.", "2 jobs are now at the top of their queues."),
        ("bottom", "One job is now at the bottom of its queue.", "2 jobs are now at the bottom of their queues."),
        ("switch", "One job is now in the other queue.", "2 jobs are now in the other queue."),
    ],
)
def test_the_list_says_what_was_done_to_chosen_jobs(
    master: FakeMaster, new_pages: NewPages, action: str, one: str, several: str
) -> None:
    master.views = [job(1), job(2), job(3)]
    pages = new_pages().entered()
    for numbers, said in ((["1"], one), (["1", "2"], several)):
        answer = pages.deed(action=action, job=numbers, to_queue="night", whose="all", text="a&b", page="2")
        assert answer.status == 303
        where = answer.headers["location"]
        assert where == f"/jobs?whose=all&text=a%26b&page=2&said={action}&count={len(numbers)}"
        page = pages.get(where).text
        assert f'<p class="notice good" role="status">{said}</p>' in page
        assert 'name="text" value="a&amp;b"' in page, "the list is not the one that it was"
    master.control_errors = {2: "Job <2>: User permission denied"}
    refused = pages.deed(action=action, job=["1", "2", "3"], to_queue="night", text="a")
    assert refused.status == 409
    for text in (several, "Refused for one job:", "Job &lt;2&gt;: User permission denied", 'href="/jobs?text=a"'):
        assert text in refused.text


@pytest.mark.parametrize("words", ["said=kill", "said=x&count=3", "said=kill&count=0", "said=kill&count=-1", "count=3"])
def test_what_nobody_has_done_is_not_said(pages: Pages, words: str) -> None:
    assert "notice good" not in pages.get(f"/jobs?{words}").text


def test_chosen_jobs_go_to_another_queue(master: FakeMaster, new_pages: NewPages) -> None:
    pages = new_pages().entered()
    assert pages.deed(action="switch", job=["1", "3"], to_queue="night").status == 303
    (asked,) = [each for each in master.requests if hasattr(each, "fields")]
    assert (list(asked.job_ids), list(asked.fields), asked.spec.queue) == ([1, 3], ["queue"], "night")
    assert pages.deed(action="switch", job="1").status == 400
    assert pages.deed(action="switch", to_queue="night").status == 400


def test_what_the_master_refuses_is_told_job_by_job(master: FakeMaster, new_pages: NewPages) -> None:
    master.control_errors = {2: "Job <2>: <b>User permission denied</b>"}
    pages = new_pages().entered()
    answer = pages.deed(action="kill", job=["1", "2"])
    assert (
        answer.status == 409
        and "&lt;b&gt;User permission denied" in answer.text
        and "One job is being ended." in answer.text
    )


@pytest.mark.parametrize(
    "fields", [{"action": "kill"}, {"action": "post", "job": "1"}, {"job": "1"}, {"action": "kill", "job": "0"}]
)
def test_a_deed_without_a_job_or_a_word_does_nothing(
    pages: Pages, master: FakeMaster, fields: dict[str, object]
) -> None:
    assert pages.deed(**fields).status in (400, 404)
    assert master.controls == []


def row(number: int, **changes: object) -> MirroredJob:
    values: dict[str, object] = {"job_id": number, "name": f"n{number}", "user": "me", "queue": "q", "project": "p"}
    return MirroredJob(**({"state": "RUN", "submitted_at": float(number)} | values | changes))  # type: ignore[arg-type]


def numbers(rows: list[MirroredJob], **query: object) -> list[str]:
    return [line.label for line in page_of(rows, ListQuery(**query), "me", 0.0).lines]  # type: ignore[arg-type]


def test_lists_are_filtered_sorted_and_searched() -> None:
    rows = [row(1, gpus=2), row(2, state="DONE", queue="z"), row(3, user="ann", name="Train"), row(4, state="PEND")]
    assert numbers(rows) == ["4", "1"]
    assert numbers(rows, whose="all") == ["4", "3", "1"]
    assert numbers(rows, whose="all", states="any", sort="gpus") == ["1", "4", "3", "2"]
    assert numbers(rows, states="finished") == ["2"] and numbers(rows, states="PEND") == ["4"]
    assert numbers(rows, whose="all", text="tRaIn") == ["3"] and numbers(rows, queue="z", states="any") == ["2"]
    assert numbers(rows, sort="number", descending=False) == ["1", "4"]


def test_arrays_are_one_line_that_counts_all_elements() -> None:
    rows = [row(7 | index << 32, state=state) for index, state in enumerate(("DONE", "EXIT", "RUN", "PEND"), 1)]
    page = page_of([*rows, row(8)], ListQuery(), "me", 0.0)
    assert [line.label for line in page.lines] == ["8", "7"]
    array = page.lines[1]
    assert (array.total, array.finished, array.failed, array.number) == (4, 2, 1, 7)
    assert numbers(rows, array=7, states="any", descending=False) == ["7[1]", "7[2]", "7[3]", "7[4]"]
    assert numbers(rows[:2]) == []


def test_lists_come_page_by_page() -> None:
    rows = [row(number) for number in range(1, 2 * PER_PAGE + 2)]
    first, last = page_of(rows, ListQuery(), "me", 0.0), page_of(rows, ListQuery(page=99), "me", 0.0)
    assert (len(first.lines), first.count, first.pages) == (PER_PAGE, 2 * PER_PAGE + 1, 3)
    assert last.page == 3 and [line.label for line in last.lines] == ["1"]
    assert page_of([], ListQuery(), "me", 0.0).pages == 1


@pytest.mark.parametrize(
    "words", [{"page": "-1"}, {"page": "x"}, {"sort": "x"}, {"states": "<"}, {"whose": ""}, {"array": "9" * 40}]
)
def test_bad_words_of_an_address_mean_the_usual_ones(words: dict[str, str]) -> None:
    assert read_query(words) == ListQuery()


def test_an_address_says_what_differs() -> None:
    query = read_query({"text": "a&b", "descending": "0", "page": "3"})
    assert query.words(page=4) == {"text": "a&b", "descending": "0", "page": "4"}
    assert read_query(query.words()) == query


def test_the_end_of_an_output_is_found_without_reading_it_all(master: FakeMaster, new_pages: NewPages) -> None:
    text = "".join(f"line {number} é\n" for number in range(40_000)).encode()
    master.views = [job(1, allocation=allocation(0))]
    master.outputs = [[OutputChunk(stream="stdout", data=text)]]
    pages = new_pages().entered()
    told = json.loads(pages.get("/jobs/1/output").text)
    assert told["text"].endswith("line 39999 é\n") and told["text"].startswith("line ")
    assert told["next"] == len(text) and 10_000 < len(told["text"]) <= 64 * 1024
    again = json.loads(pages.get(f"/jobs/1/output?from={told['next']}").text)
    assert again["text"] == "" and again["next"] == len(text)
    half = text.index("é".encode()) + 1
    assert json.loads(pages.get(f"/jobs/1/output?from={half - 1}").text)["text"].startswith("é")
    assert json.loads(pages.get("/jobs/1/output?stream=stderr").text)["text"] == ""
    assert pages.get("/jobs/1/output?stream=x").status == 400
    assert pages.get("/jobs/1/output/stdout").data == text


def test_a_page_is_told_to_ask_no_more_for_an_output_that_is_not_for_its_user(
    master: FakeMaster, new_pages: NewPages
) -> None:
    """The page asks for it by itself, every two seconds: each time there was a line in the audit log."""
    master.views = [job(1, allocation=allocation(0))]
    pages = new_pages().entered()
    assert "denied" not in json.loads(pages.get("/jobs/1/output").text)
    master.denied_output = "Job <1>: User permission denied"
    for words in ("", "?from=10", "?stream=stderr"):
        told = json.loads(pages.get(f"/jobs/1/output{words}").text)
        assert (told["text"], told["why"], told["denied"]) == ("", "Job <1>: User permission denied", True)
    assert pages.get("/jobs/1/output/stdout").status == 403  # that somebody has asked for


def test_the_hosts_are_paged_and_found_by_name(master: FakeMaster, new_pages: NewPages) -> None:
    master.host_views = [HostView(name=f"gpu{number:03}", status="ok") for number in range(450)]
    pages = new_pages().entered()
    for words, first, count in (
        ("", "gpu000", 200),
        ("?page=3", "gpu400", 50),
        ("?text=GPU12", "gpu120", 10),
        ("?page=x", "gpu000", 200),
    ):
        names = re.findall(r'class="name">(gpu\d+)<', pages.get(f"/{words}").text)
        assert (names[0], len(names)) == (first, count)


def test_the_page_of_a_gpu(master: FakeMaster, new_pages: NewPages) -> None:
    processes = (GpuProcess(pid=77, user="bob", name="evil<b>"), GpuProcess(pid=78, job="1.1", used_mib=512))
    device = gpu(3, model="H100", processes=processes, process_count=2, xids=(GpuXid(number=79),), ecc_errors=2)
    master.host_views = [HostView(name="h", status="ok", gpus=(GpuView(gpu=device, holders=("1.1",)),))]
    master.views = [job(1, spec=spec(user="ann"))]
    ended = job(5, "DONE", allocation=allocation(3, host="h"), finished_at=9.0)
    master.accounts = [
        Account(job_id=5, user="ann", queue="q", state="DONE", submitted_at=1.0, finished_at=9.0, job=ended),
        Account(job_id=6, user="ann", queue="q", state="DONE", submitted_at=1.0, finished_at=9.0, job=job(6, "DONE")),
    ]
    pages = new_pages().entered()
    text = pages.get("/gpus/GPU-3").text
    assert "GPU 3 of h" in text and "79" in text and "evil&lt;b&gt;" in text and "foreign" in text and "bob" in text
    assert 'href="/jobs/1"' in text and 'href="/jobs/5"' in text and 'href="/jobs/6"' not in text
    assert json.loads(pages.get("/gpus/GPU-3/curves").text)["gpus"][0]["name"] == "h:3"
    assert pages.get("/gpus/x").status == 404 and pages.get("/gpus/%3Cb%3E/curves").status == 404


def test_the_page_of_queues_and_users(master: FakeMaster, new_pages: NewPages) -> None:
    share = ShareView(path="fair/", name="ann<", shares=3, priority=0.5, started=1)
    master.queue_views = [QueueView(name="fair", priority=1, job_limit=7, shares=(share,), description="for <all>")]
    master.user_views = [UserLimitView(name="ann", run=4, gpus={"ngpus_excl_p": 2.0}), UserLimitView(name="staff/")]
    master.limit_views = [LimitView(name="few", user="ann", resource="ngpus", used=1, allowed=2)]
    master.gpu_sums = [GpuSums(0, "ann", jobs=3, held_s=7200.0, seen_s=7200.0, busy_s=1800.0)]
    text = new_pages().entered().get("/queues").text
    for told in ("fair", "for &lt;all&gt;", "ann&lt;", "few", "2.0 h", "25 %", ">7<"):
        assert told in text, told
    assert "staff/" not in text


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_can_be_shown(master: FakeMaster, new_pages: NewPages, state: JobState) -> None:
    ends = {"finished_at": 5.0} if state in FINISHED else {}
    master.views = [job(1, state, **ends), *(job(7 | index << 32, state, **ends) for index in (1, 2))]
    pages = new_pages().entered()
    for path in ("/", "/jobs?whose=all&states=any", "/jobs?array=7&whose=all&states=any", "/jobs/1", "/jobs/7.2"):
        answer = pages.get(path)
        assert answer.status == 200, path
    assert "array of 2" in pages.get("/jobs?whose=all&states=any").text
    assert pages.get("/jobs/7").headers["location"] == "/jobs?array=7&whose=all&states=any"


def test_a_fault_of_ours_is_told_as_one(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(pages.context.mirror), "rows", property(lambda self: 1 / 0))
    answer = pages.get("/jobs")
    assert answer.status == 500 and "internal error" in answer.text and "division" not in answer.text


def test_the_load_of_a_day_has_bounds() -> None:
    load, full = ClusterLoad(), HostView(name="h", status="ok", gpus=(GpuView(gpu=gpu(0), holders=("1.1",)),))
    for number in range(2 * MOST_SAMPLES):
        load.add(number * EVERY_S, [full], [QueueView(name="q", priority=1, pend=number)])
        load.add(number * EVERY_S + 1, [full], [])
    samples = load.samples()
    assert MOST_TOLD <= len(samples) <= MOST_TOLD + 1 and samples[0].pending == MOST_SAMPLES
    assert (samples[0].use, samples[0].held) == (None, 100.0)


def test_curves_that_were_recorded_are_those_of_the_job(master: FakeMaster, new_pages: NewPages) -> None:
    points = (
        CurvePoint(0, {"sm": (0.0, 40.0, 80.0), "mem": (5.0, 6.0, 7.0)}),
        CurvePoint(2, {"sm": (90.0, 95.0, 99.0)}),
    )
    curve = GpuCurve(uuid="GPU-3", index=3, since=1000.0, step_s=20.0, points=points)
    held = allocation(3, host="h")
    master.views = [job(1, "DONE", finished_at=9.0, allocation=held, attempt=1)]
    master.histories = {
        1: (
            record(1, events.JobSubmitted(at=1.0, job_id=1, spec=spec())),
            record(2, events.JobDispatched(at=2.0, job_id=1, attempt=1, allocation=held, effective_req="")),
            record(3, events.JobGpuCurves(at=9.0, job_id=1, attempt=1, host="h", data=pack([curve]))),
        )
    }
    (told,) = json.loads(new_pages().entered().get("/jobs/1/curves").text)["gpus"]
    assert told == {"name": "h:3", "times": [1010, 1050], "sm": [40.0, 95.0], "mem": [6.0, None]}
