"""Who is who in a shared cluster: over real TLS, against the real gate, with forged names and foreign certificates."""

from __future__ import annotations

import asyncio
import contextlib
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import msgspec
import pytest

from gsched.app.installation.authority import make_authority, make_host, revoke
from gsched.base.errors import PermissionDenied
from gsched.master.agents.agent_service import AgentServicer
from gsched.wire.calls.client import Client
from gsched.wire.identity.caller_identity import OwnerOnly, ProvenCaller
from gsched.wire.identity.certificates import fingerprint
from gsched.wire.identity.identity_assertion import IdentityAssertion
from gsched.wire.identity.shared_callers import USER_KEY, USER_NAME
from gsched.wire.messages.protocol import PROTOCOL
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc, waiting_pb2, waiting_pb2_grpc
from tests.support.certificates import write_certificate
from tests.support.shared_master import HOSTS, MASTER, SharedMaster

DENIED = grpc.StatusCode.PERMISSION_DENIED
Metadata = tuple[tuple[str, str], ...]
ANN: Metadata = ((USER_KEY, "ann"),)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedMaster]:
    with SharedMaster(tmp_path_factory.mktemp("shared")) as master:
        yield master


@pytest.fixture
def master(shared: SharedMaster) -> Iterator[SharedMaster]:
    """The same for all tests, its configuration as it was."""
    before = shared.config
    yield shared
    shared.config = before


class Peer:
    """Somebody who connects with the certificate HOST.crt of a folder, or with none."""

    def __init__(self, master: SharedMaster, folder: Path | None, host: str = "") -> None:
        pair = (
            ((folder / f"{host}.key").read_bytes(), (folder / f"{host}.crt").read_bytes()) if folder else (None, None)
        )
        credentials = grpc.ssl_channel_credentials((master.tls / "ca.crt").read_bytes(), *pair)
        self.channel = grpc.secure_channel(f"{MASTER}:{master.config.network.port}", credentials)

    def cluster(self, metadata: Metadata) -> str:
        """Who the master says is calling. Raises grpc.RpcError."""
        stub = scheduler_pb2_grpc.SchedulerStub(self.channel)
        return str(stub.Cluster(scheduler_pb2.ClusterRequest(), timeout=60, metadata=metadata).cluster)

    def agent(self, metadata: Metadata = ()) -> str:
        """Which host the master says is speaking."""
        hello = agent_pb2.AgentMessage(hello=agent_pb2.Hello(host="gpu1", protocol=PROTOCOL))
        stub = agent_pb2_grpc.AgentServiceStub(self.channel)
        answers = stub.Session(iter([agent_pb2.AgentBatch(messages=[hello])]), timeout=60, metadata=metadata)
        return str(next(answers).messages[0].refusal.text)


def refusal(peer: Peer, metadata: Metadata) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as found:
        peer.cluster(metadata)
    return found.value.code(), found.value.details()


def test_a_host_of_the_cluster_vouches_for_its_users(master: SharedMaster) -> None:
    peer = Peer(master, master.tls, "gpu1")
    assert peer.cluster(ANN) == "ann/gpu1/door/user"
    assert Peer(master, master.tls, MASTER).cluster(((USER_KEY, "adm"),)) == f"adm/{MASTER}/door/admin"


def test_administrators_are_believed_only_from_the_hosts_that_are_named(master: SharedMaster) -> None:
    """Root of one of the many hosts can be any of their users: he is not at once an administrator of the cluster."""
    administrator = ((USER_KEY, "adm"),)
    master.config = msgspec.structs.replace(master.config, admin_hosts=("gpu2",))
    assert Peer(master, master.tls, "gpu1").cluster(administrator) == "adm/gpu1/door/user"
    assert Peer(master, master.tls, "gpu2").cluster(administrator) == "adm/gpu2/door/admin"
    assert Peer(master, master.tls, "gpu2").cluster(ANN) == "ann/gpu2/door/user"


