"""The relay beside a shared cluster's door: what goes through it, under which name, and what does not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc.aio._call import StreamStreamCall

from gsched.base.errors import PermissionDenied, Unavailable
from gsched.door import relay as relays
from gsched.door.relay import SERVICES, CallRelay, open_relay
from gsched.master.access.method_policy import RULES, Who
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import Submission
from gsched.wire.calls.client import Client
from gsched.wire.calls.door_relay import DONE, OPEN, PIECE, STATUS, RelayChannel, RelayedError, in_frames, opening
from gsched.wire.identity.identity_assertion import IdentityAssertion
from gsched.wire.identity.socket_peer import Peer
from gsched.wire.messages.frames import Decoder, frame
from gsched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc, waiting_pb2
from tests.support.shared_master import MASTER, SharedMaster

CLUSTER = "/gsched.wire.v1.Scheduler/Cluster"
USER = "nobody"
SOMEBODY = pwd.getpwnam(USER).pw_uid
FIRST = f"{USER}/gpu1/door/user"


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedMaster]:
    made = SharedMaster(tmp_path_factory.mktemp("shared"))
    made.accounts = {**made.accounts, USER: SOMEBODY}  # type: ignore[misc]
    with made:
        yield made


@pytest.fixture
def caller(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets whom the kernel says is connecting."""

    def set_uid(uid: int) -> None:
        monkeypatch.setattr(relays, "peer_of", lambda _: Peer(1, uid, uid))

    set_uid(SOMEBODY)
    return set_uid


@pytest.fixture
def path(master: SharedMaster, caller: object, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "door").mkdir(mode=0o755)
    place = str(tmp_path / "door" / "relay.sock")
    relay = open_relay(place, IdentityAssertion(master.config, "gpu1"))
    yield place
    relay.close()
    assert not os.path.exists(place)


def client(path: str) -> Client:
    return Client(path, wait_s=60.0, channel=RelayChannel(path))


def test_a_call_goes_under_the_name_that_the_kernel_gives(path: str, caller: Callable[[int], None]) -> None:
    assert client(path).cluster().cluster == FIRST
    caller(0)
    assert client(path).cluster().cluster.startswith("root/gpu1/door/")


def test_everybody_on_the_host_may_reach_it(path: str) -> None:
    assert Path(path).stat().st_mode & 0o777 == 0o666
    assert Path(path).parent.stat().st_mode & 0o022 == 0


def test_a_user_without_a_name_is_nobody(path: str, caller: Callable[[int], None]) -> None:
    caller(3_999_999)
    with pytest.raises(PermissionDenied, match="uid 3999999 has no name on this host"):
        client(path).cluster()


def test_streams_come_as_they_are(path: str) -> None:
    events = list(client(path).events(follow=False))
    assert [(event.seq, event.kind) for event in events] == [(0, FIRST), (1, FIRST), (2, FIRST)]


def test_streams_go_both_ways(path: str) -> None:
    ends = client(path).ends()
    ends.ask([1, 2])
    found = iter(ends)
    assert [next(found).job_id for _ in range(2)] == [1, 2]
    ends.ask([3])
    assert next(found).state == FIRST
    ends.cancel()


def test_large_requests_arrive_whole(path: str) -> None:
    blob = os.urandom(5 << 20)
    submission = Submission(spec=JobSpec(command="x", user="", queue="q"), environment=blob, script=b"", input=None)
    assert client(path).submit(submission).job_id > len(blob)


