"""Rights over files lent to one thread and given up for good; needs root, and users that every system has."""

from __future__ import annotations

import ctypes
import os
import pwd
import tempfile
import threading
from pathlib import Path

import pytest

from gsched.run.account import _NUMBERS, UnixAccount, acting_as, become, give_capabilities_up, look_up

USER = next((each.pw_name for each in pwd.getpwall() if 0 < each.pw_uid < 1000), "")


@pytest.fixture
def account():
    return look_up(USER)


@pytest.fixture
def scratch():
    """A folder that everybody may look into, with a file of root's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "secret").write_text("s")
        (folder / "secret").chmod(0o600)
        (folder / "open").mkdir(mode=0o777)
        (folder / "open").chmod(0o777)
        yield folder


def test_an_account_is_what_the_host_says_of_its_name():
    found, own = look_up(USER), pwd.getpwnam(USER)
    assert (found.name, found.uid, found.gid, found.home) == (USER, own.pw_uid, own.pw_gid, own.pw_dir)
    assert own.pw_gid in found.groups
    assert UnixAccount.of(found.fields()) == found


@pytest.mark.parametrize("name", ["no-such-user-here", "", "a\0b"])
def test_who_does_not_exist_has_no_account(name):
    with pytest.raises(LookupError, match="there is no user"):
        look_up(name)


@pytest.mark.needs_root
def test_files_are_opened_and_made_as_the_user(account, scratch):
    with acting_as(account):
        with pytest.raises(PermissionError):
            (scratch / "secret").read_text()
        with pytest.raises(PermissionError):
            (scratch / "new").write_text("")
        (scratch / "open" / "mine").write_text("")
    assert (scratch / "open" / "mine").stat().st_uid == account.uid
    assert (scratch / "open" / "mine").stat().st_gid == account.gid
    assert (scratch / "secret").read_text() == "s"
    (scratch / "new").write_text("")
    assert (scratch / "new").stat().st_uid == 0


@pytest.mark.needs_root
def test_groups_count_and_come_back(account, scratch):
    before = os.getgroups()
    (scratch / "secret").chmod(0o640)
    os.chown(scratch / "secret", 0, 4242)
    wider = UnixAccount.of({**account.fields(), "groups": (account.gid, 4242)})
    with acting_as(wider):
        assert (scratch / "secret").read_text() == "s"
        assert {*os.getgroups()} == {account.gid, 4242}
    assert os.getgroups() == before


@pytest.mark.needs_root
def test_other_threads_keep_their_rights(account, scratch):
    inside, done = threading.Event(), threading.Event()

    def act():
        with acting_as(account):
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=act)
    thread.start()
    assert inside.wait(60)
    assert (scratch / "secret").read_text() == "s"
    assert os.getgroups() == os.getgroups()
    done.set()
    thread.join()


@pytest.mark.needs_root
def test_no_capability_is_left_while_acting(account):
    def held():
        with open("/proc/thread-self/status") as file:
            return next(line.split()[1] for line in file if line.startswith("CapEff"))

    before = held()
    with acting_as(account):
        assert int(held(), 16) == 0
    assert held() == before


@pytest.mark.needs_root
def test_an_error_inside_gives_the_rights_back(account, scratch):
    with pytest.raises(ZeroDivisionError), acting_as(account):
        _ = 1 / 0
    assert (scratch / "secret").read_text() == "s"


def test_acting_as_nobody_else_changes_nothing():
    with acting_as(None):
        assert os.path.exists("/proc")


@pytest.mark.needs_root
def test_who_has_become_a_user_cannot_come_back(account):
    said_in, said_out = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become(account)
            status = Path("/proc/self/status").read_text()
            ids = [line for line in status.splitlines() if line.startswith(("Uid", "Gid", "CapEff", "CapPrm"))]
            try:
                os.setuid(0)
                ids.append("root again")
            except PermissionError:
                ids.append("stays")
            os.write(said_out, "\n".join([*ids, repr(sorted(os.getgroups()))]).encode())
        finally:
            os._exit(0)
    os.close(said_out)
    os.waitpid(pid, 0)
    with os.fdopen(said_in) as file:
        lines = file.read().splitlines()
    assert lines == [
        "Uid:" + f"\t{account.uid}" * 4,
        "Gid:" + f"\t{account.gid}" * 4,
        "CapPrm:\t" + "0" * 16,
        "CapEff:\t" + "0" * 16,
        "stays",
        repr(sorted({*account.groups})),
    ]


@pytest.mark.needs_root
def test_who_has_become_a_user_does_not_keep_the_keys_of_the_agent(account):
    libc = ctypes.CDLL(None, use_errno=True)
    session = (ctypes.c_int(0), ctypes.c_int(-3), ctypes.c_int(0))  # KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING
    number = _NUMBERS[os.uname().machine]["keyctl"]
    if libc.syscall(number, ctypes.c_int(1), None) == -1:
        pytest.skip(f"no keyrings here: {os.strerror(ctypes.get_errno())}")
    own = libc.syscall(number, *session)
    said_in, said_out = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become(account)
            os.write(said_out, str(libc.syscall(number, *session)).encode())
        finally:
            os._exit(0)
    os.close(said_out)
    os.waitpid(pid, 0)
    with os.fdopen(said_in) as file:
        assert int(file.read()) not in (own, -1)


@pytest.mark.parametrize(("held", "set_to"), [([0] * 6, []), ([0, 1 << 21, 0, 0, 0, 0], [[0] * 6])])
def test_who_has_no_capabilities_does_not_ask_to_give_them_up(
    held: list[int], set_to: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """capset(2) is refused to the master below systemd, which has none (SystemCallFilter=~@privileged)."""
    asked: list[list[int]] = []
    monkeypatch.setattr("gsched.run.account._calls.capabilities", lambda: held)
    monkeypatch.setattr("gsched.run.account._calls.set_capabilities", asked.append)
    give_capabilities_up()
    assert asked == set_to
