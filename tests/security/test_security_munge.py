"""Users proven by munge: with a real munged of our own, over real TLS, against the real gate."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import grpc.aio
import msgspec
import pytest

from gsched.base.errors import GschedError, PermissionDenied, Unavailable
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import Submission
from gsched.wire.calls.client import Client
from gsched.wire.identity import munge as library
from gsched.wire.identity.certificates import fingerprint
from gsched.wire.identity.munge import Munge
from gsched.wire.identity.munge_credentials import CREDENTIAL_KEY, MungeCredentials, payload, stamping_channel
from gsched.wire.identity.shared_callers import USER_KEY, ServedNames
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc, waiting_pb2, waiting_pb2_grpc
from tests.support.shared_master import MASTER, SharedMaster, free_port

DENIED = grpc.StatusCode.PERMISSION_DENIED
CLUSTER = "/gsched.wire.v1.Scheduler/Cluster"
ME = os.getuid()


@pytest.fixture(scope="module")
def munged() -> Iterator[str]:
    """The socket of a munged of our own, with a key of its own."""
    daemon = shutil.which("munged", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if daemon is None:
        pytest.skip("needs munged (Debian: munge)")
    folder = Path(tempfile.mkdtemp(prefix="munge-"))
    folder.chmod(0o755)
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o600)
    words = [f"--{name}={folder / name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
    process = subprocess.Popen(
        [daemon, "--foreground", "--force", f"--key-file={folder / 'key'}", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while not (folder / "socket").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.skip(f"munged does not begin: {process.stderr.read().decode() if process.stderr else ''}")
        time.sleep(0.01)
    yield str(folder / "socket")
    process.terminate()
    process.wait(60)
    shutil.rmtree(folder)


class StampedMaster(SharedMaster):
    """With the second port, for munge."""

    def __init__(self, folder: Path, socket: str) -> None:
        super().__init__(folder)
        self.munge = Munge(socket)
        self.names: dict[int, str] = {ME: "ann"}
        network = msgspec.structs.replace(self.config.network, munge_port=free_port())
        self.config = msgspec.structs.replace(self.config, network=network)

    def open(self) -> list[grpc.aio.Server]:
        self.known = ServedNames(lambda: self.config, self.accounts.get)
        auth = MungeCredentials(lambda: self.config, self.known, self.munge, lambda uid: self.names.get(uid))
        assert self.config.network.munge_port is not None
        return [*super().open(), self.server(auth, self.config.network.munge_port, hosts_only=False)]

    def channel(self) -> grpc.Channel:
        """That of a program of this process's user."""
        return stamping_channel(self.config.munge_address, str(self.tls), self.munge)

    def bare(self) -> grpc.Channel:
        """That of a program which makes its metadata by itself."""
        credentials = grpc.ssl_channel_credentials((self.tls / "ca.crt").read_bytes())
        return grpc.secure_channel(self.config.munge_address, credentials)


@pytest.fixture(scope="module")
def shared(munged: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StampedMaster]:
    with StampedMaster(tmp_path_factory.mktemp("shared"), munged) as master:
        yield master


@pytest.fixture
def master(shared: StampedMaster) -> Iterator[StampedMaster]:
    config, names = shared.config, dict(shared.names)
    yield shared
    shared.config, shared.names = config, names


def client(master: StampedMaster) -> Client:
    return Client(master.config.munge_address, wait_s=60.0, channel=master.channel())


def refused(master: StampedMaster, *metadata: tuple[str, str]) -> str:
    """Why a call with this metadata is refused."""
    with pytest.raises(grpc.RpcError) as found:
        scheduler_pb2_grpc.SchedulerStub(master.bare()).Cluster(
            scheduler_pb2.ClusterRequest(), timeout=60, metadata=metadata
        )
    assert found.value.code() is DENIED
    return str(found.value.details())


def stamp(master: StampedMaster, path: str = CLUSTER, body: bytes = b"") -> tuple[str, str]:
    return CREDENTIAL_KEY, master.munge.encode(payload(master.config.munge_address, path, body))


