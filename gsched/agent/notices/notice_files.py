"""Notices on this host's disk: what is to be sent and how far that has come, and a journal of each run of a sender.

SPOOL/notices/ID.json is one notice, written before the master hears of it and after each try; it is there until the
master has what became of it. SPOOL/notices/NUMBER.run is the journal of one run: its first line, written here, says
whose notices it has; the sender adds `try ID N` before and `end ID N {...}` after each try. Whoever still writes to a
journal holds its lock. All of it is for the agent's eyes alone, for it names where notices go. What writes, blocks.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import logging
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from gsched.base.coded_text import AnyText
from gsched.base.machine.atomic_write import replace_file, write_file
from gsched.model.jobs.notice import Notice, NoticeEnd

log = logging.getLogger(__name__)

FOLDER = "notices"
MOST_JOURNAL = 1 << 20
"""Bytes of a journal that are read."""
_ID = re.compile(r"[0-9a-f]{1,64}", re.ASCII)
_JOURNAL = re.compile(r"([0-9]{1,18})\.run", re.ASCII)


class NoticeOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A notice and all that is needed to send it."""

    notice: Notice
    cluster: str
    to: str
    form: str = "json"
    mail_program: str = ""
    mail_server: str = ""
    proxy: str = ""


class KeptNotice(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A notice of this host, and how far it has come."""

    order: NoticeOrder
    tries: int = 0
    due: float = 0.0
    """When it is tried next, UTC seconds."""
    problem: AnyText = ""
    """Why the last try did not do."""
    end: NoticeEnd | None = None
    """What became of it; None: it is not over."""

    @property
    def notice_id(self) -> str:
        return self.order.notice.notice_id

    @property
    def user(self) -> str:
        return self.order.notice.user


class RunHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a journal."""

    user: str
    notice_ids: tuple[str, ...]


class TryEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a sender has written down of one try."""

    problem: str = ""
    """Code of the text that says why it did not do; empty: it was sent."""
    values: tuple[str | int | float, ...] = ()
    again: bool = False
    """It may do another time."""
    after_s: float | None = None
    """So long whoever did not take it wants to be left alone."""


class RunJournal(msgspec.Struct, kw_only=True):
    """The journal of one run of a sender: what became of each notice."""

    header: RunHeader | None = None
    begun: dict[str, int] = {}
    """Notice -> number of its try."""
    ended: dict[tuple[str, int], TryEnd] = {}
    skipped: set[str] = set()
    """Notices that were left out, for nobody had answered there."""


class NoticeFiles:
    """The files of notices on one host."""

    def __init__(self, spool: Path) -> None:
        self.folder = spool / FOLDER
        self._numbers = itertools.count(1 + max(map(_number, self.journals()), default=0))

    def read(self) -> Iterator[KeptNotice]:
        """All notices. One that cannot be read is said and left where it is."""
        for path in self._paths(".json"):
            try:
                kept = msgspec.json.decode(path.read_bytes(), type=KeptNotice)
            except (OSError, msgspec.DecodeError) as error:
                log.error("%s cannot be read, and nobody is told what it says: %s", path, error)
                continue
            if _ID.fullmatch(kept.notice_id) and path.name == f"{kept.notice_id}.json":
                yield kept

    def write_each(self, notices: Iterable[KeptNotice]) -> set[str]:
        """The ids of those that are on disk when this returns: all but such with an id that nobody has made. Blocks;
        run it in another thread. Raises OSError.
        """
        written = set()
        for kept in notices:
            if not _ID.fullmatch(kept.notice_id):
                log.error("'%s' is not the id of a notice, and it is not sent", kept.notice_id[:40])
                continue
            self.folder.mkdir(mode=0o700, exist_ok=True)
            replace_file(str(self.folder / f"{kept.notice_id}.json"), msgspec.json.encode(kept), durable=True)
            written.add(kept.notice_id)
        return written

    def remove(self, notice_id: str) -> None:
        if not _ID.fullmatch(notice_id):
            return
        with contextlib.suppress(OSError):
            (self.folder / f"{notice_id}.json").unlink()

    # -- journals -----------------------------------------------------------------------------------------------------

    def new_journal(self, header: RunHeader) -> Path:
        """A journal with this first line. Blocks; run it in another thread. Raises OSError."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        path = self.folder / f"{next(self._numbers)}.run"
        write_file(str(path), msgspec.json.encode(header) + b"\n", durable=True)
        return path

    def journals(self) -> list[Path]:
        """Journals of senders that have not been taken into account."""
        return [path for path in self._paths(".run") if _number(path)]

    def _paths(self, suffix: str) -> list[Path]:
        try:
            return sorted(path for path in self.folder.iterdir() if path.suffix == suffix)
        except OSError:
            return []


def _number(path: Path) -> int:
    """Of a journal; 0: it is none."""
    found = _JOURNAL.fullmatch(path.name)
    return int(found[1]) if found is not None else 0


def read_journal(path: Path) -> RunJournal:
    """What the journal says; what cannot be read in it counts as not there."""
    found = RunJournal()
    try:
        with path.open("rb") as file:
            data = file.read(MOST_JOURNAL)
    except OSError:
        return found
    first, *lines = data.split(b"\n")
    with contextlib.suppress(msgspec.DecodeError):
        found.header = msgspec.json.decode(first, type=RunHeader)
    for line in lines:
        with contextlib.suppress(ValueError, msgspec.DecodeError):
            word, notice_id, *rest = line.decode("ascii").split(" ", 3)
            if word == "skip":
                found.skipped.add(notice_id)
            elif word == "try":
                found.begun[notice_id] = int(rest[0])
            elif word == "end" and len(rest) == 2:
                found.ended[notice_id, int(rest[0])] = msgspec.json.decode(rest[1], type=TryEnd)
    return found


def wait_until_written(path: Path) -> None:
    """Returns when nobody writes to the journal any more. Blocks; run it in another thread. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    finally:
        os.close(fd)
