"""gkill, gstop, gresume and gpeek: LSF's sentences, streams and exit codes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster
from test_cli_gjobs import done, pending, running

from gsched.model.views.view import EventRecord, JobFilter, OutputChunk, Parameter
from gsched.wire.v1 import scheduler_pb2

NewCall = Callable[..., FakeCall]


@pytest.mark.parametrize(
    ("argv", "action", "signal", "being"),
    [
        (["gkill", "7"], "kill", 0, "terminated"),
        (["bkill", "-r", "7"], "signal", 9, "terminated"),
        (["gkill", "-s", "KILL", "7"], "signal", 9, "terminated"),
        (["gkill", "-s", "sigusr1", "7"], "signal", 10, "signaled"),
        (["gkill", "-s10", "7"], "signal", 10, "signaled"),
        (["gkill", "-s", "STOP", "7"], "stop", 0, "stopped"),
        (["gkill", "-s", "CONT", "7"], "resume", 0, "resumed"),
        (["gstop", "7"], "stop", 0, "stopped"),
        (["gresume", "7"], "resume", 0, "resumed"),
    ],
)
def test_one_job(master: FakeMaster, call: NewCall, argv: list[str], action: str, signal: int, being: str) -> None:
    command = call(*argv)
    assert (command.run(), command.out, command.err) == (0, f"Job <7> is being {being}\n", "")
    assert master.controls == [(action, (7,), None, signal)]


def test_errors_go_to_stderr_and_fail(master: FakeMaster, call: NewCall) -> None:
    master.control_errors = {8: "Job has already finished", 9: "No matching job found"}
    gkill = call("gkill", "7", "8", "9")
    assert gkill.run() == 255
    assert gkill.out == "Job <7> is being terminated\n"
    assert gkill.err == "Job <8>: Job has already finished\nJob <9>: No matching job found\n"


def test_zero_means_all_that_the_filter_admits(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(7), running(8), done(6)]
    gkill = call("gkill", "-q", "normal", "-J", "t*", "0")
    assert gkill.run() == 0
    assert gkill.out == "Job <7> is being terminated\nJob <8> is being terminated\n"
    assert master.controls == [("kill", (), JobFilter(user="test", queue="normal", name="t*"), 0)]


@pytest.mark.parametrize("command", ["bkill", "bstop", "bresume"])
def test_jobs_of_an_application_profile(master: FakeMaster, call: NewCall, command: str) -> None:
    master.views = [pending(7)]
    call(command, "-app", "care", "0").run()
    (meant,) = [wanted for _, _, wanted, _ in master.controls]
    assert meant is not None and (meant.application, meant.user) == ("care", "test")


def test_filters_alone_mean_the_newest_job(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(7), running(8), done(9)]
    gkill = call("gkill", "-q", "normal")
    assert (gkill.run(), master.controls[0][1]) == (0, (8,))


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["gkill", "0"], "No unfinished job found\n"),
        (["gkill", "-J", "x"], "No unfinished job found\n"),
        (["gkill"], "gkill: name a job, or 0 for all of yours (-h lists the options)\n"),
        (["gkill", "x"], "x: Illegal job ID.\n"),
        (["gkill", "-s", "NOPE", "1"], "NOPE: Signal not supported (-l lists the names)\n"),
        (["gkill", "-s", "77", "1"], "77: Signal not supported (-l lists the names)\n"),
        (["gkill", "-r", "-s", "9", "1"], "gkill: -r and -s cannot be given together\n"),
        (["gpeek", "1", "2"], "gpeek: name one job\n"),
        (["gpeek", "5"], "Job <5> is not found\n"),
        (["gpeek"], "No matching job found\n"),
    ],
)
def test_what_cannot_be_done(master: FakeMaster, call: NewCall, argv: list[str], text: str) -> None:
    command = call(*argv)
    assert (command.run(), command.out, command.err) == (255, "", text)


def test_signals_are_listed(call: NewCall) -> None:
    gkill = call("gkill", "-l")
    assert gkill.run() == 0
    assert {"KILL", "USR1", "TERM"} <= set(gkill.out.split())


def chunks(out: bytes, err: bytes = b"") -> list[OutputChunk]:
    return [OutputChunk(stream="stdout", data=out), *([OutputChunk(stream="stderr", data=err)] if err else [])]


def test_peek_shows_both_streams(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(8)]
    master.outputs = [chunks(b"step 1\n", b"warn\n")]
    peek = call("gpeek", "8")
    assert peek.run() == 0
    assert peek.out == "<< output from stdout >>\nstep 1\n\n<< output from stderr >>\nwarn\n"


def test_peek_without_job_takes_the_newest_started_one(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(7), running(8), pending(9)]
    master.outputs = [chunks(b"")]
    peek = call("bpeek")
    assert (peek.run(), peek.out) == (0, "<< output from stdout >>\n")
    assert "RUN" in master.filters[-1].states


def test_peek_at_a_pending_job(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(9)]
    peek = call("gpeek", "9")
    assert (peek.run(), peek.out, peek.err) == (255, "", "Job <9> : Not yet started.\n")


def test_peek_follows_to_the_end_by_one_question(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(8)]
    master.outputs = [[*chunks(b"a\n"), *chunks(b"b\n", b"c\n")]]
    master.last_views = [done(8)]
    peek = call("gpeek", "-f", "8")
    shown = "<< output from stdout >>\na\nb\n\n<< output from stderr >>\nc\n"
    assert (peek.run(), peek.out) == (0, shown)
    assert master.followed == [True]


def test_peek_follows_a_job_into_its_next_attempt(master: FakeMaster, call: NewCall) -> None:
    """Between the two it waits for what happens to the job, and asks for nothing."""
    master.views = [msgspec.structs.replace(running(8), attempt=1)]
    master.outputs = [chunks(b"first\n"), chunks(b"second\n")]
    peek = call("gpeek", "-f", "8")

    def happen() -> None:
        while not master.followed:
            time.sleep(0.01)
        master.views = [msgspec.structs.replace(running(8), attempt=2)]
        master.last_views = [done(8)]
        master.live.put(EventRecord(seq=3, at=1.0, job_id=8, kind="job_started", payload="{}"))

    other = threading.Thread(target=happen)
    other.start()
    assert peek.run() == 0
    other.join(60)
    assert peek.out == "<< output from stdout >>\nfirst\nsecond\n"
    assert master.followed == [True, True]


@pytest.mark.parametrize(
    ("words", "action", "fields", "said"),
    [
        (
            ["release", "2*a b", "7"],
            "release",
            {"hosts": ["2*a", "b"], "position": 1},
            "slots of job <7> are released.",
        ),
        (
            ["release", "-c", "all", "7"],
            "release",
            {"hosts": ["all"], "position": 1, "cancels": True},
            "slots of job <7> are released.",
        ),
        (["request", "3", "7"], "request", {"position": 3}, "job <7> gets more slots when there are any."),
        (["cancel", "7"], "request", {"position": 0}, "Job <7> asks for no more slots."),
    ],
)
def test_gresize_asks_for_slots(
    master: FakeMaster, call: NewCall, words: list[str], action: str, fields: dict[str, object], said: str
) -> None:
    gresize = call("gresize", *words)
    assert (gresize.run(), gresize.err) == (0, "")
    assert gresize.out.endswith(said + "\n")
    (asked,) = [each for each in master.requests if isinstance(each, scheduler_pb2.ControlRequest)]
    assert asked == scheduler_pb2.ControlRequest(action=action, job_ids=[7], **fields)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "gresize: say release, request or cancel"),
        (["grow", "7"], "gresize: say release, request or cancel"),
        (["release"], "gresize: release what?"),
        (["release", "all"], "gresize: name a job"),
        (["request", "no", "7"], "gresize: no: the number of slots must be a positive integer"),
        (["request", "0", "7"], "gresize: 0: the number of slots must be a positive integer"),
        (["cancel", "-c", "7"], "gresize: -c goes with release"),
        (["cancel", "0"], "gresize: name a job"),
    ],
)
def test_gresize_says_what_is_wrong(master: FakeMaster, call: NewCall, words: list[str], error: str) -> None:
    gresize = call("gresize", *words)
    assert gresize.run() == 255
    assert gresize.err.startswith(error) and master.requests == []


@pytest.mark.parametrize(
    ("value", "is_admin", "action"), [("Y", False, "kill"), ("Y", True, "signal"), ("N", False, "signal")]
)
def test_where_force_is_for_administrators_others_end_jobs_as_usual(
    master: FakeMaster, call: NewCall, value: str, is_admin: bool, action: str
) -> None:
    master.cluster_view = msgspec.structs.replace(
        master.cluster_view,
        may_administer=is_admin,
        parameters=(Parameter("PRIVILEGED_USER_FORCE_BKILL", value),),
    )
    gkill = call("gkill", "-r", "7")
    assert (gkill.run(), gkill.out, gkill.err) == (0, "Job <7> is being terminated\n", "")
    assert [each[0] for each in master.controls] == [action]


@pytest.mark.parametrize("command", ["btop", "bbot"])
def test_an_administrator_may_count_among_the_jobs_of_one_user(master: FakeMaster, call: NewCall, command: str) -> None:
    assert call(command, "-u", "7", "2").run() == 0 and call(command, "7").run() == 0
    assert [(each.position, each.among_own) for each in master.requests] == [(2, True), (1, False)]