def test_a_connection_that_breaks_under_a_request_is_a_master_that_is_away(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC calls it an internal error; it is asked again, as it is where the connection breaks a moment later."""
    write = StreamStreamCall.write
    broken: list[bool] = []

    async def breaks_once(call: Any, request: Any) -> None:
        if not broken:
            broken.append(True)
            call._cython_call.cancel("broken")
            call._cython_call.set_internal_error("the batch has failed")  # as write does where it cannot send
            raise grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, grpc.aio.Metadata(), grpc.aio.Metadata())
        await write(call, request)

    monkeypatch.setattr(StreamStreamCall, "write", breaks_once)
    assert client(path).cluster().cluster == FIRST
    assert broken


def test_an_error_of_the_master_is_told_though_a_message_was_on_its_way(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it calls an internal error, in whatever words, is none of the connection: to ask again would end the same
    way.
    """
    write = StreamStreamCall.write
    written: list[object] = []

    async def meets_the_end(call: Any, request: Any) -> None:
        if written:
            assert await call.code() is grpc.StatusCode.INTERNAL
        written.append(request)
        await write(call, request)

    monkeypatch.setattr(StreamStreamCall, "write", meets_the_end)
    begun = frame(OPEN, opening("/gsched.wire.v1.Waiting/Ends", 60.0, False))
    nothing = in_frames(waiting_pb2.EndsRequest().SerializeToString())
    [(kind, payload)] = said(path, begun, nothing, nothing)
    assert (kind, payload.split(b"\0")[:2]) == (STATUS, [b"13", b"Internal error from Core"])  # 13: INTERNAL


def test_what_the_master_refuses_is_said_as_it_says_it(path: str, caller: Callable[[int], None]) -> None:
    caller(0)  # root may only look
    submission = Submission(spec=JobSpec(command="x", user="", queue="q"), environment=b"", script=b"", input=None)
    with pytest.raises(PermissionDenied, match="Root may not do this"):
        client(path).submit(submission)


def test_a_stream_that_is_waited_in_can_be_broken_off(path: str) -> None:
    stub = scheduler_pb2_grpc.SchedulerStub(RelayChannel(path))
    call = stub.Events(scheduler_pb2.EventsRequest(follow=True))
    ended = threading.Event()
    assert call.add_callback(ended.set)
    assert [next(call).seq for _ in range(3)] == [0, 1, 2]
    threading.Timer(0.05, call.cancel).start()
    with pytest.raises(grpc.RpcError) as found:
        next(call)
    assert found.value.code() is grpc.StatusCode.CANCELLED
    assert ended.wait(60)
    assert not call.add_callback(ended.set)


def test_who_goes_away_leaves_nothing_behind(path: str, master: SharedMaster, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o755)
    relay = open_relay(str(tmp_path / "own" / "relay.sock"), IdentityAssertion(master.config, "gpu1"))
    try:
        calls = [
            scheduler_pb2_grpc.SchedulerStub(RelayChannel(str(tmp_path / "own" / "relay.sock"))).Events(
                scheduler_pb2.EventsRequest(follow=True)
            )
            for _ in range(5)
        ]
        for call in calls:
            next(call)
        assert relay._calls.total() == 5
        del call, calls
        until(lambda: relay._calls.total() == 0)
    finally:
        relay.close()


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def said(path: str, *frames: bytes) -> list[tuple[bytes, bytes]]:
    """What the relay answers to these bytes."""
    decoder, found = Decoder(), []
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(path)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # what it has said before can be read
            connection.sendall(b"".join(frames))
        try:
            while data := connection.recv(1 << 16):
                found += decoder.feed(data)
        except ConnectionResetError:
            pass
    return found


def test_all_services_of_users_are_carried_and_those_of_agents_are_not() -> None:
    of_agents = {name.partition(".")[0] for name, rule in RULES.items() if rule.who is Who.AGENT}
    assert set(relays.SERVICES) == {name.partition(".")[0] for name in RULES} - of_agents


def test_every_call_of_users_is_carried() -> None:
    """A service that the master has and the relay does not know is lost for whatever runs outside the door."""
    assert {name.partition(".")[0] for name, rule in RULES.items() if rule.who is not Who.AGENT} == set(SERVICES)


@pytest.mark.parametrize(
    "method",
    [
        "/gsched.wire.v1.AgentService/Session",
        "/gsched.wire.v1.Scheduler/Cluster\r\nx: y",
        "/gsched.wire.v1.Scheduler/../AgentService/Session",
        "/gsched.wire.v1.SchedulerX/Cluster",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "",
    ],
)
def test_only_calls_of_users_are_carried(path: str, method: str) -> None:
    [(kind, payload)] = said(path, frame(OPEN, opening(method, 60.0, False)), frame(DONE))
    assert kind == STATUS
    assert payload.startswith(b"7\0the door does not carry such a call")  # 7: PERMISSION_DENIED


@pytest.mark.parametrize(
    "frames",
    [
        (b"GET / HTTP/1.1\r\n\r\n" * 10,),
        (frame(DONE),),
        (frame(OPEN, b"\xff\xfe\0\0"),),
        (frame(OPEN, opening(CLUSTER, float("nan"), False)),),
        (frame(OPEN, opening(CLUSTER, -1.0, False)),),
        (frame(OPEN, opening(CLUSTER, 60.0, False, "gsub")),),
        (frame(OPEN, opening(CLUSTER, 60.0, False, "web\0x")),),
        (b"O\xff\xff\xff\xff",),
    ],
)
def test_rubbish_ends_the_connection_and_nothing_else(path: str, frames: tuple[bytes, ...]) -> None:
    assert said(path, *frames) == []
    assert client(path).cluster().cluster == FIRST


def test_rubbish_in_a_call_ends_the_call(path: str) -> None:
    begun = frame(OPEN, opening(CLUSTER, 60.0, False))
    [(kind, payload)] = said(path, begun, frame(b"?", b"x"))
    assert (kind, payload[:2]) == (STATUS, b"1\0")  # 1: CANCELLED
    [(kind, payload)] = said(path, begun, in_frames(b"\xff" * 100), frame(DONE))
    assert (kind, payload[:2]) != (STATUS, b"0\0")


def test_a_request_without_end_is_cut_off(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "MOST_BYTES_PER_USER", 3 << 20)
    pieces = [frame(PIECE, bytes(1 << 20))] * 5
    [(kind, payload)] = said(path, frame(OPEN, opening(CLUSTER, 60.0, False)), *pieces)[-1:]
    assert (kind, payload[:2]) == (STATUS, b"1\0")
    assert client(path).cluster().cluster == FIRST


def test_a_user_has_so_many_calls_at_a_time(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "MOST_PER_USER", 2)
    stub = scheduler_pb2_grpc.SchedulerStub(RelayChannel(path))
    held = [stub.Events(scheduler_pb2.EventsRequest(follow=True)) for _ in range(2)]
    for each in held:
        next(each)
    with pytest.raises(grpc.RpcError) as found:
        stub.Cluster(scheduler_pb2.ClusterRequest(), timeout=60)
    assert found.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    for each in held:
        each.cancel()


def test_who_does_not_begin_is_not_waited_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "OPENING_S", 0.05)
    assert said(path) == []


