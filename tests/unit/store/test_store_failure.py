"""Full disks, failing writes, failing fsyncs: stored, not stored, or unknown, and never a wrong claim."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError
from store_samples import batch_of, job_row, noted, submitted

from gsched.store.backends import sqlite_backend
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.history_queries import History
from gsched.store.safeguards.failure import StoreBroken, StoreFull, at_commit, before_commit
from gsched.store.safeguards.filesystem import room_left
from gsched.store.safeguards.first_look import FirstLook, look_at
from gsched.store.safeguards.reserve import RESERVE_NAME, RESERVED_BYTES, DiskReserve

HERE = Path(__file__).parent


@pytest.fixture
def log(store_file: Path) -> Iterator[EventLog]:
    opened = EventLog(store_file)
    yield opened
    opened.close()


def driver_of(log: EventLog) -> sqlite3.Connection:
    driver = log._backend._writer._connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def failure(code: int, name: str = "SQLITE_X") -> OperationalError:
    cause = sqlite3.OperationalError("it failed")
    cause.sqlite_errorcode = code
    cause.sqlite_errorname = name
    return OperationalError("COMMIT", None, cause)


@pytest.mark.parametrize(
    ("name", "before", "during"),
    [
        ("SQLITE_FULL", StoreFull, StoreFull),
        ("SQLITE_IOERR_WRITE", StoreFull, StoreFull),
        ("SQLITE_BUSY", StoreFull, StoreFull),
        ("SQLITE_IOERR_FSYNC", StoreFull, StoreBroken),
        ("SQLITE_IOERR_SHMSIZE", StoreFull, StoreBroken),
        ("SQLITE_IOERR", StoreFull, StoreBroken),
        ("SQLITE_NOMEM", StoreFull, StoreBroken),
        ("SQLITE_CORRUPT", StoreBroken, StoreBroken),
        ("SQLITE_READONLY", StoreBroken, StoreBroken),
        ("SQLITE_CONSTRAINT_PRIMARYKEY", StoreBroken, StoreBroken),
    ],
)
def test_what_a_code_means_depends_on_the_step(name: str, before: type, during: type) -> None:
    error = failure(getattr(sqlite3, name), name)
    assert type(before_commit(error, "s")) is before
    assert type(at_commit(error, "s")) is during
    assert f"it failed ({name})" in before_commit(error, "s").text


def test_an_error_without_a_code_is_unknown() -> None:
    assert type(at_commit(OperationalError("COMMIT", None, Exception("odd")), "s")) is StoreBroken


def test_a_full_database_stores_nothing_and_takes_the_same_batch_later(log: EventLog) -> None:
    log.append(batch_of(1), [job_row(1)])
    pages = driver_of(log).execute("pragma page_count").fetchone()[0]
    driver_of(log).execute(f"pragma max_page_count={pages}")
    script = random.Random(1).randbytes(100_000)  # which no packing makes smaller
    history = History(log.place)
    for _ in range(3):
        with pytest.raises(StoreFull, match=r"cannot be written now: database or disk is full \(SQLITE_FULL\)$"):
            log.append(batch_of(2), [job_row(2)], {blob_id(script): script})
        assert log.last_seq == history.last_seq() == 3
        with pytest.raises(StoreFull):
            log.save_checkpoint(3, script)
    driver_of(log).execute("pragma max_page_count=1000000")
    assert log.append(batch_of(2), [job_row(2)], {blob_id(script): script}) == 6
    assert list(log.read()) == list(enumerate(batch_of(1) + batch_of(2), 1))
    assert history.last_seq() == 6
    history.close()


def test_a_database_locked_by_another_program_is_a_reason_to_wait(
    store_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.store.tables.sqlite.BUSY_TIMEOUT_S", 0.02)
    log = EventLog(store_file)
    shell = sqlite3.connect(store_file, isolation_level=None)
    shell.execute("begin immediate")
    with pytest.raises(StoreFull, match="database is locked"):
        log.append([submitted(1)])
    shell.execute("rollback")
    assert log.append([submitted(1)]) == 1
    shell.close()
    log.close()


def test_a_second_writer_behind_the_lock_is_noticed(log: EventLog) -> None:
    log.append([submitted(1)])
    intruder = sqlite3.connect(log.place)
    with intruder:
        intruder.execute("insert into event values (2, 1.0, 'job_noted', 1, x'00')")
    intruder.close()
    with pytest.raises(StoreBroken, match="refuses a batch: UNIQUE constraint failed"):
        log.append([submitted(2)])
    with pytest.raises(StoreBroken):
        log.append([submitted(2)])


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_store_taken_away_is_noticed_at_once(log: EventLog, tmp_path: Path, how: str) -> None:
    log.append([submitted(1)])
    if how == "removed":
        Path(log.place).unlink()
    else:
        shutil.copy(log.place, tmp_path / "copy")
        (tmp_path / "copy").replace(log.place)
    with pytest.raises(StoreBroken, match="was removed or replaced while in use"):
        log.append([submitted(2)])


def test_a_failed_commit_whose_records_show_is_not_called_unstored(log: EventLog) -> None:
    class Lying:
        """A driver that commits and then says it could not."""

        def __init__(self) -> None:
            self.real = log._backend._writer._connection.commit

        def __call__(self, connection: object) -> None:
            driver_of(log).execute("commit")
            cause = sqlite3.OperationalError("database or disk is full")
            cause.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise cause

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log._backend._writer._engine.dialect, "do_commit", Lying())
        with pytest.raises(StoreBroken, match="reports a failed commit but shows its records"):
            log.append([submitted(1)])
    with pytest.raises(StoreBroken):
        log.append([submitted(2)])


def test_a_commit_that_fails_on_a_disk_that_cannot_be_read_either_is_unknown(log: EventLog) -> None:
    def failing(code: int) -> Callable[..., None]:
        def fail(*_: object) -> None:
            cause = sqlite3.OperationalError("disk I/O error")
            cause.sqlite_errorcode = code
            raise cause

        return fail

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log._backend._writer._engine.dialect, "do_commit", failing(sqlite3.SQLITE_IOERR_WRITE))
        patch.setattr(log._backend.readers.dialect, "do_execute", failing(sqlite3.SQLITE_IOERR_READ))
        with pytest.raises(StoreBroken, match="can be neither written nor read: disk I/O error"):
            log.append([submitted(1)])
    with pytest.raises(StoreBroken):
        log.append([submitted(1)])


def run_child(code: str, *arguments: object, **environment: str) -> str:
    prelude = f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
    done = subprocess.run(
        [sys.executable, "-u", "-c", prelude + code, *map(str, arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


WRITE_LIMIT = """
import os, resource
from gsched.store.eventlog import EventLog
from gsched.store.safeguards.failure import StoreFull
from store_samples import batch_of, noted
log = EventLog(sys.argv[1])
log._backend._writer._connection.connection.driver_connection.execute("pragma wal_checkpoint(truncate)").fetchall()
log.append(batch_of(1))
size = os.stat(sys.argv[1] + "-wal").st_size
# The first frames fit, the commit frame does not.
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096 + 2000, resource.RLIM_INFINITY))
big = [noted(2, "x" * 3000) for _ in range(4)]
for _ in range(2):
    try:
        log.append(big)
    except StoreFull as error:
        print(error.text.rpartition(": ")[2], log.last_seq, len(list(log.replay())))
