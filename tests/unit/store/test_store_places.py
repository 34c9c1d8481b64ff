"""Where a store may be: URLs, filesystems, the lock."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_samples import submitted

from gsched.base.errors import BadRequest
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.safeguards.failure import StoreBroken, StoreInUse
from gsched.store.safeguards.filesystem import check_filesystem, filesystem_of, room_left
from gsched.store.safeguards.lock import StoreLock
from gsched.store.tables.sqlite import store_path
from gsched.store.transfer import back_up, copy_whole_store

MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /proc rw - proc proc rw
41 22 0:40 / /home rw,relatime shared:20 master:3 - nfs4 filer:/export/home rw,vers=4.2
42 41 254:1 / /home/local rw - xfs /dev/vdb rw
43 22 0:41 / /mnt/my\040share rw - cifs //filer/share rw
44 22 0:42 / /mnt/over rw - nfs filer:/x rw
45 22 254:2 / /mnt/over rw - ext4 /dev/vdc rw
46 22 0:43 / /mnt/ssh rw - fuse.sshfs host: rw
"""


@pytest.fixture
def log(store_file: Path) -> Iterator[EventLog]:
    opened = EventLog(store_file)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("path", "kind", "mount_point"),
    [
        ("/var/lib/gsched", "ext4", "/"),
        ("/home/ann/gsched", "nfs4", "/home"),
        ("/home/local/gsched", "xfs", "/home/local"),
        ("/homework", "ext4", "/"),
        ("/mnt/my share/x", "cifs", "/mnt/my share"),
        ("/mnt/over/x", "ext4", "/mnt/over"),
    ],
)
def test_the_filesystem_of_a_path(path: str, kind: str, mount_point: str) -> None:
    assert filesystem_of(Path(path), MOUNTS) == (kind, mount_point)


@pytest.mark.parametrize("path", ["/home/ann/gsched", "/mnt/my share/x", "/mnt/ssh"])
def test_a_network_filesystem_is_refused_with_the_way_out(path: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_filesystem(Path(path), MOUNTS)
    assert refused.value.text.startswith(f"the state folder {path} is on the network filesystem /")
    assert "gsched up --dir" in refused.value.text
    assert "\n" not in refused.value.text


def test_a_local_disk_is_accepted(tmp_path: Path) -> None:
    check_filesystem(Path("/var/lib/gsched"), MOUNTS)
    check_filesystem(tmp_path / "not" / "yet")
    check_filesystem(tmp_path, "unintelligible\n1 2 3\n")


def test_a_link_to_a_network_folder_does_not_help(tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to("/home/ann")
    with pytest.raises(BadRequest, match="nfs4"):
        check_filesystem(tmp_path / "state", MOUNTS)


def test_the_room_left_is_that_of_the_disk(tmp_path: Path) -> None:
    status = os.statvfs(tmp_path)
    assert abs(room_left(tmp_path) - status.f_bavail * status.f_frsize) < 1 << 30
    assert room_left(tmp_path) > 0


def test_too_little_room_is_said_before_a_commit_fails(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.store.safeguards.filesystem.room_left", lambda folder: (32 << 20) - 1)
    assert log.shortage() == f"the disk of {Path(log.place).parent} is full"
    monkeypatch.setattr("gsched.store.safeguards.filesystem.room_left", lambda folder: 32 << 20)
    assert not log.shortage()


def test_a_folder_that_is_gone_is_no_full_disk(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    log = EventLog(folder / "store.db")
    shutil.rmtree(folder)
    assert not log.shortage()
    with pytest.raises(StoreBroken, match="was removed or replaced while in use"):
        log.append([submitted(1)])
    log.close()


@pytest.mark.parametrize("text", ["sqlite:////var/lib/x.db", "sqlite+pysqlite:////var/lib/x.db", "/var/lib/x.db"])
def test_ways_to_name_a_file(text: str) -> None:
    assert store_path(text) == Path("/var/lib/x.db")


def test_a_relative_name_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert store_path("sqlite:///x.db") == store_path("x.db") == tmp_path / "x.db"


def test_another_database_is_refused_without_its_password() -> None:
    with pytest.raises(BadRequest) as refused:
        store_path("postgresql+psycopg://gsched:secret@db/gsched")
    assert refused.value.text == "a store in 'postgresql+psycopg' is not supported: only sqlite:///path is"


@pytest.mark.parametrize(
    "text", ["sqlite://", "sqlite:///:memory:", ":memory:", "", "sqlite:///x.db?mode=ro", "sqlite://h/x"]
)
def test_what_names_no_file_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        store_path(text)


def test_odd_characters_in_a_name_are_only_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "a?b #c%20"
    folder.mkdir()
    log = EventLog(folder / "store?.db")
    log.close()
    assert (folder / "store?.db").is_file()


def test_a_database_without_its_driver_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    place, file = "postgresql:///gsched", tmp_path / "gsched.db"
    attempts = (
        lambda: EventLog(place, folder=tmp_path),
        lambda: History(place),
        lambda: copy_whole_store(place, str(file)),
        lambda: back_up(place, file),
    )
    for attempt in attempts:
        with pytest.raises(BadRequest, match=r"needs psycopg: pip install 'gsched\[postgresql\]'"):
            attempt()
    EventLog(file).close()  # the folder is free


def test_a_second_master_in_the_same_process_is_refused(log: EventLog) -> None:
    with pytest.raises(StoreInUse) as refused:
        EventLog(log.place)
    assert refused.value.text == f"the store in {Path(log.place).parent} is in use by process {os.getpid()}"


def test_the_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    code = "import sys,pathlib,signal; from gsched.store.safeguards.lock import StoreLock; "
    code += "l=StoreLock(pathlib.Path(sys.argv[1])); "
    code += "print('held', flush=True); signal.pause()"
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreInUse, match=f"is in use by process {holder.pid}$"):
            EventLog(tmp_path / "store.db")
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    EventLog(tmp_path / "store.db").close()


def test_a_released_lock_can_be_had_again(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path)
    lock.release()
    lock.release()
    StoreLock(tmp_path).release()
