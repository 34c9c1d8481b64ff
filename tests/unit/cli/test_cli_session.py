"""How commands reach their master, wait for it, and give up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from fake_master import FakeCall, FakeMaster, record, serve

from gsched.cli.session import master_links, session
from gsched.cli.session.master_links import channel_to
from gsched.cli.session.time_zone import zone_of
from gsched.model import event as events
from gsched.model.jobs.job import AttemptResult
from gsched.wire.address import MASTER_FILE
from gsched.wire.calls.transports import MasterWay

NewCall = Callable[..., FakeCall]
PLEASE_WAIT = session.PLEASE_WAIT.format("the master")


def test_a_master_that_stays_away(folder: Path, call: NewCall) -> None:
    (folder / MASTER_FILE).write_text(f"unix:{folder}/m.sock\n")
    gid = call("gid", GSCHED_COMMAND_WAIT="0.3")
    began = time.monotonic()
    assert gid.run() == 255
    assert 0.25 < time.monotonic() - began < 60
    first, second = gid.err.splitlines()
    assert first + "\n" == PLEASE_WAIT
    assert second.startswith(f"the master at unix:{folder}/m.sock has not answered for 0.3 s")


@pytest.mark.parametrize("argv", [["gid"], ["gjobs"]], ids=["unary", "stream"])
def test_a_master_that_comes_back_is_waited_for(folder: Path, call: NewCall, argv: list[str]) -> None:
    (folder / MASTER_FILE).write_text(f"unix:{folder}/m.sock\n")
    command = call(*argv)
    says_so = threading.Event()
    put = command._put

    def watch(stream: int, data: bytes) -> None:
        put(stream, data)
        if stream == 2:
            says_so.set()

    command._put = watch  # type: ignore[method-assign]
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(command.run()))
    thread.start()
    assert says_so.wait(60)
    with serve(FakeMaster(), folder):
        thread.join(60)
    assert codes == [0]
    assert command.err.count(PLEASE_WAIT) == 1


@pytest.mark.parametrize("argv", [["gid"], ["gjobs"]], ids=["unary", "stream"])
def test_ctrl_c_ends_the_waiting_at_once(folder: Path, call: NewCall, argv: list[str]) -> None:
    (folder / MASTER_FILE).write_text(f"unix:{folder}/m.sock\n")
    command = call(*argv, GSCHED_COMMAND_WAIT="600")
    put = command._put

    def cancel_when_it_waits(stream: int, data: bytes) -> None:
        put(stream, data)
        threading.Timer(0.05, command.cancel).start()

    command._put = cancel_when_it_waits  # type: ignore[method-assign]
    began = time.monotonic()
    assert command.run() == 130
    assert time.monotonic() - began < 60
    assert command.err == PLEASE_WAIT


@pytest.mark.parametrize("argv", [["gid"], ["gjobs"]], ids=["unary", "stream"])
def test_a_door_that_nobody_opens_is_not_taken_for_the_master(folder: Path, call: NewCall, argv: list[str]) -> None:
    (folder / "lsf.conf").write_text(f"LSB_MBD_PORT=6881\nGSCHED_RUNDIR={folder}/run\n")
    path = folder / "run" / "door" / "relay.sock"
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    command = call(*argv, GSCHED_COMMAND_WAIT="0.3")
    assert command.run() == 255
    first, second = command.err.splitlines()
    assert first == "gsched: the door of this host (service gsched-door) is not responding. Please wait ..."
    assert second.startswith(f"the door of this host (service gsched-door) at {path} has not answered for 0.3 s")


def test_no_cluster(tmp_path: Path, call: NewCall) -> None:
    gid = call("gid", GSCHED_ENVDIR=str(tmp_path))
    assert gid.run() == 255
    assert gid.err.startswith(f"no cluster is known in {tmp_path}: start one with")


def test_a_file_that_holds_no_address_is_not_shown(tmp_path: Path, call: NewCall) -> None:
    (tmp_path / MASTER_FILE).write_text("root:$6$secret:19000:0:99999:7:::\nmore\n")
    gid = call("gid", GSCHED_ENVDIR=str(tmp_path))
    assert gid.run() == 255
    assert gid.err == f"{tmp_path}/{MASTER_FILE} does not hold the address of a master\n"


def test_nobody_borrows_the_rights_of_this_process(master: FakeMaster, call: NewCall) -> None:
    gid = call("gid")
    gid.uid += 1
    assert gid.run() == 255
    assert "runs as another user" in gid.err


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_a_wait_that_is_no_number_is_refused(master: FakeMaster, call: NewCall, text: str) -> None:
    gid = call("gid", GSCHED_COMMAND_WAIT=text)
    assert gid.run() == 255
    assert gid.err == f"GSCHED_COMMAND_WAIT={text}: not a number of seconds\n"


def test_connections_are_shared_and_few() -> None:
    one = channel_to(MasterWay("unix:/nowhere/1"))
    assert channel_to(MasterWay("unix:/nowhere/1")) is one
    for number in range(2, 2 + master_links.MAX_CHANNELS):
        channel_to(MasterWay(f"unix:/nowhere/{number}"))
    assert channel_to(MasterWay("unix:/nowhere/1")) is not one
    assert len(master_links._channels) <= master_links.MAX_CHANNELS


def test_a_command_makes_the_methods_that_it_calls_alone(
    master: FakeMaster, call: NewCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Client names some eighty; to make them all was most of what a command cost the command server."""
    made: list[str] = []
    link_of = session.link_of
    monkeypatch.setattr(session, "link_of", lambda of: counted(link_of(of), made))
    assert call("gid").run() == 0
    assert 0 < len(made) < 5, made