if sys.argv[2] == "die":
    os._exit(0)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(log.append(big))
os._exit(0)
"""


@pytest.mark.parametrize(("then", "expected"), [("die", 3), ("retry", 7)])
def test_a_write_that_falls_short_in_the_commit_is_not_stored(store_file: Path, then: str, expected: int) -> None:
    out = run_child(WRITE_LIMIT, store_file, then)
    refused = "disk I/O error (SQLITE_IOERR_WRITE) 3 3\n" * 2
    assert out == refused + ("7\n" if then == "retry" else "")
    log = EventLog(store_file)
    assert log.last_seq == expected
    log.close()


FAILING_FSYNC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int fails(void) {
  if (access(getenv("FSYNC_FAILS_IF"), F_OK) != 0) return 0;
  errno = EIO;
  return 1;
}
int fsync(int fd) { return fails() ? -1 : ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { return fails() ? -1 : ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""

FSYNC_CHILD = """
import os, pathlib
from gsched.store.eventlog import EventLog
from gsched.store.safeguards.failure import StoreBroken
from store_samples import batch_of
log = EventLog(sys.argv[1])
log.append(batch_of(1))
pathlib.Path(os.environ["FSYNC_FAILS_IF"]).touch()
for _ in range(2):
    try:
        log.append(batch_of(2))
    except StoreBroken as error:
        print(error.text.rpartition(": ")[2], len(list(log.replay())))
    os.unlink(os.environ["FSYNC_FAILS_IF"]) if os.path.exists(os.environ["FSYNC_FAILS_IF"]) else None
