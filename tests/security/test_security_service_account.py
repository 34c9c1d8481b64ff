"""The service account is no way to the keys: neither a user of the cluster from anywhere, nor whom a job runs as."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import grpc
import msgspec
import pytest
from test_security_identity import DENIED, Metadata, Peer, refusal

from gsched.agent.attempts.job_accounts import HostAccounts as AgentAccounts
from gsched.agent.attempts.job_accounts import Login
from gsched.base.errors import Conflict, PermissionDenied
from gsched.base.machine.system_users import first_ordinary
from gsched.master.access.refused_accounts import JobAccounts
from gsched.model.config import ClusterConfig, Locations, Network
from gsched.run.account import UnixAccount
from gsched.wire.identity.shared_callers import USER_KEY
from tests.support.folders import new_folder
from tests.support.shared_master import MASTER, SharedMaster

SERVICE: Metadata = ((USER_KEY, "gsched"),)
ALICE = UnixAccount(name="alice", uid=2001, gid=2001)
BOB = UnixAccount(name="bob", uid=2002, gid=2002, groups=(2002, 2900))
GSCHED = UnixAccount(name="gsched", uid=2900, gid=2900)
WWW = UnixAccount(name="www-data", uid=33, gid=33)
ALIAS = UnixAccount(name="alias", uid=2900, gid=2001)
ROOT = UnixAccount(name="root", uid=0, gid=0)
PEOPLE = {each.name: each for each in (ALICE, BOB, GSCHED, WWW, ALIAS, ROOT)}


def find(name: str) -> UnixAccount:
    if name not in PEOPLE:
        raise LookupError
    return PEOPLE[name]


class Service(SharedMaster):
    """Its master runs as the user gsched."""

    accounts = {**SharedMaster.accounts, "gsched": 990}  # noqa: RUF012
    own_uid = 990


def test_the_masters_own_user_is_heard_from_hosts_for_administration_alone(tmp_path: Path) -> None:
    """Root of any host can be each of its users, this one too."""
    with Service(tmp_path) as master:
        code, text = refusal(Peer(master, master.tls, "gpu1"), SERVICE)
        assert code is DENIED
        assert text == f"user gsched is whom the master runs as: heard from {MASTER} alone (GSCHED_ADMIN_HOSTS)"
        assert Peer(master, master.tls, MASTER).cluster(SERVICE) == f"gsched/{MASTER}/door/user"
        master.config = msgspec.structs.replace(master.config, admin_hosts=("gpu1", "gpu2"))
        assert Peer(master, master.tls, "gpu1").cluster(SERVICE) == "gsched/gpu1/door/user"
        assert "heard from gpu1 gpu2 alone" in refusal(Peer(master, master.tls, MASTER), SERVICE)[1]
        master.config = msgspec.structs.replace(master.config, admin_hosts=("all",))
        for host in (MASTER, "gpu1", "gpu2"):
            assert Peer(master, master.tls, host).cluster(SERVICE) == f"gsched/{host}/door/user"


def test_administrators_are_those_of_the_masters_host_unless_configured(tmp_path: Path) -> None:
    administrator = ((USER_KEY, "adm"),)
    with SharedMaster(tmp_path) as master:
        assert Peer(master, master.tls, MASTER).cluster(administrator) == f"adm/{MASTER}/door/admin"
        assert Peer(master, master.tls, "gpu1").cluster(administrator) == "adm/gpu1/door/user"
        master.config = msgspec.structs.replace(master.config, admin_hosts=("all",))
        assert Peer(master, master.tls, "gpu1").cluster(administrator) == "adm/gpu1/door/admin"
        with pytest.raises(grpc.RpcError):
            Peer(master, None).cluster(administrator)


# -- submission -------------------------------------------------------------------------------------------------------


def cluster(tls: Path, *, system_users: tuple[str, ...] = (), port: int | None = 6881) -> ClusterConfig:
    folder = str(tls.parent)
    places = Locations(
        conf_dir=folder, state_dir=folder, log_dir=folder, server_dir=folder, run_dir=folder, spool_dir=folder
    )
    network = Network(port=port, tls_dir=str(tls))
    return ClusterConfig(cluster="c", master_host="h1", locations=places, network=network, system_users=system_users)


def key(tmp_path: Path, mode: int, name: str = "h1.key") -> Path:
    """A folder of certificates with one key of this mode."""
    tls = tmp_path / "tls"
    tls.mkdir(exist_ok=True)
    tls.chmod(0o755)  # whatever the umask
    (tls / name).touch(mode=0o600)
    (tls / name).chmod(mode)
    return tls


def submitted(config: ClusterConfig, user: str, *, own_uid: int = 2900) -> str:
    """Why no job of that user is taken; empty when it is."""
    try:
        asyncio.run(JobAccounts(lambda: config, find=find, own_uid=own_uid, first=lambda: 1000).check(user))
    except PermissionDenied as error:
        return error.text
    return ""


@pytest.mark.needs_root
def test_no_job_of_who_reads_the_masters_key_is_taken(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root: files of several users")
    tls = key(tmp_path, 0o640)
    os.chown(tls / "h1.key", 0, 2900)
    config = cluster(tls, system_users=("gsched", "bob", "alias"))
    for user in ("gsched", "bob"):  # bob is in the group of the services
        said = submitted(config, user, own_uid=54321)
        assert said == f"Jobs of {user} are not accepted: that account can read {tls}/h1.key, by which a host is known"
    assert submitted(config, "alice", own_uid=54321) == ""
    assert submitted(config, "alias", own_uid=2900).startswith("Jobs of alias are not accepted: the master runs as")
    assert submitted(cluster(tls, port=None), "gsched", own_uid=54321) == ""  # a private cluster has no keys


def test_no_job_of_a_system_account_is_taken_unless_the_configuration_names_it(tmp_path: Path) -> None:
    tls = key(tmp_path, 0o600)
    said = submitted(cluster(tls), "www-data")
    assert said == (
        "Jobs of www-data are not accepted: a system account (uid 33, below UID_MIN 1000); "
        "GSCHED_SYSTEM_USERS of lsf.conf names those that may have jobs"
    )
    assert submitted(cluster(tls, system_users=("www-data",)), "www-data") == ""
    assert submitted(cluster(tls), "root") == ""  # LSF_ROOT_USER decides
    assert submitted(cluster(tls), "nobody-knows") == ""  # GSCHED_UNKNOWN_USERS has decided


def test_a_cluster_of_one_owner_takes_that_owners_jobs(tmp_path: Path) -> None:
    """Hosts of one person who is not root: daemons, keys and jobs are all that person's."""
    tls = key(tmp_path, 0o600)
    own = os.stat(tls / "h1.key").st_uid
    owner = UnixAccount(name="ann", uid=own, gid=own)
    checking = JobAccounts(
        lambda: cluster(tls), find=lambda name: owner, own_uid=own, first=lambda: 0 if own == 0 else min(own, 1000)
    )
    asyncio.run(checking.check("ann"))