def test_every_kind_of_call_passes_the_gate(master: SharedMaster) -> None:
    peer = Peer(master, master.tls, "gpu1")
    stub = scheduler_pb2_grpc.SchedulerStub(peer.channel)
    events = stub.Events(scheduler_pb2.EventsRequest(), timeout=60, metadata=ANN)
    assert [event.kind for event in events] == ["ann/gpu1/door/user"] * 3
    waiting = waiting_pb2_grpc.WaitingStub(peer.channel)
    ends = waiting.Ends(iter([waiting_pb2.EndsRequest(job_ids=[7])]), timeout=60, metadata=ANN)
    assert [end.state for reply in ends for end in reply.ends] == ["ann/gpu1/door/user"]
    for call in (
        stub.Events(scheduler_pb2.EventsRequest(), timeout=60),
        waiting.Ends(iter([waiting_pb2.EndsRequest(job_ids=[7])]), timeout=60),
    ):
        with pytest.raises(grpc.RpcError) as found:
            list(call)
        assert found.value.code() is DENIED


def test_a_forged_name_without_a_certificate_is_not_heard(master: SharedMaster) -> None:
    assert refusal(Peer(master, None), ANN)[0] is grpc.StatusCode.UNAVAILABLE


def test_a_foreign_certificate_is_not_heard(master: SharedMaster, tmp_path: Path) -> None:
    make_host(str(tmp_path / "tls"), make_authority(str(tmp_path / "tls"), "c1", 30), "gpu1", 30)
    assert refusal(Peer(master, tmp_path / "tls", "gpu1"), ANN)[0] is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("days", [(-3.0, -1.0), (1.0, 3.0)])
def test_a_certificate_of_another_time_is_not_heard(
    master: SharedMaster, tmp_path: Path, days: tuple[float, float]
) -> None:
    write_certificate(tmp_path, master.signer, "gpu1", days=days)
    assert refusal(Peer(master, tmp_path, "gpu1"), ANN)[0] is grpc.StatusCode.UNAVAILABLE


def test_a_master_with_a_foreign_certificate_gets_no_words(master: SharedMaster, tmp_path: Path) -> None:
    """A command, door or agent says nothing to who cannot prove to be the master's host."""
    stranger = make_authority(str(tmp_path / "tls"), "c1", 30)
    make_host(str(tmp_path / "tls"), stranger, "gpu1", 30)
    credentials = grpc.ssl_channel_credentials((tmp_path / "tls" / "ca.crt").read_bytes())
    channel = grpc.secure_channel(f"{MASTER}:{master.config.network.port}", credentials)
    with pytest.raises(grpc.RpcError) as found:
        scheduler_pb2_grpc.SchedulerStub(channel).Cluster(scheduler_pb2.ClusterRequest(), timeout=60, metadata=ANN)
    assert found.value.code() is grpc.StatusCode.UNAVAILABLE


def test_another_host_of_the_cluster_is_not_taken_for_the_master(master: SharedMaster) -> None:
    """The name that a connection is made to is the one that its certificate must bear."""
    ca = (master.tls / "ca.crt").read_bytes()
    pair = ((master.tls / "gpu1.key").read_bytes(), (master.tls / "gpu1.crt").read_bytes())
    address = f"127.0.0.1:{master.config.network.port}"
    channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, *pair))
    with pytest.raises(grpc.RpcError) as found:
        scheduler_pb2_grpc.SchedulerStub(channel).Cluster(scheduler_pb2.ClusterRequest(), timeout=60, metadata=ANN)
    assert found.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_host_that_is_not_of_the_cluster_vouches_for_nobody(master: SharedMaster, tmp_path: Path) -> None:
    write_certificate(tmp_path, master.signer, "gpu9")
    peer = Peer(master, tmp_path, "gpu9")
    assert refusal(peer, ANN) == (DENIED, "the certificate is that of gpu9, which is not one host of lsf.cluster")
    with pytest.raises(grpc.RpcError, match="gpu9"):
        peer.agent()


