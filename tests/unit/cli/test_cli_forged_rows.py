"""Texts of other users' jobs in what Slurm's and PBS's commands print: they forge no rows, fields or keywords."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, spec
from test_cli_gjobs import done, pending, running

from gsched.model.views.catalogue import Account
from gsched.model.views.view import HostView, QueueView

NewCall = Callable[..., FakeCall]
HOSTILE = "a\x1b[2Jc\n99|root|COMPLETED|x\u202e JobState=COMPLETED,\x9b\t;^"
SINCE = ("-S", "2017-07-01", "-E", "2017-08-01", "-a")


@pytest.fixture(autouse=True)
def told(master: FakeMaster) -> None:
    made = spec("x", name=HOSTILE, description=HOSTILE, project=HOSTILE, cwd=f"/home/{HOSTILE}", command=HOSTILE)
    ended = msgspec.structs.replace(done(7), spec=made)
    assert ended.finished_at is not None
    master.accounts = [
        Account(
            job_id=7,
            user="test",
            queue="normal",
            state="DONE",
            submitted_at=ended.submitted_at,
            finished_at=ended.finished_at,
            job=ended,
        )
    ]
    master.views = [running(8, spec=made), pending(9, spec=made)]
    master.host_views = [
        HostView(name="n1", status="closed_Adm", closed_by="root", comment=HOSTILE, max_slots=8),
        HostView(name="n2", status="closed_Adm", closed_by="root", comment=HOSTILE, max_slots=8),
    ]
    master.queue_views = [QueueView(name="normal", priority=30)]


def printed(call: NewCall, *words: str) -> str:
    asked = call(*words)
    assert asked.run() == 0, asked.err
    told = asked.out.replace("\n\t", "\n")  # where PBS goes on with a long value
    assert all(char == "\n" or char.isprintable() for char in told), told
    return asked.out


@pytest.mark.parametrize(
    "words",
    [
        ("sacct", *SINCE, "-o", "all"),
        ("sacct", *SINCE, "-P", "-o", "all"),
        ("sacct", *SINCE, "--json"),
        ("squeue", "-o", "%all"),
        ("squeue", "-O", "name:200,comment:200,command:300,workdir:200,account:200"),
        ("squeue", "--json"),
        ("sinfo", "-R"),
        ("sinfo", "-N", "-o", "%all"),
        ("scontrol", "show", "job"),
        ("scontrol", "show", "job", "--json"),
        ("scontrol", "show", "node"),
        ("sprio", "-o", "%i %o"),
        ("qstat",),
        ("qstat", "-a"),
        ("qstat", "-x", "-f"),
        ("qstat", "-f", "-F", "json"),
        ("qstat", "-f", "-F", "dsv"),
        ("pbsnodes", "-a"),
        ("pbsnodes", "-l"),
        ("pbsnodes", "-aS"),
        ("pbsnodes", "-aS", "-F", "dsv"),
        ("pbsnodes", "-a", "-F", "json"),
        ("qselect",),
    ],
)
def test_no_command_prints_what_moves_a_terminal(call: NewCall, words: tuple[str, ...]) -> None:
    assert printed(call, *words)


@pytest.mark.parametrize("delimiter", ["|", ",", "^", ";", "=", "root", "?", "||"])
def test_rows_of_sacct_have_their_fields(call: NewCall, delimiter: str) -> None:
    words = (
        "-n",
        "-j",
        "7",
        "-X",
        "-P",
        "--delimiter",
        delimiter,
        "-o",
        "JobID,JobName,Comment,Account,WorkDir,SubmitLine,State",
    )
    (row,) = printed(call, "sacct", *SINCE, *words).splitlines()
    fields = row.split(delimiter)
    assert (len(fields), fields[0], fields[-1]) == (7, "7", "COMPLETED")


@pytest.mark.parametrize("delimiter", ["|", ",", "^", ";", " | ", "?"])
def test_rows_of_squeue_have_their_fields(call: NewCall, delimiter: str) -> None:
    rows = printed(call, "squeue", "-h", "-o", delimiter.join(["%i", "%j", "%k", "%a", "%Z", "%o", "%T"])).splitlines()
    assert [(row.split(delimiter)[0], row.split(delimiter)[6:]) for row in rows] == [
        ("9", ["PENDING"]),
        ("8", ["RUNNING"]),
    ]


def test_times_and_lists_keep_what_parts_fields(call: NewCall) -> None:
    (row,) = printed(call, "squeue", "-h", "-t", "R", "-o", "%i:%V").splitlines()
    assert row.count(":") == 3


def test_records_of_scontrol_have_their_keywords_once(call: NewCall) -> None:
    rows = printed(call, "scontrol", "-o", "show", "job").splitlines()
    assert sorted(word for row in rows for word in row.split() if "JobState=" in word) == [
        "JobState=PENDING",
        "JobState=RUNNING",
    ]


def test_dsv_of_pbs_escapes_what_parts_fields(call: NewCall) -> None:
    for row in printed(call, "pbsnodes", "-aS", "-F", "dsv").splitlines():
        assert [field.partition("=")[0] for field in row.replace("\\|", "").split("|")][-1] == "comment"
    asked = call("qstat", "-f", "-F", "dsv", "-D", "")
    assert asked.run() == 2 and asked.err == "qstat: -D: characters are expected\n"
    told = json.loads(printed(call, "qstat", "-f", "-F", "json"))
    assert {job["Job_Name"] for job in told["Jobs"].values()} == {HOSTILE}
