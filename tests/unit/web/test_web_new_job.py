"""The form for a new job: the line it stands for, what is wrong with it, and that it makes one job."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

import pytest
from fake_master import FakeMaster, spec
from served_pages import Pages

from gsched.base.errors import BadRequest
from gsched.model.jobs.job import JobPlot
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.views.view import JobView, StartForecast
from gsched.web.shown.job_form import JobForm, form_of, read_job_form

LOSS = JobPlot(name="loss", pattern="loss ([0-9]+)")
TOKEN = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"command": "a b; c"}, "gsub 'a b; c'"),
        ({"command": "a", "gpus": "2", "name": "x y"}, "gsub -J 'x y' -gpu num=2 a"),
        ({"command": "a", "gpus": "num=1:mode=shared"}, "gsub -gpu num=1:mode=shared a"),
        ({"command": "a", "gpus": "2", "gpu_more": "gmem=1G"}, "gsub -gpu num=2:gmem=1G a"),
        ({"command": "a", "gpu_more": "gmem=1G", "begin": "22:00"}, "gsub -gpu gmem=1G -b 22:00 a"),
        ({"command": "a", "after": ["7", "8[2]"]}, "gsub -w 'done(7) && done(8[2])' a"),
        (
            {"command": "a", "after": ["7"], "after_how": "ended", "dependency": "exit(1) || exit(2)"},
            "gsub -w '(exit(1) || exit(2)) && ended(7)' a",
        ),
        ({"command": "a", "dependency": "done(1)"}, "gsub -w 'done(1)' a"),
        ({"command": "a", "notify_on": ["fail", "end"]}, "gsub --notify mail,end,fail a"),
        ({"command": "a", "notify": "pager"}, "gsub --notify pager a"),
        ({"command": "a", "plot": "loss=loss ([0-9]+)"}, "gsub --plot 'loss=loss ([0-9]+)' a"),
        ({"command": "a", "array": "1-3%2"}, "gsub -J '[1-3%2]' a"),
        ({"command": "a", "queue": "q", "slots": "4", "run_limit": "1:00"}, "gsub -q q -n 4 -W 1:00 a"),
        ({"command": "a", "more": "-M '16 GB' -x"}, "gsub -M '16 GB' -x a"),
        ({"command": "#!/bin/sh\n#BSUB -n 2\na\n", "is_script": "1", "project": "p"}, "gsub -P p < script"),
        ({"command": "$(rm -rf /)", "name": "'; rm"}, "gsub -J ''\"'\"'; rm' '$(rm -rf /)'"),
    ],
)
def test_the_form_stands_for_a_line(fields: dict[str, str | list[str]], line: str) -> None:
    assert read_job_form(sent_as(fields)).line() == line


def sent_as(fields: Mapping[str, str | list[str]]) -> dict[str, list[str]]:
    return {name: [value] if isinstance(value, str) else value for name, value in fields.items()}


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "x" * 5000},
        {"command": "a\0b"},
        {"command": "x" * 600_000},
        {"after": ["7", "x"]},
        {"after": [str(number) for number in range(101)]},
        {"after": ["1"], "after_how": "perhaps"},
        {"notify_on": ["never"]},
    ],
)
def test_what_is_too_long_no_text_or_no_choice_is_refused(fields: dict[str, str | list[str]]) -> None:
    with pytest.raises(BadRequest):
        read_job_form(sent_as(fields))


def test_a_form_is_like_the_job_that_it_was_made_of() -> None:
    like = spec(
        name="n", queue_named=True, gpu_req="num=2", slots=3, run_limit_s=5400, indices="1-3", res_req="select[x]"
    )
    form = form_of(like, b"")
    assert form.words()[:6] == ["-J", "n[1-3]", "-gpu", "num=2", "-q", "normal"] and form.run_limit == "90"
    form = form_of(spec(gpu_req="mode=shared:num=2:gmem=1G", plots=(LOSS, JobPlot(name="a b", pattern="(.)"))), b"")
    assert (form.gpus, form.gpu_more, form.plot, form.more) == (
        "2",
        "mode=shared:gmem=1G",
        "loss=loss ([0-9]+)",
        "--plot 'a b=(.)'",
    )
    assert form_of(spec(gpu_req="-"), b"").words() == form_of(spec(), b"").words()
    assert form_of(spec(), b"#!/bin/sh\na\n").is_script


def told(pages: Pages, query: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(pages.get(f"/new/line?{query}").text)
    return found


def test_what_is_wrong_is_said_while_one_types(pages: Pages) -> None:
    assert told(pages, "command=a&gpus=2") == {"line": "gsub -gpu num=2 a", "problem": ""}
    assert "-W" in told(pages, "command=a&run_limit=soon")["problem"]
    assert (
        "-nosuch" in told(pages, "command=a&more=-nosuch")["problem"]
        or told(pages, "command=a&more=-nosuch")["problem"]
    )
    assert "quotation" in told(pages, "command=a&more='")["problem"]
    for words in ("-I", "-Is", "-K", "-h", "-V", "-pack x"):
        assert told(pages, f"command=a&more={words.replace(' ', '+')}")["problem"], words


def test_when_it_could_start_is_told_before_it_is_sent(master: FakeMaster, pages: Pages) -> None:
    master.forecast = StartForecast(starts_now=True, hosts=("gpu<1>",))
    text = pages.get("/new/when?command=a&gpus=2&name=n").text
    assert "At once" in text and "gpu&lt;1&gt;" in text and master.submissions == []
    assert (master.forecast_spec.command, master.forecast_spec.gpu_req, master.forecast_spec.name) == (
        "a",
        "num=2",
        "n",
    )
    planned = PlannedStart(at=2e9, hosts=("gpu2",), text="")
    reasons = (PendingReason("Not enough <GPUs>"),)
    master.forecast = StartForecast(planned=planned, reasons=reasons, is_alone=True, waits_for="condition")
    text = pages.get("/new/when?command=a").text
    for part in (
        "2033-05-18",
        "gpu2",
        "Not enough &lt;GPUs&gt;",
        "When its condition holds",
        "If it were the only one",
    ):
        assert part in text
    master.refusal = "<b>no such queue</b>"
    assert "&lt;b&gt;no such queue" in pages.get("/new/when?command=a").text
    assert "-W" in pages.get("/new/when?command=a&run_limit=soon").text


def test_jobs_to_wait_for_are_suggested(master: FakeMaster, new_pages: Callable[..., Pages]) -> None:
    me = new_pages().context.me
    master.views = [
        JobView(job_id=1, spec=spec(user=me, name="<one>"), state="RUN", submitted_at=1.0),
        JobView(job_id=2, spec=spec(user=me, name="over"), state="DONE", submitted_at=1.0),
        JobView(job_id=3, spec=spec(user="ann", name="another"), state="RUN", submitted_at=1.0),
    ]
    text = new_pages().entered().get("/new").text
    assert '<option value="1">1 &lt;one&gt;</option>' in text and "over" not in text and "another" not in text


def submit(pages: Pages, **fields: str) -> tuple[int, str, str]:
    answer = pages.post("/new", {"csrf": pages.csrf, "token": TOKEN, **fields})
    return answer.status, answer.headers["location"] or "", answer.text


def test_it_submits_what_gsub_would(master: FakeMaster, pages: Pages) -> None:
    status, where, _ = submit(pages, command="train --fast", name="n", gpus="1", cwd="/tmp", project="p")
    assert (status, where) == (303, "/jobs/220?said=submitted")
    (sent,) = master.submissions
    assert (sent.spec.command, sent.spec.name, sent.spec.gpu_req, sent.spec.project) == (
        "train --fast",
        "n",
        "num=1",
        "p",
    )
    assert sent.spec.specified_cwd == "/tmp" and b"PATH=" in sent.environment and sent.spec.submit_host
    assert sent.spec.user == "", "who it is, the master finds out"


def test_a_script_is_submitted_whole(master: FakeMaster, pages: Pages) -> None:
    script = "#!/bin/sh\r\n#BSUB -n 2\r\necho hi\r\n"
    assert submit(pages, command=script, is_script="1")[0] == 303
    (sent,) = master.submissions
    assert sent.script == b"#!/bin/sh\n#BSUB -n 2\necho hi\n" and sent.spec.slots == 2


def test_a_script_of_slurm_is_read_as_sbatch_reads_it(master: FakeMaster, pages: Pages) -> None:
    script = "#!/bin/sh\r\n#SBATCH -n 2 --gres=gpu:1\r\necho hi\r\n"
    assert submit(pages, command=script, is_script="1", run_limit="0:10")[0] == 303
    (sent,) = master.submissions
    assert (sent.spec.slots, sent.spec.gpu_req, sent.spec.front_end) == (2, "num=1:j_exclusive=yes", "slurm")
    assert submit(pages, command=script.replace("#!", "#BSUB\n#!"), is_script="1")[0] == 400


def test_a_script_of_pbs_is_read_by_its_lines(master: FakeMaster, pages: Pages) -> None:
    script = "#!/bin/sh\r\n#PBS -l select=1:ncpus=2:ngpus=1,walltime=2:00:00\r\n#PBS -N theirs\r\necho hi\r\n"
    assert submit(pages, command=script, is_script="1", run_limit="0:10")[0] == 303
    (sent,) = master.submissions
    assert (sent.spec.slots, sent.spec.gpu_req, sent.spec.front_end) == (2, "num=1:j_exclusive=yes", "pbs")
    assert (sent.spec.run_limit_s, sent.spec.name) == (600, "theirs")
    status, _, text = submit(pages, command="#PBS -l ncpus=none\necho hi\n", is_script="1")
    assert status == 400 and "illegal -l value" in text and len(master.submissions) == 1


def test_what_the_master_refuses_leaves_the_form_as_it_was(master: FakeMaster, pages: Pages) -> None:
    master.refusal = "<b>no such queue</b>"
    status, _, text = submit(pages, command="train <it>", name="mine")
    assert status == 400 and "&lt;b&gt;no such queue" in text
    assert "train &lt;it&gt;</textarea>" in text and 'value="mine"' in text and f'value="{TOKEN}"' in text


@pytest.mark.parametrize("token", ["", "x", "g" * 32])
def test_a_form_without_its_own_token_submits_nothing(master: FakeMaster, pages: Pages, token: str) -> None:
    assert pages.post("/new", {"csrf": pages.csrf, "token": token, "command": "a"}).status == 400
    assert master.submissions == []


def test_each_form_has_a_token_of_its_own(pages: Pages) -> None:
    tokens = {re.search(r'name="token" value="(\w{32})"', pages.get("/new").text)[1] for _ in range(2)}  # type: ignore[index]
    assert len(tokens) == 2


def test_a_job_of_ones_own_can_be_submitted_again(master: FakeMaster, new_pages: Callable[..., Pages]) -> None:
    pages = new_pages().entered()
    master.views = [
        JobView(job_id=1, spec=spec(user=pages.context.me, name="again"), state="DONE", submitted_at=1.0),
        JobView(job_id=2, spec=spec(user="ann"), state="RUN", submitted_at=1.0),
    ]
    assert 'value="again"' in pages.get("/new?from=1").text
    assert pages.get("/new?from=2").status == 400 and pages.get("/new?from=x").status == 404


def test_an_empty_form_is_a_form() -> None:
    assert JobForm().words() == []