def counted(link: master_links.Link, made: list[str]) -> master_links.Link:
    return link._replace(channel=cast("grpc.Channel", CountedChannel(link.channel, made)))


class CountedChannel:
    """A channel that writes down which methods are made."""

    def __init__(self, channel: grpc.Channel, made: list[str]) -> None:
        self._channel, self._made = channel, made

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._channel, name)
        if not name.startswith(("unary_", "stream_")):
            return found

        def make(path: str, *args: Any, **options: Any) -> Any:
            self._made.append(path)
            return found(path, *args, **options)

        return make


@pytest.mark.parametrize(
    ("tz", "hour"),
    [
        ("Asia/Seoul", 18),
        (":Asia/Seoul", 18),
        ("/usr/share/zoneinfo/Asia/Seoul", 18),
        ("KST-9", 18),
        ("CET-1CEST,M3.5.0,M10.5.0/3", 11),
        ("UTC", 9),
        ("", 9),
        ("no such zone", 9),
        ("../../../etc/passwd", 9),
    ],
)
def test_zones_as_the_c_library_reads_them(tz: str, hour: int) -> None:
    assert datetime.fromtimestamp(1499418475, zone_of({"TZ": tz})).hour == hour


def test_without_tz_the_host_decides() -> None:
    assert datetime.fromtimestamp(1499418475, zone_of({})).astimezone().timestamp() == 1499418475


class Waiter:
    """`gsub -K` in a thread, and a moment to wait for: the first time `word` is on standard error."""

    def __init__(self, gsub: FakeCall, word: bytes) -> None:
        self.reached = threading.Event()
        self.codes: list[int] = []
        put = gsub._put

        def watch(stream: int, data: bytes) -> None:
            put(stream, data)
            if word in data:
                self.reached.set()

        gsub._put = watch  # type: ignore[method-assign]
        self.thread = threading.Thread(target=lambda: self.codes.append(gsub.run()))
        self.thread.start()


STARTED = events.JobStarted(at=1.0, job_id=220, attempt=1, pid=7)
FINISHED = events.JobFinished(at=2.0, job_id=220, attempt=1, result=AttemptResult(exit_code=4))


def test_waiting_for_a_job_survives_a_restart_of_the_master(folder: Path, call: NewCall) -> None:
    gsub = call("gsub", "-K", "true")
    first, second = FakeMaster(), FakeMaster()
    first.live.put(record(2, STARTED))
    with serve(first, folder):
        waiter = Waiter(gsub, b"<<Starting")
        assert waiter.reached.wait(60)
    second.live.put(record(3, FINISHED))
    with serve(second, folder):
        waiter.thread.join(60)
    assert waiter.codes == [4]
    assert gsub.err.replace(PLEASE_WAIT, "").endswith("<<Starting on >>\n<<Job is finished>>\n")


def test_waiting_for_a_job_gives_up_on_a_master_that_stays_away(folder: Path, call: NewCall) -> None:
    gsub = call("gsub", "-K", "true", GSCHED_COMMAND_WAIT="2")
    master = FakeMaster()
    master.live.put(record(2, STARTED))
    with serve(master, folder):
        waiter = Waiter(gsub, b"<<Starting")
        assert waiter.reached.wait(60)
    waiter.thread.join(60)
    assert waiter.codes == [255]
    assert gsub.err.count(PLEASE_WAIT) == 1
    assert "has not answered for 2 s" in gsub.err
