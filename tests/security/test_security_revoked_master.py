"""The master's key was stolen: its old certificate, well signed and in time, is the master's no longer for anybody."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import msgspec
import pytest

from gsched.app.installation.authority import make_host, revoke
from gsched.base.errors import GschedError, PermissionDenied, Unavailable
from gsched.model.config import ClusterConfig
from gsched.wire.calls.client import Client
from gsched.wire.identity.certificates import BadCertificate, fingerprint, read_credentials
from gsched.wire.identity.identity_assertion import IdentityAssertion, agent_channel
from gsched.wire.identity.master_trust import Trust
from gsched.wire.identity.trusted_channel import TrustedChannel
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc
from tests.support.shared_master import MASTER, SharedMaster

REVOKED = f"the certificate that {MASTER} shows as the master's host is revoked"


@pytest.fixture
def master(tmp_path: Path) -> Iterator[SharedMaster]:
    (tmp_path / "master").mkdir()
    with SharedMaster(tmp_path / "master") as master:
        yield master


@pytest.fixture
def host(master: SharedMaster, tmp_path: Path) -> ClusterConfig:
    """The configuration as gpu1 has it, with a folder of certificates of its own."""
    tls = tmp_path / "gpu1"
    tls.mkdir()
    for name in ("ca.crt", "gpu1.crt", "gpu1.key"):
        shutil.copy(master.tls / name, tls)
    network = msgspec.structs.replace(master.config.network, tls_dir=str(tls))
    return msgspec.structs.replace(master.config, network=network)


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.wire.identity.identity_assertion.user_name", lambda uid: "ann")


def tls_of(config: ClusterConfig) -> Path:
    return Path(config.network.tls_dir)


def revoke_master(master: SharedMaster, host: ClusterConfig) -> None:
    """The administrator revokes what the master shows, and copies the list to this host."""
    line = f"{fingerprint((master.tls / f'{MASTER}.crt').read_bytes())}  {MASTER}  2026-01-01\n"
    with (tls_of(host) / "revoked").open("a") as file:
        file.write(line)


def asked(client: Client) -> str:
    return client.cluster().cluster


def hello(config: ClusterConfig) -> str:
    """What the master answers to the agent of gpu1, by one session."""

    async def session() -> str:
        async with await agent_channel(config, "gpu1") as channel:
            call = agent_pb2_grpc.AgentServiceStub(channel).Session(timeout=60)
            await call.write(agent_pb2.AgentBatch(messages=[agent_pb2.AgentMessage(hello=agent_pb2.Hello())]))
            return str((await call.read()).messages[0].refusal.text)

    return asyncio.run(session())


def by_relay(assertion: IdentityAssertion) -> grpc.StatusCode:
    """How a call ends on the door's connection for the relay."""

    async def call() -> grpc.StatusCode:
        channel = await assertion.aio_channel()
        method = channel.stream_stream("/gsched.wire.v1.Waiting/Ends")
        begun = method(metadata=assertion.metadata_of(0), timeout=60)
        await begun.done_writing()
        code: grpc.StatusCode = await begun.code()
        return code

    return asyncio.run(call())


def test_a_door_says_nothing_to_a_master_whose_certificate_is_revoked(
    master: SharedMaster, host: ClusterConfig
) -> None:
    assertion = IdentityAssertion(host, "gpu1")
    client = Client("x", wait_s=60.0, channel=assertion.channel_of(0))
    assert asked(client) == "ann/gpu1/door/user"
    revoke_master(master, host)
    with pytest.raises(PermissionDenied, match=REVOKED):  # on the connection that there was
        asked(client)
    with pytest.raises(PermissionDenied, match=REVOKED):
        list(client.events(follow=False))
    with pytest.raises(PermissionDenied, match=REVOKED):
        asked(Client("x", wait_s=60.0, channel=IdentityAssertion(host, "gpu1").channel_of(0)))
    make_host(str(master.tls), master.signer, MASTER, 30, renew=True)
    assert asked(client) == "ann/gpu1/door/user"
    assert len(list(client.events(follow=False))) == 3
    make_host(str(master.tls), master.signer, MASTER, 30, renew=True)  # and once more: none is kept for ever
    assert (
        asked(Client("x", wait_s=60.0, channel=IdentityAssertion(host, "gpu1").channel_of(0))) == "ann/gpu1/door/user"
    )


def test_a_call_that_goes_on_ends_when_the_masters_certificate_is_revoked(
    master: SharedMaster, host: ClusterConfig
) -> None:
    assertion = IdentityAssertion(host, "gpu1")
    events = Client("x", wait_s=60.0, channel=assertion.channel_of(0)).events(follow=True)
    assert [next(events).seq for _ in range(2)] == [0, 1]
    revoke_master(master, host)
    assertion.look()
    with pytest.raises(PermissionDenied, match=REVOKED):
        for _ in events:
            pass


def test_the_relay_says_nothing_to_it(master: SharedMaster, host: ClusterConfig) -> None:
    assertion = IdentityAssertion(host, "gpu1")
    assert by_relay(assertion) is grpc.StatusCode.OK
    revoke_master(master, host)
    with pytest.raises(PermissionDenied, match=REVOKED):
        by_relay(assertion)
    make_host(str(master.tls), master.signer, MASTER, 30, renew=True)
    assert by_relay(assertion) is grpc.StatusCode.OK