def test_a_relay_of_a_stranger_is_told_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(tmp_path / "relay.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()
        monkeypatch.setattr("gsched.wire.calls.door_relay.os.geteuid", lambda: 4321)
        monkeypatch.setattr("gsched.wire.calls.door_relay.peer_of", lambda _: Peer(1, 4322, 0))
        with pytest.raises(PermissionDenied, match="belongs to uid 4322: it is not trusted"):
            client(place).cluster()
        connection, _ = listening.accept()
        with connection:
            assert connection.recv(10) == b""


def test_without_a_relay_the_master_is_away(tmp_path: Path) -> None:
    with pytest.raises(RelayedError) as found:
        scheduler_pb2_grpc.SchedulerStub(RelayChannel(str(tmp_path / "none"))).Cluster(scheduler_pb2.ClusterRequest())
    assert found.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(Unavailable, match=r"has not answered for 0\.2 s"):
        Client("x", wait_s=0.2, channel=RelayChannel(str(tmp_path / "none"))).cluster()


def test_a_relay_that_ends_says_so(master: SharedMaster, caller: object, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o755)
    place = str(tmp_path / "own" / "relay.sock")
    relay: CallRelay = open_relay(place, IdentityAssertion(master.config, MASTER))
    call = scheduler_pb2_grpc.SchedulerStub(RelayChannel(place)).Events(scheduler_pb2.EventsRequest(follow=True))
    next(call)
    relay.close()
    with pytest.raises(grpc.RpcError) as found:
        list(call)
    assert found.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_relay_that_ends_says_so_behind_what_is_not_yet_read(
    master: SharedMaster, caller: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir(mode=0o755)
    place = str(tmp_path / "own" / "relay.sock")
    relay: CallRelay = open_relay(place, IdentityAssertion(master.config, MASTER))
    answer, written = frame(PIECE, b"x" * (1 << 19)) * 8, threading.Event()

    async def carry(uid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(answer)
        written.set()
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(relay, "_carry", carry)
    decoder, found = Decoder(), []
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(place)
        assert written.wait(60)
        closing = threading.Thread(target=relay.close)
        closing.start()
        while data := connection.recv(1 << 16):
            found += decoder.feed(data)
        closing.join()
    assert [kind for kind, _ in found] == [PIECE] * 8 + [STATUS]
