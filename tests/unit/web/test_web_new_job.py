"""The form for a new job: the line it stands for, what is wrong with it, and that it makes one job."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from fake_master import FakeMaster, spec
from served_pages import Pages

from gsched.base.errors import BadRequest
from gsched.model.views.view import JobView
from gsched.web.shown.job_form import JobForm, form_of, read_job_form

TOKEN = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"command": "a b; c"}, "gsub 'a b; c'"),
        ({"command": "a", "gpus": "2", "name": "x y"}, "gsub -J 'x y' -gpu num=2 a"),
        ({"command": "a", "gpus": "num=1:mode=shared"}, "gsub -gpu num=1:mode=shared a"),
        ({"command": "a", "array": "1-3%2"}, "gsub -J '[1-3%2]' a"),
        ({"command": "a", "queue": "q", "slots": "4", "run_limit": "1:00"}, "gsub -q q -n 4 -W 1:00 a"),
        ({"command": "a", "more": "-M '16 GB' -x"}, "gsub -M '16 GB' -x a"),
        ({"command": "#!/bin/sh\n#BSUB -n 2\na\n", "is_script": "1", "project": "p"}, "gsub -P p < script"),
        ({"command": "$(rm -rf /)", "name": "'; rm"}, "gsub -J ''\"'\"'; rm' '$(rm -rf /)'"),
    ],
)
def test_the_form_stands_for_a_line(fields: dict[str, str], line: str) -> None:
    assert read_job_form({name: [value] for name, value in fields.items()}).line() == line


@pytest.mark.parametrize("fields", [{"name": "x" * 5000}, {"command": "a\0b"}, {"command": "x" * 600_000}])
def test_what_is_too_long_or_no_text_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        read_job_form({name: [value] for name, value in fields.items()})


def test_a_form_is_like_the_job_that_it_was_made_of() -> None:
    like = spec(
        name="n", queue_named=True, gpu_req="num=2", slots=3, run_limit_s=5400, indices="1-3", res_req="select[x]"
    )
    form = form_of(like, b"")
    assert form.words()[:6] == ["-J", "n[1-3]", "-q", "normal", "-gpu", "num=2"] and form.run_limit == "90"
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
