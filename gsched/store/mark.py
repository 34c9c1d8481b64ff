"""What is known of a store outside its database: whose it is, how far it had come, which job numbers are used up.

The store's folder holds one such mark, and each agent remembers one. A database that is empty, gone, another cluster's,
or short of its newest events is told by them. Nothing here opens a database.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path

import msgspec

from gsched.base.ids import array_of, parse_attempt_name
from gsched.base.machine.atomic_write import replace_file, write_file

MARK_NAME = "STORE.mark"
"""Beside the database, under a name that `rm gsched.db*` does not mean."""
MEMORY_NAME = "store"
"""An agent's, in its spool folder."""
_SIZE = 512
"""Bytes of a mark: one disk sector, always overwritten in place, so that it needs no room on a disk that is full."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class StoreMark(msgspec.Struct, frozen=True, kw_only=True):
    """How far a store had come."""

    cluster_id: str = ""
    """Made with the cluster's first store; empty: not known."""
    generation: int = 1
    """One more each time that a new store was begun in place of one that was lost."""
    seq: int = 0
    """So many events at least were acknowledged."""
    next_job_id: int = 1
    """No number from here on has been given to a job."""
    epoch: int = 0
    """Of the master that leads; 0: it is the only one that there can be."""

    @property
    def is_empty(self) -> bool:
        """Whether it knows of nothing that could be lost."""
        return not self.seq and self.next_job_id <= 1

    @property
    def bounds(self) -> tuple[str, int, int, int]:
        """All but what changes with each event."""
        return (self.cluster_id, self.generation, self.next_job_id, self.epoch)


class _Record(msgspec.Struct, kw_only=True):
    """The file's content; `crc` is that of the record with 0 in its place."""

    mark: StoreMark
    boot_id: str
    closed: bool = False
    crc: int = 0


def boot_id() -> str:
    """Tells this boot of the machine from others; empty where the kernel does not say."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def _encoded(record: _Record) -> bytes:
    record.crc = 0
    record.crc = zlib.crc32(msgspec.json.encode(record))
    return _padded(msgspec.json.encode(record))


def _padded(data: bytes) -> bytes:
    return data.ljust(_SIZE - 1) + b"\n"


def _decoded(data: bytes) -> _Record | None:
    try:
        record = msgspec.json.decode(data, type=_Record)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    crc, record.crc = record.crc, 0
    return record if crc == zlib.crc32(msgspec.json.encode(record)) else None


class MarkFile:
    """The mark beside the database, held by who holds the store's lock.

    It is written after each commit and not synced: a process that dies takes nothing of it along. A machine that goes
    down may leave an older mark, never a newer one; so the boot and a clean close are noted as well.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / MARK_NAME
        self.mark: StoreMark | None = None
        """As it was found, then as it was last written; None: there is none that can be read."""
        self.may_lag = False
        """The machine went down while the store was in use: more may have been acknowledged than it says."""
        self.is_damaged = False
        self._fd = -1
        self._is_final = False
        self._boot_id = boot_id()
        try:
            data = self.path.read_bytes()
        except OSError:
            return
        record = _decoded(data)
        if record is None:
            self.is_damaged = True
            return
        self.mark = record.mark
        self.may_lag = not record.closed and record.boot_id != self._boot_id

    def begin(self, mark: StoreMark) -> None:
        """The store is in use from now on. Raises OSError when the file cannot be made, or not be written."""
        data = _encoded(_Record(mark=mark, boot_id=self._boot_id))
        if self._fd < 0:
            if not self.path.exists() or self.path.stat().st_size != _SIZE:
                write_file(str(self.path), data, durable=True)
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        os.pwrite(self._fd, data, 0)
        os.fsync(self._fd)
        self.mark = mark

    def witness(self, seen: StoreMark) -> None:
        """Another process leads the store, and this is how far it was seen to be. It never fails, as `note`, and never
        takes back what is known of a later state, or of another store.
        """
        known = self.mark or StoreMark()
        if known.cluster_id not in ("", seen.cluster_id) or known.generation > seen.generation:
            return
        if known.cluster_id and known.generation == seen.generation:
            if known.seq < seen.seq:
                self.note(seen.seq, known.next_job_id)
        elif seen.cluster_id:
            with contextlib.suppress(OSError):
                self.begin(msgspec.structs.replace(seen, next_job_id=known.next_job_id))

    def disown(self, known: StoreMark) -> None:
        """The database is not the one that it should be: `known` is missing. Raises OSError."""
        self.begin(known)
        self._is_final = True

    def note(self, seq: int, next_job_id: int) -> None:
        """So much has been committed. It never fails: a mark that stays behind does no harm."""
        if self.mark is None or self._is_final:
            return
        number = max(next_job_id, self.mark.next_job_id)
        # Built anew, not by `replace`: this is done for each commit.
        self.mark = StoreMark(
            cluster_id=self.mark.cluster_id,
            generation=self.mark.generation,
            seq=seq,
            next_job_id=number,
            epoch=self.mark.epoch,
        )
        with contextlib.suppress(OSError):
            if self._fd < 0:
                self.begin(self.mark)
            else:
                os.pwrite(self._fd, _encoded(_Record(mark=self.mark, boot_id=self._boot_id)), 0)

    def close(self, *, clean: bool) -> None:
        """Nothing more is noted; `clean`: what it says is all that was acknowledged. May be called twice."""
        if self._fd < 0:
            return
        if clean and self.mark is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, _encoded(_Record(mark=self.mark, boot_id=self._boot_id, closed=True)), 0)
                os.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1


# -- what agents remember ---------------------------------------------------------------------------------------------


def remember(spool: Path, mark: StoreMark) -> None:
    """Keep what the master said of its store in an agent's folder, durably. Raises OSError."""
    replace_file(str(spool / MEMORY_NAME), _padded(msgspec.json.encode(mark)), durable=True)


def update_memory(spool: Path, mark: StoreMark) -> None:
    """The same for a mark that only says of more events: in place and not synced, for it is done with each order. A
    process that dies takes nothing of it along. Raises OSError."""
    path = spool / MEMORY_NAME
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:  # the folder was cleared
        return remember(spool, mark)
    try:
        if os.fstat(descriptor).st_size == _SIZE:
            os.pwrite(descriptor, _padded(msgspec.json.encode(mark)), 0)
            return None
    finally:
        os.close(descriptor)
    return remember(spool, mark)  # as an earlier version has left it


def remembered(spool: Path) -> StoreMark | None:
    """What the agent of this folder knows of the store, also by the attempts that lie there; None: nothing."""
    try:
        known = msgspec.json.decode((spool / MEMORY_NAME).read_bytes(), type=StoreMark)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        known = StoreMark()
    number = max((array_of(job_id) + 1 for job_id in _attempts(spool)), default=1)
    if number > known.next_job_id:
        known = msgspec.structs.replace(known, next_job_id=number)
    return None if known.is_empty else known


def _attempts(spool: Path) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for entry in os.listdir(spool / "attempts"):
            with contextlib.suppress(ValueError):
                found.append(parse_attempt_name(entry)[0])
    return found


def known_on_this_machine(spools: Path) -> dict[str, StoreMark]:
    """Host -> what its agent remembers, of those whose folders lie here and may be read."""
    try:
        hosts = sorted(os.listdir(spools))
    except OSError:
        return {}
    return {f"the agent of {host}": mark for host in hosts if (mark := remembered(spools / host)) is not None}
