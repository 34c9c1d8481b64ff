"""gsub -hostfile: what the master is asked for, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster

from gsched.cli.render.jobs.jobs_long import render_long
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.dialect.host_lists import host_file_of, read_host_file, requirement_of
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import JobView

NewCall = Callable[..., FakeCall]


@pytest.mark.parametrize(
    ("text", "slots", "hosts", "res_req"),
    [
        ("a 2\n", 2, ("a",), "span[hosts=1]"),
        ("# two\nb\na 3 # more\n\nb 2\n", 6, ("b", "a"), "3*{select[hname==b]} + 3*{select[hname==a]}"),
    ],
)
def test_slots_on_each_host(
    master: FakeMaster, call: NewCall, text: str, slots: int, hosts: tuple[str, ...], res_req: str
) -> None:
    done = call("gsub", "-hostfile", "hosts.txt", "true")
    done.files["hosts.txt"] = text.encode()
    assert (done.run(), done.err) == (0, "")
    (asked,) = master.submissions
    assert (asked.spec.slots, asked.spec.hosts, asked.spec.first_hosts) == (slots, hosts, hosts[:1])
    assert asked.spec.res_req == res_req


@pytest.mark.parametrize(
    ("text", "words", "error"),
    [
        ("", [], "names no host"),
        ("a\nb x\n", [], "line 2: 'b x' is not HOST [SLOTS]"),
        ("a 0\n", [], "line 1: 'a 0' is not HOST [SLOTS]"),
        ("a]b 1\n", [], "line 1: 'a]b 1' is not HOST [SLOTS]"),
        ("a 1 2\n", [], "line 1: 'a 1 2' is not HOST [SLOTS]"),
        ("a\n", ["-n", "2"], "options -hostfile and -n exclude each other"),
        ("a\n", ["-R", "select[mem>1]"], "options -hostfile and -R exclude each other"),
    ],
)
def test_what_is_refused(master: FakeMaster, call: NewCall, text: str, words: list[str], error: str) -> None:
    done = call("gsub", "-hostfile", "hosts.txt", *words, "true")
    done.files["hosts.txt"] = text.encode()
    assert done.run() == 255 and error in done.err and done.err.endswith("Job not submitted.\n")
    assert master.submissions == []


def test_a_file_that_is_not_there(master: FakeMaster, call: NewCall) -> None:
    done = call("gsub", "-hostfile", "none", "true")
    assert done.run() == 255 and "No such file or directory" in done.err
    assert master.submissions == []


@pytest.mark.parametrize(
    ("text", "rows"),
    [("a 2\n", " a                   2\n"), ("b\na 3\n", " b                   1\n a                   3\n")],
)
def test_gjobs_shows_what_the_file_said(text: str, rows: str) -> None:
    hosts = read_host_file("f", text)
    spec = JobSpec(
        command="x",
        user="ann",
        queue="normal",
        slots=sum(hosts.values()),
        hosts=tuple(hosts),
        first_hosts=tuple(hosts)[:1],
        res_req=requirement_of(hosts),
    )
    view = JobView(job_id=7, spec=spec, state="PEND", submitted_at=0.0)
    shown = "".join(render_long([ShownJob(view=view, host_file=host_file_of(spec))], UTC))
    assert f" USER-SPECIFIED HOST FILE:\n HOST            SLOTS\n{rows}" in shown
    for changes in ({"first_hosts": ()}, {"hosts": ("c",)}, {"res_req": "select[mem>1]"}):
        assert host_file_of(msgspec.structs.replace(spec, **changes)) == {}


def test_a_host_file_is_shown_together_with_l(call: NewCall) -> None:
    done = call("gjobs", "-hostfile", "7")
    assert done.run() == 255 and "-hostfile is given together with -l" in done.err