def test_a_credential_proves_its_user(master: StampedMaster) -> None:
    assert client(master).cluster().cluster.startswith("ann/")
    assert client(master).cluster().cluster.endswith("/munge/user")
    master.names[ME] = "adm"
    assert client(master).cluster().cluster.endswith("/munge/user")  # munge does not tell hosts for administration
    master.config = msgspec.structs.replace(master.config, admin_hosts=("all",))
    assert client(master).cluster().cluster.endswith("/munge/admin")


def test_each_call_has_a_credential_of_its_own(master: StampedMaster) -> None:
    user = client(master)
    assert len({user.cluster().cluster for _ in range(5)}) == 1
    assert len(list(user.events(follow=False))) == 3
    ends = user.ends()
    ends.ask([4])
    assert next(iter(ends)).job_id == 4
    ends.cancel()
    blob = os.urandom(3 << 20)
    submission = Submission(spec=JobSpec(command="x", user="", queue="q"), environment=blob, script=b"", input=None)
    assert user.submit(submission).job_id > len(blob)


def test_who_has_proven_nothing_yet_says_no_more_than_so_much(master: StampedMaster) -> None:
    """8 MiB; on the port of hosts it is eight times that."""
    user, large = client(master), b"x" * (9 << 20)
    submission = Submission(spec=JobSpec(command="x", user="", queue="q"), environment=b"", script=large, input=None)
    with pytest.raises(GschedError, match="larger than max"):
        user.submit(submission)
    assert user.cluster().cluster.startswith("ann/")


def test_a_credential_that_is_used_again_is_refused(master: StampedMaster) -> None:
    used = stamp(master)
    stub = scheduler_pb2_grpc.SchedulerStub(master.bare())
    assert stub.Cluster(scheduler_pb2.ClusterRequest(), timeout=60, metadata=(used,)).cluster.startswith("ann/")
    assert "replayed" in refused(master, used).lower()


@pytest.mark.parametrize(
    "make",
    [
        lambda master: stamp(master, "/gsched.wire.v1.Scheduler/Submit"),
        lambda master: stamp(master, body=b"another request"),
        lambda master: (CREDENTIAL_KEY, master.munge.encode(b"")),
        lambda master: (CREDENTIAL_KEY, master.munge.encode(payload("other:1", CLUSTER, b""))),
    ],
    ids=["method", "request", "nothing", "master"],
)
def test_a_credential_is_good_for_its_own_call_alone(
    master: StampedMaster, make: Callable[[StampedMaster], tuple[str, str]]
) -> None:
    assert refused(master, make(master)) == "the munge credential was made for another call"


def test_what_is_no_credential_is_refused(master: StampedMaster) -> None:
    key, good = stamp(master)
    changed = good[:60] + ("A" if good[60] != "A" else "B") + good[61:]
    assert refused(master).startswith("a call has one munge credential, this one 0")
    assert refused(master, stamp(master), stamp(master)).startswith("a call has one munge credential, this one 2")
    assert refused(master, (key, changed)).startswith("munge: ")
    assert refused(master, (key, "MUNGE:rubbish:")).startswith("munge: ")
    assert refused(master, (key, "x" * 5000)) == "what should be a munge credential is none"
    assert client(master).cluster().cluster.startswith("ann/")  # bad ones leave nothing behind


def test_a_name_in_metadata_counts_for_nothing_there(master: StampedMaster) -> None:
    assert "munge credential" in refused(master, (USER_KEY, "adm"))
    stub = scheduler_pb2_grpc.SchedulerStub(master.bare())
    metadata = (stamp(master), (USER_KEY, "adm"))
    assert stub.Cluster(scheduler_pb2.ClusterRequest(), timeout=60, metadata=metadata).cluster.startswith("ann/")


def test_a_credential_counts_for_nothing_on_the_port_of_hosts(master: StampedMaster) -> None:
    credentials = grpc.ssl_channel_credentials(
        *[(master.tls / name).read_bytes() for name in ("ca.crt", "gpu1.key", "gpu1.crt")]
    )
    channel = grpc.secure_channel(f"{MASTER}:{master.config.network.port}", credentials)
    with pytest.raises(grpc.RpcError, match="host gpu1 names 0 users"):
        scheduler_pb2_grpc.SchedulerStub(channel).Cluster(
            scheduler_pb2.ClusterRequest(), timeout=60, metadata=(stamp(master),)
        )


