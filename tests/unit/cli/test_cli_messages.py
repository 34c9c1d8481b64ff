"""gpost, gread, gwait, and what gkill takes besides jobs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_master import FakeCall, FakeMaster, record
from test_cli_gjobs import at, done, pending, running

from gsched.model import event as events
from gsched.model.views.message_boxes import PROFILES_BOX
from gsched.model.views.view import ConditionView, JobFilter, Message

NewCall = Callable[..., FakeCall]
HEADER = " MSG_ID FROM       POST_TIME      MESSAGE                             ATTACHMENT\n"


def test_a_message_is_posted_to_each_job(master: FakeMaster, call: NewCall) -> None:
    master.control_errors = {8: "No matching job found"}
    post = call("bpost", "-i", "2", "-d", "에폭 12", "7", "8")
    assert post.run() == 255
    assert (post.out, post.err) == ("Message posted to job <7>\n", "Job <8>: No matching job found\n")
    request = master.requests[-1]
    assert (request.action, list(request.job_ids), request.box, request.text) == ("post", [7, 8], 2, "에폭 12")


def test_messages_are_read_as_gjobs_shows_them(master: FakeMaster, call: NewCall) -> None:
    long = "a message that is longer than its column has room for"
    messages = (
        Message(box=0, user="test", posted_at=at("Jul 7 18:02:28"), text="ubuntu02:gpus=0,1;"),
        Message(box=3, user="test", posted_at=at("Jul 7 18:03:00"), text=long),
    )
    master.views = [running(8, messages=messages)]
    read = call("gread", "8")
    first = " 0      test       Jul  7 18:02   ubuntu02:gpus=0,1;                      N\n"
    assert (read.run(), read.out) == (
        0,
        HEADER + first + f" 3      test       Jul  7 18:03   {long[:35]}     N\n",
    )
    one = call("bread", "-w", "-i", "3", "8")
    assert (one.run(), one.out) == (0, HEADER + f" 3      test       Jul  7 18:03   {long}     N\n")
    none = call("bread", "-i", "1", "8")
    assert (none.run(), none.err) == (255, "Job <8>: No message available in message box 1\n")


def test_files_of_profilers_have_a_heading_of_their_own(master: FakeMaster, call: NewCall) -> None:
    """The box alone says what a message is of, never its words; no name of a file is broken."""
    files = " ".join(f"rank-{number}.svg" for number in range(7))
    words = "profiles in /w/prof.8: PENDING REASONS"
    listed = Message(box=PROFILES_BOX, user="test", posted_at=at("Jul 7 18:04:00"), text=f"/w/prof.8: {files} \x1b[1m")
    other = Message(box=3, user="test", posted_at=at("Jul 7 18:03:00"), text=words)
    master.views = [running(8, messages=(other, listed))]
    shown = call("gjobs", "-l", "8")
    assert shown.run() == 0
    section = shown.out.partition("\n PROFILES:\n")[2].splitlines()
    assert len(section) == 2 and " ".join(line[1:] for line in section) == f"/w/prof.8: {files} ?[1m"
    assert shown.out.partition(" EXTERNAL MESSAGES:\n")[2].partition("\n\n")[0].count("\n") == 1
    assert f" 3      test       Jul  7 18:03   {words[:35]}     N\n" in shown.out
    master.views = [running(8, messages=(listed,))]
    alone, read = call("gjobs", "-l", "8"), call("gread", "-w", "8")
    assert (alone.run(), read.run()) == (0, 0)
    assert "EXTERNAL MESSAGES" not in alone.out and f" {PROFILES_BOX}    test " in read.out


def test_what_goes_with_a_message_is_read_and_written_by_the_caller(
    master: FakeMaster, call: NewCall, tmp_path: Path
) -> None:
    post = call("bpost", "-a", "plot", "7")
    post.files["plot"] = b"\x89PNG"
    assert post.run() == 0
    assert (master.requests[-1].attachment, master.requests[-1].text) == (b"\x89PNG", "no description")
    master.views = [
        running(8, messages=(Message(box=0, user="test", posted_at=at("Jul 7 18:03:00"), text="x", attachment="f00"),))
    ]
    read = call("bread", "-a", str(tmp_path / "copy"), "8")
    assert (read.run(), read.err) == (0, "")
    assert read.out.endswith(f" x{' ' * 39}Y\n")
    assert (tmp_path / "copy").read_bytes() == b"8/0"
    for words, problem in (
        (("bpost", "-a", "/nowhere/x", "7"), "bpost: -a /nowhere/x: No such file or directory\n"),
        (("bread", "-a", "/nowhere/x", "8"), "bread: -a /nowhere/x: No such file or directory\n"),
    ):
        wrong = call(*words)
        assert (wrong.run(), wrong.err) == (255, problem)


def test_what_goes_with_a_message_is_not_written_to_a_pipe_that_nobody_reads(
    master: FakeMaster, call: NewCall, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    message = Message(box=0, user="test", posted_at=at("Jul 7 18:03:00"), text="x", attachment="f00")
    master.views = [running(8, messages=(message,))]
    read = call("bread", "-a", str(tmp_path / "pipe"), "8")
    assert (read.run(), read.err) == (255, f"bread: -a {tmp_path}/pipe: No such device or address\n")


def test_waiting_goes_on_until_the_condition_is_decided(master: FakeMaster, call: NewCall) -> None:
    master.conditions = [
        ConditionView(holds=False, job_ids=(7,), seq=4),
        ConditionView(holds=False, job_ids=(7,), seq=5),
        ConditionView(holds=True, job_ids=(7,), seq=6),
    ]
    for seq in (5, 6):
        master.live.put(record(seq, events.JobPostProcessed(at=1.0, job_id=7, attempt=1)))
    wait = call("bwait", "-w", "done(7)", "-r", "1")
    assert (wait.run(), wait.out, wait.err) == (0, "", "")
    assert [request.text for request in master.requests] == ["done(7)"] * 3


def test_a_condition_that_never_holds_is_said(master: FakeMaster, call: NewCall) -> None:
    master.conditions = [ConditionView(holds=False, is_final=True, text="done(7): job 7 is EXIT")]
    wait = call("gwait", "-w", "done(7)")
    assert (wait.run(), wait.err) == (255, "Wait condition is never satisfied: done(7): job 7 is EXIT\n")


def test_waiting_ends_when_time_is_up(master: FakeMaster, call: NewCall) -> None:
    master.conditions = [ConditionView(holds=False, job_ids=(7,), seq=4)]
    wait = call("gwait", "-t", "0.002", "-w", "done(7)")
    assert (wait.run(), wait.err) == (255, "Wait condition <done(7)> is not satisfied after 0.002 minutes\n")


def test_kill_with_a_reason_counts_as_done(master: FakeMaster, call: NewCall) -> None:
    kill = call("bkill", "-d", "-C", "wrong data", "7")
    assert (kill.run(), kill.out) == (0, "Job <7> is being terminated\n")
    request = master.requests[-1]
    assert (request.action, request.text, request.as_done) == ("kill", "wrong data", True)


def test_states_choose_among_all_jobs(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(7), running(8), done(6)]
    kill = call("bkill", "-stat", "pend", "-b")
    assert kill.run() == 0
    assert master.controls == [("kill", (), JobFilter(user="test", states=("PEND", "PSUSP")), 0)]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["gpost", "-i", "x", "7"], "gpost: -i x: not the number of a message box\n"),
        (["gpost", "-d", "x"], "gpost: name a job, or 0 for all of yours (-h lists the options)\n"),
        (["gread"], "gread: name one job\n"),
        (["gread", "5"], "Job <5> is not found\n"),
        (["gwait"], "gwait: -w CONDITION says what to wait for (-h shows how)\n"),
        (["gwait", "-t", "x", "-w", "done(1)"], "gwait: -t x: not a number of minutes\n"),
        (["gkill", "-stat", "x"], "x: -stat takes run, pend or susp\n"),
        (["gkill", "-stat", "run", "7"], "gkill: -stat chooses among all of your jobs; name no job beside it\n"),
        (["gkill", "-d", "-r", "7"], "gkill: -d and -r cannot be given together\n"),
    ],
)
def test_what_cannot_be_done(master: FakeMaster, call: NewCall, argv: list[str], text: str) -> None:
    command = call(*argv)
    assert (command.run(), command.out, command.err) == (255, "", text)