def test_a_host_that_was_removed_is_refused_from_then_on(master: SharedMaster) -> None:
    peer = Peer(master, master.tls, "gpu2")
    assert peer.cluster(ANN) == "ann/gpu2/door/user"
    left = {name: host for name, host in master.config.hosts.items() if name != "gpu2"}
    master.config = msgspec.structs.replace(master.config, hosts=left)
    assert refusal(peer, ANN)[0] is DENIED
    with pytest.raises(grpc.RpcError, match="gpu2"):
        peer.agent()


def test_a_certificate_of_two_hosts_is_none(master: SharedMaster, tmp_path: Path) -> None:
    write_certificate(tmp_path, master.signer, "gpu1", names=("gpu1", "gpu2"))
    assert refusal(Peer(master, tmp_path, "gpu1"), ANN)[0] is DENIED


def test_a_further_name_of_a_host_does_no_harm(master: SharedMaster, tmp_path: Path) -> None:
    write_certificate(tmp_path, master.signer, "gpu1", names=("gpu1", "gpu1.example.org"))
    assert Peer(master, tmp_path, "gpu1").cluster(ANN) == "ann/gpu1/door/user"


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (*ANN, (USER_KEY, "adm")),
        ((USER_KEY, ""),),
        ((USER_KEY, "a b"),),
        ((USER_KEY, "-rf"),),
        ((USER_KEY, "ann:x"),),
        ((USER_KEY, "a" * 300),),
        (("gsched-user-bin", b"ann"),),
        (("Gsched-User".lower() + "s", "ann"),),
    ],
)
def test_a_host_must_name_one_user(master: SharedMaster, metadata: Metadata) -> None:
    assert refusal(Peer(master, master.tls, "gpu1"), metadata)[0] is DENIED


def test_unknown_users_are_refused_unless_configured(master: SharedMaster) -> None:
    peer = Peer(master, master.tls, "gpu1")
    code, text = refusal(peer, ((USER_KEY, "mallory"),))
    assert code is DENIED
    assert "user mallory is not known on localhost" in text
    master.config = msgspec.structs.replace(master.config, unknown_users=True)
    assert peer.cluster(((USER_KEY, "mallory"),)) == "mallory/gpu1/door/user"


@pytest.mark.parametrize("name", ["root", "toor"])
def test_root_is_root_by_whatever_name(master: SharedMaster, name: str) -> None:
    """root may look, and nothing else unless LSF_ROOT_USER=Y: also where it is called otherwise."""
    peer = Peer(master, master.tls, "gpu1")
    said = ((USER_KEY, name),)
    assert peer.cluster(said).startswith("root/gpu1/door/")
    stub = scheduler_pb2_grpc.SchedulerStub(peer.channel)
    with pytest.raises(grpc.RpcError) as found:
        stub.Submit(scheduler_pb2.SubmitRequest(), timeout=60, metadata=said)
    assert found.value.code() is DENIED
    params = msgspec.structs.replace(master.config.params, root_may_submit=True)
    master.config = msgspec.structs.replace(master.config, params=params)
    assert stub.Submit(scheduler_pb2.SubmitRequest(), timeout=60, metadata=said).jobs[0].queue.startswith("root/")


def test_an_agent_is_proven_by_its_hosts_certificate(master: SharedMaster) -> None:
    assert Peer(master, master.tls, "gpu2").agent() == "/gpu2/agent/user"


def test_no_user_speaks_as_an_agent(master: SharedMaster) -> None:
    """A door shares its host's certificate: what it carries for a user is never taken for its agent's."""
    with pytest.raises(grpc.RpcError, match="no user may speak as the agent of gpu1"):
        Peer(master, master.tls, "gpu1").agent(ANN)


def test_no_agent_speaks_as_a_user(master: SharedMaster) -> None:
    assert refusal(Peer(master, master.tls, "gpu1"), ()) == (DENIED, "host gpu1 names 0 users for one call")