def test_no_agent_comes_by_munge(master: StampedMaster) -> None:
    path = "/gsched.wire.v1.AgentService/Session"
    hello = agent_pb2.AgentBatch(messages=[agent_pb2.AgentMessage(hello=agent_pb2.Hello(host="gpu1"))])
    call = agent_pb2_grpc.AgentServiceStub(master.bare()).Session(
        iter([hello]), timeout=60, metadata=(stamp(master, path),)
    )
    with pytest.raises(grpc.RpcError, match="an agent proves its host by a certificate"):
        next(call)


def test_streams_of_requests_are_bound_to_their_method(master: StampedMaster) -> None:
    call = waiting_pb2_grpc.WaitingStub(master.bare()).Ends(
        iter([waiting_pb2.EndsRequest(job_ids=[1])]), timeout=60, metadata=(stamp(master),)
    )
    with pytest.raises(grpc.RpcError, match="made for another call"):
        next(call)


def test_root_and_unknown_users_are_as_configured(master: StampedMaster) -> None:
    user = client(master)
    submission = Submission(spec=JobSpec(command="x", user="", queue="q"), environment=b"", script=b"", input=None)
    master.names[ME] = "toor"
    with pytest.raises(PermissionDenied, match="Root may not do this"):
        user.submit(submission)
    master.names[ME] = "mallory"
    with pytest.raises(PermissionDenied, match="user mallory is not known"):
        user.cluster()
    del master.names[ME]
    with pytest.raises(PermissionDenied, match=f"uid {ME} has no name on localhost"):
        user.cluster()


def followed(master: StampedMaster, tls: Path) -> Iterator[object]:
    """Events that go on for ever, of which three have come."""
    channel = stamping_channel(master.config.munge_address, str(tls), master.munge)
    events = Client("x", wait_s=60.0, channel=channel).events(follow=True)
    assert [next(events).seq for _ in range(3)] == [0, 1, 2]
    return events


def test_a_call_that_goes_on_ends_by_itself_when_the_masters_certificate_is_revoked(
    master: StampedMaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.wire.identity.trusted_channel.LOOK_S", 0.05)
    shutil.copy(master.tls / "ca.crt", tmp_path)
    events = followed(master, tmp_path)
    shown = (master.tls / f"{MASTER}.crt").read_bytes()
    (tmp_path / "revoked").write_text(f"{fingerprint(shown)}  {MASTER}  2026-01-01\n")
    with pytest.raises(PermissionDenied, match="the certificate that localhost shows as the master's host is revoked"):
        next(events)


def test_a_call_that_goes_on_ends_when_its_user_is_served_no_longer(
    master: StampedMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.master.access.request_gate.LOOK_S", 0.05)
    monkeypatch.setattr("gsched.wire.identity.shared_callers.ACCOUNT_S", 0.0)
    master.known._known.clear()  # what is remembered since the master was started is remembered for long
    events = followed(master, master.tls)
    asked = threading.Event()

    def away(user: str) -> None:
        asked.set()

    monkeypatch.setattr(master.known, "_uid_of", away)
    for _ in range(3):  # a directory of users that is away for a moment ends nothing
        asked.clear()
        assert asked.wait(60)
    monkeypatch.setattr("gsched.wire.identity.shared_callers.MISSED_S", 0.0)
    with pytest.raises(PermissionDenied, match="user ann is not known on localhost"):
        next(events)


def test_a_munged_that_is_away_is_named(master: StampedMaster, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="munged does not answer on this host"):
        Munge(str(tmp_path / "none")).encode(b"x")
    channel = stamping_channel(master.config.munge_address, str(master.tls), Munge(str(tmp_path / "none")))
    with pytest.raises(Unavailable, match="munged does not answer on this host"):
        Client("x", wait_s=60.0, channel=channel).cluster()


def test_a_host_without_munge_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    library._library.cache_clear()
    monkeypatch.setattr(library, "LIBRARY", "libnothere.so.2")
    with pytest.raises(Unavailable, match=r"munge is not installed on this host \(libnothere\.so\.2 is missing\)"):
        Munge()
    library._library.cache_clear()
