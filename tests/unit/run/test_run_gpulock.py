"""Locks between clusters: exclusive between, shared within, and safe in a folder that anybody may write."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile

import pytest

from gsched.base.machine.gpu_lock import GpuLockError, GpuLockFolders, default_folder, lock_gpus, release


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "locks")


def only(folder):
    """Locks where no cluster of the system's can be."""
    return GpuLockFolders(folder, "", False)


def test_clusters_exclude_each_other_and_share_within(folder):
    mine = lock_gpus(["GPU-b", "GPU-a"], "one", only(folder))
    also_mine = lock_gpus(["GPU-a"], "one", only(folder))
    with pytest.raises(GpuLockError, match=r"^GPU GPU-a is in use by another cluster$"):
        lock_gpus(["GPU-a"], "two", only(folder), patience_s=0)
    release(mine)
    with pytest.raises(GpuLockError):
        lock_gpus(["GPU-a"], "two", only(folder), patience_s=0)
    release(also_mine)
    theirs = lock_gpus(["GPU-a"], "two", only(folder))
    with pytest.raises(GpuLockError):
        lock_gpus(["GPU-a"], "one", only(folder), patience_s=0)
    release(theirs)


def test_long_names_that_begin_alike_are_two_clusters(folder):
    long = "c:/" + "deep/" * 60
    mine = lock_gpus(["GPU-a"], long + "one", only(folder))
    with pytest.raises(GpuLockError):
        lock_gpus(["GPU-a"], long + "two", only(folder), patience_s=0)
    release([*mine, *lock_gpus(["GPU-a"], long + "one", only(folder))])


def test_it_is_all_or_nothing(folder):
    theirs = lock_gpus(["GPU-b"], "two", only(folder))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(GpuLockError, match="GPU-b"):
        lock_gpus(["GPU-a", "GPU-b", "GPU-c"], "one", only(folder), patience_s=0)
    assert len(os.listdir("/proc/self/fd")) == before
    release(lock_gpus(["GPU-a"], "two", only(folder)))
    release(theirs)


def test_other_users_can_use_folder_and_files_whatever_the_umask(folder):
    old = os.umask(0o077)
    try:
        release(lock_gpus(["GPU-a"], "one", only(folder)))
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o1777
    assert stat.S_IMODE(os.stat(folder + "/GPU-a").st_mode) == 0o666


@pytest.mark.needs_root
@pytest.mark.skipif(os.getuid() != 0, reason="changes its user id")
def test_another_user_shares_the_folder_with_root():
    top = tempfile.mkdtemp()
    os.chmod(top, 0o755)
    folder = top + "/locks"
    try:
        release(lock_gpus(["GPU-a"], "root's", only(folder)))
        mine = lock_gpus(["GPU-b"], "root's", only(folder))
        child = os.fork()
        if child == 0:
            code = 99
            try:
                os.setuid(65534)
                release(lock_gpus(["GPU-a", "GPU-c"], "theirs", only(folder)))
                try:
                    lock_gpus(["GPU-b"], "theirs", only(folder), patience_s=0)
                except GpuLockError as error:
                    code = 0 if "in use by another cluster" in str(error) else 98
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        release(lock_gpus(["GPU-a", "GPU-c"], "root's", only(folder)))
        release(mine)
    finally:
        shutil.rmtree(top)


def test_links_and_other_things_in_its_place_are_refused_and_untouched(folder, tmp_path):
    os.mkdir(folder)
    precious = tmp_path / "precious"
    precious.write_text("text")
    os.symlink(precious, folder + "/GPU-symlink")
    os.link(precious, folder + "/GPU-hardlink")
    os.mkfifo(folder + "/GPU-fifo")
    os.mkdir(folder + "/GPU-folder")
    for uuid in ("GPU-symlink", "GPU-hardlink", "GPU-fifo", "GPU-folder"):
        with pytest.raises(GpuLockError, match=uuid):
            lock_gpus([uuid], "one", only(folder), patience_s=0)
    assert precious.read_text() == "text"


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(GpuLockError, match="link"):
        lock_gpus(["GPU-a"], "one", only(str(tmp_path / "link")))
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.parametrize("uuid", ["", "../x", "a/b", ".hidden", "a b", "GPU-\n"])
def test_names_that_are_no_uuid_are_refused(folder, uuid):
    with pytest.raises(GpuLockError, match="not the UUID"):
        lock_gpus([uuid], "one", only(folder))


def test_a_file_left_by_a_crash_locks_nobody_out(folder):
    os.mkdir(folder)
    with open(folder + "/GPU-a", "w") as file:
        file.write("a cluster that is no more, with a name much longer than ours")
    release(lock_gpus(["GPU-a"], "one", only(folder), patience_s=0))
    with open(folder + "/GPU-a") as file:
        assert file.read() == "one"


def test_no_gpus_need_no_folder(tmp_path):
    assert lock_gpus([], "one", only(str(tmp_path / "never"))) == []
    assert not (tmp_path / "never").exists()


def test_the_machine_wide_folder_is_writable_by_all():
    parent = os.stat(os.path.dirname(default_folder()))
    assert parent.st_mode & 0o1002 == 0o1002


def test_a_lock_that_is_taken_again_and_again_writes_nothing(folder):
    """Each look at the GPUs tries each lock."""
    release(lock_gpus(["GPU-a"], "a longer name", only(folder)))
    path = os.path.join(folder, "GPU-a")
    os.utime(path, ns=(0, 0))
    release(lock_gpus(["GPU-a"], "a longer name", only(folder)))
    assert os.stat(path).st_mtime_ns == 0
    release(lock_gpus(["GPU-a"], "short", only(folder)))
    with open(path, "rb") as file:
        assert file.read() == b"short"