def test_where_ordinary_users_begin_is_what_the_system_says(tmp_path: Path) -> None:
    file = tmp_path / "login.defs"
    assert first_ordinary(str(file)) == 1000
    file.write_text("# UID_MIN 7\nGID_MIN 5\nUID_MIN\t\t  500\nSYS_UID_MIN 100\n")
    assert first_ordinary(str(file)) == 500
    file.write_text("UID_MIN many\n")
    assert first_ordinary(str(file)) == 1000


# -- the agent that would run it --------------------------------------------------------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user can enter."""
    if os.geteuid():
        pytest.skip("needs root: acts as other users")
    folder = new_folder()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def login(user: str, tls: Path, **more: object) -> Login:
    async def ask() -> Login:
        settings = {"uid": 0, "find": find, "tls_dir": str(tls), "first": lambda: 1000, **more}
        return await AgentAccounts("h1", **settings).login(user)  # type: ignore[arg-type]

    return asyncio.run(ask())


@pytest.mark.needs_root
def test_an_agent_runs_nothing_as_who_reads_a_hosts_key(open_folder: Path) -> None:
    """By the kernel's own word: the file is opened with that account's rights, whatever gives them."""
    tls = key(open_folder, 0o640)
    os.chown(tls / "h1.key", 0, 2900)
    for user in ("gsched", "bob"):
        with pytest.raises(Conflict) as caught:
            login(user, tls, system_users=("gsched",))
        assert caught.value.text == (
            f"jobs of {user} are not started on h1: that account can read {tls}/h1.key, by which a host is known"
        )
    assert login("alice", tls).account == ALICE
    key(open_folder, 0o644, "other.key")  # a copy that somebody left open: nobody's job runs beside it
    with pytest.raises(Conflict, match=r"can read .*other\.key"):
        login("alice", tls)
    assert login("root", tls) == Login()  # LSF_ROOT_USER decides


@pytest.mark.needs_root
def test_an_agent_runs_nothing_as_whom_a_daemon_runs_as(open_folder: Path) -> None:
    """By whatever name: its processes hold the key in their memory."""
    tls, door = key(open_folder, 0o600), open_folder / "door"
    door.mkdir()
    os.chown(door, 2900, 2900)
    for user in ("gsched", "alias"):
        with pytest.raises(Conflict) as caught:
            login(user, tls, services=(str(open_folder / "missing"), str(door)), system_users=("gsched", "alias"))
        assert caught.value.text == (
            f"jobs of {user} are not started on h1: daemons of the cluster run as that account ({door} belongs to it)"
        )
    assert login("alice", tls, services=(str(door),)).account == ALICE


@pytest.mark.needs_root
def test_an_agent_runs_nothing_as_a_system_account_unless_its_configuration_names_it(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root: acts as other users")
    tls = key(tmp_path, 0o600)
    with pytest.raises(Conflict) as caught:
        login("www-data", tls)
    assert caught.value.text == (
        "jobs of www-data are not started on h1: a system account (uid 33, below UID_MIN 1000); "
        "GSCHED_SYSTEM_USERS of lsf.conf names those that may have jobs"
    )
    assert login("www-data", tls, system_users=("www-data",)).account == WWW
