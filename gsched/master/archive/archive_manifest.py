"""The manifest of a folder of archives: which parts there are, how far each has come, and what their files must be.

A part has the jobs of one month (by their ends, UTC) of which the last event is of a span of numbers: what a month gets
after it was archived makes another part. It is written anew as a whole, and is on disk before anything is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gsched.base.errors import BadRequest, Conflict, DamagedData
from gsched.model.views.catalogue import ModelView
from gsched.model.views.view import HostView, QueueView

MANIFEST = "manifest.json"
FORMAT = "gsched history archive"
VERSION = 1
"""Of the form of all files. A program that knows only an earlier one refuses them."""
KINDS = ("jobs", "events", "contents")
"""Files of a part, in the order in which it has them."""
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


class PartState(StrEnum):
    """How far a part has come."""

    WRITTEN = "written"
    VERIFIED = "verified"
    """Its files were read again and compared with the store."""
    REMOVED = "removed"
    """None of its jobs is in the store any more."""


class ArchivedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file, which lies beside the manifest."""

    name: str
    lines: int
    bytes: int
    """Of the file as it lies there."""
    sha256: str
    """Of the same, in hexadecimal digits."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a month, and all that belongs to them. Times are UTC seconds."""

    month: str
    """`2026-09`."""
    number: int
    """1 for the first part of a month."""
    since: float
    until: float
    """Its jobs ended from `since` on, and before `until`."""
    after_event: int
    """The last event of each of its jobs has a greater number than this,"""
    last_event: int
    """and none greater than this."""
    first_seq: int
    """Number of the first event in it."""
    last_seq: int
    submitted_since: float
    """When the first of its jobs was submitted."""
    submitted_until: float
    missing_contents: int
    """Contents that its events name and that the store had no more."""
    eventless_jobs: int = 0
    """Jobs of it of which the store had no events any more."""
    incomplete_jobs: int = 0
    """Jobs of it that have events, and of which the store had no more all."""
    gsched: str
    """The version that wrote it."""
    state: PartState
    jobs: ArchivedFile
    events: ArchivedFile
    contents: ArchivedFile

    @property
    def files(self) -> tuple[ArchivedFile, ...]:
        """All of them."""
        return self.jobs, self.events, self.contents

    @property
    def name(self) -> str:
        """`2026-09`, or `2026-09.2` for a second part."""
        return part_name(self.month, self.number)


class KeptCluster(msgspec.Struct, frozen=True, kw_only=True):
    """What commands ask a master besides jobs, as it was when the newest part was written: thresholds of queues (-x),
    CPU factors (-N), GPUs of hosts (-gpu).
    """

    queues: tuple[QueueView, ...] = ()
    hosts: tuple[HostView, ...] = ()
    models: tuple[ModelView, ...] = ()


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All parts of one folder, in the order in which they were written."""

    format: str = FORMAT
    version: int = VERSION
    cluster: str
    cluster_id: str
    """Of the store: a folder has archives of one,"""
    generation: int = 0
    """and of one of its generations: in the next one numbers of events may mean others. 0: it was not written down."""
    parts: tuple[Part, ...] = ()
    planned: Part | None = None
    """Its files get their names just now: whoever was killed then left some of them."""
    kept: KeptCluster = KeptCluster()

    def of_month(self, month: str) -> tuple[Part, ...]:
        """Its parts, first one first."""
        return tuple(part for part in self.parts if part.month == month)

    def with_part(self, part: Part) -> Manifest:
        """With this one in the place of the one of its name, else behind all others; none is planned any more."""
        if any(each.name == part.name for each in self.parts):
            parts = tuple(part if each.name == part.name else each for each in self.parts)
        else:
            parts = (*self.parts, part)
        return replace(self, parts=parts, planned=None)


class _Head(msgspec.Struct):
    format: str = ""
    version: int = 0


def part_name(month: str, number: int) -> str:
    """`2026-09`, or `2026-09.2` for a second part."""
    return month if number == 1 else f"{month}.{number}"


def file_name(kind: str, part: str) -> str:
    """`jobs-2026-09.jsonl.gz`. `part`: its name."""
    return f"{kind}-{part}.jsonl.gz"


def find_manifest(folder: Path) -> Manifest | None:
    """None where there is none. Raises BadRequest, Conflict (of a newer gsched), DamagedData."""
    path = folder / MANIFEST
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise BadRequest(f"{path}: {problem.strerror}") from None
    try:
        head = msgspec.json.decode(text, type=_Head)
        if head.format != FORMAT:
            raise DamagedData(f"{path}: this is not the manifest of an archive of gsched")
        if head.version > VERSION:
            raise Conflict(f"{path}: form {head.version} is of a newer gsched; this one knows up to {VERSION}")
        manifest = msgspec.json.decode(text, type=Manifest)
        for part in (*manifest.parts, *filter(None, [manifest.planned])):
            _check_names(part)
        return manifest
    except (msgspec.MsgspecError, ValueError) as problem:
        raise DamagedData(f"{path}: {problem}") from None


def _check_names(part: Part) -> None:
    """No path that leads elsewhere is ever followed. Raises ValueError."""
    if not _MONTH.fullmatch(part.month) or part.number < 1:
        raise ValueError(f"{part.name!r} is no month")
    for kind, file in zip(KINDS, part.files, strict=True):
        if file.name != file_name(kind, part.name):
            raise ValueError(f"{file.name!r} is not the name of a file of {part.name}")


def read_manifest(folder: Path) -> Manifest:
    """Raises BadRequest where there is none, and as `find_manifest`."""
    found = find_manifest(folder)
    if found is None:
        what = "there is no such folder" if not folder.is_dir() else f"there is no {MANIFEST}: no archive lies here"
        raise BadRequest(f"{folder}: {what}")
    return found


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put it in the place of the one that is there; it is on disk when this returns. Raises OSError."""
    half = folder / f".{MANIFEST}.half"
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    half.unlink(missing_ok=True)
    try:
        with open(half, "xb", opener=_for_group) as file:
            file.write(text + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(half, folder / MANIFEST)
    except OSError:
        with contextlib.suppress(OSError):
            half.unlink(missing_ok=True)
        raise
    sync(folder)


def _for_group(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o640)


def sync(folder: Path) -> None:
    """What is in the folder has its name there, also after the machine stops. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