def test_an_agent_says_nothing_to_it(master: SharedMaster, host: ClusterConfig) -> None:
    assert hello(host) == "/gpu1/agent/user"
    revoke_master(master, host)
    with pytest.raises(PermissionDenied, match=REVOKED):
        hello(host)
    make_host(str(master.tls), master.signer, MASTER, 30, renew=True)
    assert hello(host) == "/gpu1/agent/user"


def test_a_thief_who_shows_the_new_certificate_first_gets_no_words(
    master: SharedMaster, host: ClusterConfig, tmp_path: Path
) -> None:
    """Who lets the true master answer the first question, and the next connection come to himself."""
    (tmp_path / "thief").mkdir()
    with SharedMaster(tmp_path / "thief") as thief:
        for name in ("ca.crt", f"{MASTER}.crt", f"{MASTER}.key"):
            shutil.copy(master.tls / name, thief.tls)
        revoke_master(master, host)
        make_host(str(master.tls), master.signer, MASTER, 30, renew=True)
        believed = Trust(str(tls_of(host)), "gpu1").believed(master.config.master_address)
        channel = grpc.secure_channel(thief.config.master_address, believed.credentials)
        with pytest.raises(grpc.FutureTimeoutError):
            grpc.channel_ready_future(channel).result(timeout=2)
        channel = grpc.secure_channel(master.config.master_address, believed.credentials)
        grpc.channel_ready_future(channel).result(timeout=60)


def test_who_proves_itself_by_munge_looks_as_well(master: SharedMaster, host: ClusterConfig) -> None:
    revoke_master(master, host)
    channel = TrustedChannel(Trust(str(tls_of(host))), master.config.master_address)
    with pytest.raises(PermissionDenied, match=REVOKED):
        asked(Client("x", wait_s=60.0, channel=channel))


def test_of_several_masters_the_one_that_answers_is_found(master: SharedMaster, host: ClusterConfig) -> None:
    """Also where one takes connections and says nothing; a revoked one does not count."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = f"{MASTER}:1,127.0.0.1:{silent.getsockname()[1]},{master.config.master_address}"
        found = Trust(str(tls_of(host)), "gpu1").believed(addresses)
        assert (found.address, found.is_pinned) == (master.config.master_address, True)
        revoke_master(master, host)
        with pytest.raises(Unavailable, match=REVOKED):  # another may come back: that is waited for
            Trust(str(tls_of(host)), "gpu1").believed(addresses)
        with pytest.raises(PermissionDenied, match=REVOKED):
            Trust(str(tls_of(host)), "gpu1").believed(",".join([master.config.master_address] * 2))


def test_a_master_that_is_away_is_waited_for_with_a_list_too(host: ClusterConfig, master: SharedMaster) -> None:
    (tls_of(host) / "revoked").write_text("00" * 32 + "\n")
    network = msgspec.structs.replace(host.network, port=1)
    assertion = IdentityAssertion(msgspec.structs.replace(host, network=network), "gpu1")
    said: list[str] = []
    client = Client("x", wait_s=0.3, on_wait=said.append, channel=assertion.channel_of(0))
    for question in (client.cluster, lambda: list(client.events(follow=False))):
        with pytest.raises(Unavailable, match="the master at x has not answered for"):
            question()
    assert said == ["the master"] * 2
    with pytest.raises(Unavailable):
        hello(assertion.config)
    assert asked(Client("x", wait_s=60.0, channel=IdentityAssertion(host, "gpu1").channel_of(0))).startswith("ann/")


def test_a_list_that_cannot_be_understood_stops_everything(master: SharedMaster, host: ClusterConfig) -> None:
    (tls_of(host) / "revoked").write_text("rubbish\n")
    with pytest.raises(GschedError, match="is not the SHA-256 fingerprint"):
        asked(Client("x", wait_s=60.0, channel=IdentityAssertion(host, "gpu1").channel_of(0)))
    with pytest.raises(GschedError, match="is not the SHA-256 fingerprint"):
        hello(host)


def test_a_daemon_does_not_begin_with_a_certificate_of_its_own_that_is_revoked(
    master: SharedMaster, host: ClusterConfig
) -> None:
    tls = tls_of(host)
    assert read_credentials(str(tls), "gpu1").host == "gpu1"
    shutil.copy(revoke(str(master.tls), "gpu1", "2026-01-01"), tls)
    with pytest.raises(BadCertificate) as caught:
        IdentityAssertion(host, "gpu1").check()
    assert caught.value.text == (
        f"{tls}/gpu1.crt: is revoked ({tls}/revoked names it); "
        "`gadmin host-cert --renew gpu1` on the administrator's machine makes a new one"
    )
    with pytest.raises(BadCertificate, match="is revoked"):
        hello(host)


def test_the_first_certificate_of_a_chain_is_the_hosts(master: SharedMaster) -> None:
    own, above = ((master.tls / name).read_bytes() for name in ("gpu1.crt", "ca.crt"))
    assert fingerprint(b"subject: gpu1\n" + own + above) == fingerprint(own) != fingerprint(above)
    with pytest.raises(ValueError, match="PEM"):
        fingerprint(b"rubbish")