os._exit(0)
"""


@pytest.mark.needs_gcc
def test_after_a_failed_fsync_nothing_more_is_stored_and_the_batch_is_whole_or_absent(
    store_file: Path, tmp_path: Path
) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc to build the library that makes fsync fail")
    source, library = tmp_path / "fail.c", tmp_path / "fail.so"
    source.write_text(FAILING_FSYNC)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    out = run_child(FSYNC_CHILD, store_file, LD_PRELOAD=str(library), FSYNC_FAILS_IF=str(tmp_path / "flag"))
    # In the process the batch does not show, and yet recovery may find it: hence "unknown".
    assert out == "disk I/O error (SQLITE_IOERR_FSYNC) 3\n" * 2
    log = EventLog(store_file)
    assert log.last_seq in (3, 6)
    assert list(log.read()) == list(enumerate((batch_of(1) + batch_of(2))[: log.last_seq], 1))
    log.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    yield from mounted_disk(tmp_path, "1m")


@pytest.fixture
def medium_disk(tmp_path: Path) -> Iterator[Path]:
    """With room enough that some is kept."""
    yield from mounted_disk(tmp_path, "20m")


def mounted_disk(tmp_path: Path, size: str) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
    yield folder
    # Lazily: a failed test may still hold a file there, and no mount may outlive the tests.
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.needs_root
def test_a_full_disk_refuses_batches_until_there_is_room(small_disk: Path) -> None:
    log = EventLog(small_disk / "store.db")
    assert log.shortage()
    filler = small_disk / "filler"
    stored = []
    with filler.open("wb", buffering=0) as file:
        while True:
            entry = noted(1, f"{len(stored)} " + "x" * 2000)
            try:
                log.append([entry])
            except StoreFull as error:
                assert "disk is full" in error.text
                break
            stored.append(entry)
            if len(stored) == 20:
                while room_left(small_disk) > 50_000:
                    file.write(b"x" * 4096)
    assert len(stored) >= 20
    assert [event for _, event in log.read()] == stored
    with pytest.raises(StoreFull):
        log.append([noted(1, "x" * 2000)])
    filler.unlink()
    assert log.append([entry]) == len(stored) + 1
    log.close()
    log = EventLog(small_disk / "store.db")
    assert [event for _, event in log.read()] == [*stored, entry]
    log.close()


def test_room_is_kept_for_a_start_on_a_full_disk(store_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(store_file)
    log.append([noted(1)])
    log.close()
    reserve = store_file.parent / RESERVE_NAME
    assert reserve.stat().st_blocks * 512 >= RESERVED_BYTES and reserve.stat().st_mode & 0o077 == 0

    def short_of_room(path: Path) -> FirstLook:
        """What SQLite says where it cannot make its shared index (seen on a full tmpfs)."""
        if reserve.exists():
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
            error.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
            raise OperationalError("PRAGMA", None, error)
        return look_at(path)

    with monkeypatch.context() as full:
        full.setattr(sqlite_backend, "look_at", short_of_room)
        full.setattr(DiskReserve, "keep", lambda self: None)
        log = EventLog(store_file)
        assert [event for _, event in log.read()] == [noted(1)]
        log.close()
        reserve.touch()
        full.setattr(DiskReserve, "release", lambda self: False)
        with pytest.raises(StoreFull, match="cannot be written now: disk I/O error"):
            EventLog(store_file)
    reserve.unlink()
    EventLog(store_file).close()
    assert reserve.exists()


@pytest.mark.needs_root
@pytest.mark.parametrize("was_killed", [False, True])
def test_a_store_is_opened_on_a_disk_that_is_full(medium_disk: Path, was_killed: bool) -> None:
    path = medium_disk / "store.db"
    log = EventLog(path)
    log.append([noted(1)])
    if was_killed:
        shutil.copytree(medium_disk, medium_disk / "dead")
        path = medium_disk / "dead" / "store.db"
    log.close()
    with (medium_disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    log = EventLog(path)
    assert log.shortage()
    assert [event for _, event in log.read()] == [noted(1)]
    with pytest.raises(StoreFull):
        log.append([noted(1, random.Random(1).randbytes(2 << 20).hex())])
    (medium_disk / "filler").unlink()
    log.append([noted(1)])
    log.close()


@pytest.mark.needs_root
def test_a_disk_too_full_for_a_new_store_is_said_in_one_line(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"x" * (1 << 20))
    with pytest.raises((StoreFull,)) as refused:
        EventLog(small_disk / "store.db")
    assert "\n" not in refused.value.text
    (small_disk / "filler").unlink()
    EventLog(small_disk / "store.db").close()