@pytest.mark.parametrize("host", [*HOSTS, "", "gpu9"])
def test_an_agent_never_speaks_for_another_host(host: str) -> None:
    first = agent_pb2.AgentMessage(hello=agent_pb2.Hello(host=host, protocol=PROTOCOL))
    servicer = AgentServicer(None, None, None)  # type: ignore[arg-type]
    proven = ProvenCaller("", False, "gpu1", "agent")
    said = servicer._refuse(first, proven)
    assert (said == "") is (host == "gpu1"), said


def test_an_agent_of_a_shared_cluster_does_not_come_by_the_masters_own_socket() -> None:
    prove = OwnerOnly(agents=False).prove
    with pytest.raises(Exception, match="proves its host on the master's port"):
        asyncio.run(prove(None, "/gsched.wire.v1.AgentService/Session", b""))
    assert asyncio.run(prove(None, "/gsched.wire.v1.Scheduler/Submit", b"")).is_admin


def test_users_of_one_door_are_never_mixed_up(master: SharedMaster, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them share one connection; whose a call is, is said with each call, and only by the host."""
    names = {1001: "ann", 1002: "bob", 1003: "adm"}
    monkeypatch.setattr("gsched.wire.identity.identity_assertion.user_name", lambda uid: names.get(uid, str(uid)))
    assertion = IdentityAssertion(master.config, "gpu1")

    def calls(uid: int) -> set[str]:
        client = Client("x", wait_s=10.0, channel=assertion.channel_of(uid))
        found = {client.cluster().cluster for _ in range(60)}
        return found | {event.kind for event in client.events(follow=False)}

    with ThreadPoolExecutor(6) as threads:
        results = [(uid, threads.submit(calls, uid)) for uid in [*names] * 2]
    for uid, result in results:
        assert {said.partition("/")[0] for said in result.result()} == {names[uid]}


def test_who_uses_a_channel_of_a_user_cannot_name_another(master: SharedMaster) -> None:
    assertion = IdentityAssertion(master.config, "gpu1")
    stub = scheduler_pb2_grpc.SchedulerStub(assertion.channel_of(0))
    for call in (stub.Cluster, stub.Events):
        with pytest.raises(TypeError):
            call(scheduler_pb2.ClusterRequest(), metadata=ANN)


@pytest.mark.parametrize("name", ["12345", "two words", "-n", "x" * 300, "Käthe\n"])
def test_a_host_gives_no_word_for_what_is_no_name(
    master: SharedMaster, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("gsched.wire.identity.identity_assertion.user_name", lambda uid: name)
    with pytest.raises(PermissionDenied, match="uid 12345 has no name on this host"):
        IdentityAssertion(master.config, "gpu1").channel_of(12345)


@pytest.mark.parametrize("name", ["ann", "_apt", "svc$", "ann@example.org", "EXAMPLE\\ann", "j.doe-2", "1st"])
def test_names_of_directories_are_names(name: str) -> None:
    assert USER_NAME.fullmatch(name)


def test_a_certificate_that_is_revoked_is_refused_from_then_on(master: SharedMaster, tmp_path: Path) -> None:
    """Its host is heard with a new one: a key that was stolen needs no new CA."""
    old, agent = Peer(master, master.tls, "gpu2"), Peer(master, master.tls, "gpu2")
    assert old.cluster(ANN) == "ann/gpu2/door/user"
    path = revoke(str(master.tls), "gpu2", "2026-01-01")
    make_host(str(master.tls), master.signer, "gpu2", 30, renew=True)
    try:
        assert refusal(old, ANN) == (DENIED, "the certificate of gpu2 is revoked")
        with pytest.raises(grpc.RpcError, match="the certificate of gpu2 is revoked"):
            agent.agent()
        assert Peer(master, master.tls, "gpu2").cluster(ANN) == "ann/gpu2/door/user"
        assert Peer(master, master.tls, "gpu1").cluster(ANN) == "ann/gpu1/door/user"
        path.write_text("rubbish\n")
        assert refusal(Peer(master, master.tls, "gpu1"), ANN)[1].endswith(
            "is not the SHA-256 fingerprint of a certificate"
        )
    finally:
        path.unlink()
    assert old.cluster(ANN) == "ann/gpu2/door/user"


def test_a_users_call_that_goes_on_ends_when_the_host_is_revoked_or_removed(
    master: SharedMaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.master.access.request_gate.LOOK_S", 0.05)
    make_host(str(tmp_path), master.signer, "gpu2", 30)
    request = scheduler_pb2.EventsRequest(follow=True)

    def followed(folder: Path) -> Iterator[object]:
        stub = scheduler_pb2_grpc.SchedulerStub(Peer(master, folder, "gpu2").channel)
        call = stub.Events(request, metadata=ANN, timeout=60)
        assert [next(call).seq for _ in range(3)] == [0, 1, 2]
        return call

    call = followed(tmp_path)
    (master.tls / "revoked").write_text(f"{fingerprint((tmp_path / 'gpu2.crt').read_bytes())}  gpu2  2026-01-01\n")
    with pytest.raises(grpc.RpcError, match="the certificate of gpu2 is revoked"):
        next(call)
    (master.tls / "revoked").unlink()
    call = followed(tmp_path)
    hosts = {name: host for name, host in master.config.hosts.items() if name != "gpu2"}
    master.config = msgspec.structs.replace(master.config, hosts=hosts)
    with pytest.raises(grpc.RpcError, match="the certificate is that of gpu2, which is not one host"):
        next(call)


def test_a_session_of_an_agent_that_is_revoked_ends(master: SharedMaster) -> None:
    hello = agent_pb2.AgentBatch(messages=[agent_pb2.AgentMessage(hello=agent_pb2.Hello(host="gpu1"))])
    going_on = threading.Event()

    def said() -> Iterator[agent_pb2.AgentBatch]:
        yield hello
        assert going_on.wait(60)
        yield agent_pb2.AgentBatch()

    stub = agent_pb2_grpc.AgentServiceStub(Peer(master, master.tls, "gpu1").channel)
    answers = stub.Session(said(), timeout=60)
    assert next(answers).messages[0].refusal.text == "/gpu1/agent/user"
    path = revoke(str(master.tls), "gpu1", "2026-01-01")
    try:
        going_on.set()
        assert next(answers).messages[0].refusal.text == "the certificate of gpu1 is revoked"
    finally:
        path.unlink()


def test_a_session_of_an_agent_that_is_revoked_and_says_nothing_ends_too(
    master: SharedMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be sent orders until it is taken for one that hangs."""
    monkeypatch.setattr("gsched.master.access.request_gate.LOOK_S", 0.05)
    over = threading.Event()

    def said() -> Iterator[agent_pb2.AgentBatch]:
        yield agent_pb2.AgentBatch(messages=[agent_pb2.AgentMessage(hello=agent_pb2.Hello(host="gpu1"))])
        over.wait(60)

    stub = agent_pb2_grpc.AgentServiceStub(Peer(master, master.tls, "gpu1").channel)
    answers = stub.Session(said(), timeout=60)
    assert next(answers).messages[0].refusal.text == "/gpu1/agent/user"
    path = revoke(str(master.tls), "gpu1", "2026-01-01")
    try:
        with pytest.raises(grpc.RpcError, match="the certificate of gpu1 is revoked") as ended:
            next(answers)
        assert ended.value.code() is DENIED
    finally:
        path.unlink()
        over.set()


def logged(master: SharedMaster, word: str) -> str:
    """The line of the audit log with this word; it may come a moment after the answer."""
    log, deadline = master.folder / "audit.log", time.monotonic() + 60
    while time.monotonic() < deadline:
        for line in log.read_text().splitlines() if log.exists() else ():
            if word in line:
                return line
        time.sleep(0.005)
    raise AssertionError(f"nothing is logged of {word}")


def test_who_has_proven_nothing_is_logged_by_address(master: SharedMaster) -> None:
    assert refusal(Peer(master, master.tls, "gpu1"), ((USER_KEY, "nobody-of-here"),))[0] is DENIED
    line = logged(master, "nobody-of-here")
    assert re.search(r' user="\?" host=(::1|127\.0\.0\.1) way=unproven action=cluster outcome=refused ', line), line


class Narrow(SharedMaster):
    connections = 4


def test_a_flood_of_connections_ends_somewhere_and_leaves_those_that_are_there(tmp_path: Path) -> None:
    with Narrow(tmp_path) as master, contextlib.ExitStack() as stack:
        peer = Peer(master, master.tls, "gpu1")
        assert peer.cluster(ANN) == "ann/gpu1/door/user"
        address = (MASTER, master.config.network.port or 0)
        flood = [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(10)]
        ready, _, _ = select.select(flood, [], [], 30)
        while len(ready) < 7:  # three have a place beside the one that is there
            more, _, _ = select.select([each for each in flood if each not in ready], [], [], 30)
            assert more, f"only {len(ready)} of 10 have been cut off"
            ready += more
        for each in ready:
            with contextlib.suppress(ConnectionResetError):
                assert each.recv(1) == b""
        assert peer.cluster(ANN) == "ann/gpu1/door/user"


def test_two_cas_count_while_one_takes_the_place_of_the_other(master: SharedMaster, tmp_path: Path) -> None:
    stranger = make_authority(str(tmp_path / "new"), "c1", 30)
    make_host(str(tmp_path / "new"), stranger, "gpu1", 30)
    assert refusal(Peer(master, tmp_path / "new", "gpu1"), ANN)[0] is grpc.StatusCode.UNAVAILABLE
    before = (master.tls / "ca.crt").read_bytes()
    (master.tls / "ca.crt").write_bytes(before + (tmp_path / "new" / "ca.crt").read_bytes())
    try:
        assert Peer(master, tmp_path / "new", "gpu1").cluster(ANN) == "ann/gpu1/door/user"
        assert Peer(master, master.tls, "gpu1").cluster(ANN) == "ann/gpu1/door/user"
    finally:
        (master.tls / "ca.crt").write_bytes(before)


def shown_by(master: SharedMaster) -> str:
    """Serial number of the certificate that the port shows now."""
    context = ssl.create_default_context(cafile=master.tls / "ca.crt")
    context.load_cert_chain(master.tls / "gpu1.crt", master.tls / "gpu1.key")
    plain = socket.create_connection((MASTER, master.config.network.port or 0), timeout=60)
    with plain, context.wrap_socket(plain, server_hostname=MASTER) as connection:
        return str((connection.getpeercert() or {})["serialNumber"])


def test_a_key_that_may_be_read_a_moment_after_it_was_replaced_counts_then(
    master: SharedMaster, tmp_path: Path
) -> None:
    """It is made for root alone, and given to the services' group by the next command."""
    before, key = shown_by(master), master.tls / f"{MASTER}.key"
    certificate, new_key = make_host(str(tmp_path), master.signer, MASTER, 60)
    new_key.chmod(0o644)  # as good as unreadable, also if somebody connects just now
    new_key.replace(key)
    certificate.replace(master.tls / certificate.name)
    assert shown_by(master) == before
    key.chmod(0o600)
    assert shown_by(master) != before


def test_certificates_that_are_replaced_count_for_the_next_connection(master: SharedMaster) -> None:
    before = shown_by(master)
    (master.tls / f"{MASTER}.key").write_bytes(b"rubbish")
    assert shown_by(master) == before  # the last good ones stay
    make_host(str(master.tls), master.signer, MASTER, 60, renew=True)
    assert shown_by(master) != before
    assert Peer(master, master.tls, "gpu1").cluster(ANN)
