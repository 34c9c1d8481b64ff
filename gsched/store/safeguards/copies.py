"""Copies of a store: made while its master goes on writing, put back in its place while no master runs.

A copy is one file, whole and closed. What it takes the place of is renamed, never removed. Nothing here decides which
copy is wanted, or talks to anybody.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from gsched.base.errors import BadRequest, Conflict, GschedError
from gsched.base.ids import array_of
from gsched.store.mark import MarkFile, StoreMark
from gsched.store.safeguards import lineage, sealed_files
from gsched.store.safeguards.failure import StoreDamaged, before_commit, error_text
from gsched.store.safeguards.filesystem import sync_folder
from gsched.store.safeguards.first_look import FirstLook, look_at, note_closed
from gsched.store.safeguards.lock import StoreLock
from gsched.store.tables.floor import numbers_given_out
from gsched.store.tables.migrations import note_generation
from gsched.store.tables.schema import job
from gsched.store.tables.sqlite import reader_engine, single_file_engine

_OF_ARRAY = array_of(-1)
"""The bits of a number that an array's elements have in common."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A copy that was put back."""

    mark: StoreMark
    """Of which cluster and generation it is now, and how many events it has."""
    kept: tuple[str, ...]
    """Paths under which the files lie now whose place it took."""
    may_lack: bool
    """The copy was not closed, and its write-ahead log does not lie beside it."""


def copy_store(path: Path, target: Path, sealed: bytes = b"") -> StoreMark:
    """Copy the store as it is at one moment into a new file, readable by its owner alone, and return how far it has
    come. The master may run. Raises BadRequest, Conflict (no store, a newer gsched's), StoreDamaged, StoreFull.

    `sealed`: what else goes into the file, see `sealed_files`.
    """
    return _copied(path, target, None, sealed)


def restore_copy(copy: Path, path: Path, witnesses: Mapping[str, StoreMark], now: float) -> Restored:
    """Put a copy in the place of the store at `path`, as a new generation.

    `witnesses`: see EventLog; `now`: UTC seconds. Raises StoreInUse (a master runs), Conflict (of another cluster; no
    store), StoreDamaged, StoreFull, BadRequest; then nothing was changed.
    """
    lock = StoreLock(path.parent)
    try:
        mark_file = MarkFile(path.parent)
        there = _readable(path)
        marks = [mark for mark in (mark_file.mark, *witnesses.values(), there) if mark is not None]
        look, found = look_at_copy(copy)
        cluster_id = next((mark.cluster_id for mark in marks if mark.cluster_id), found.cluster_id)
        if cluster_id != found.cluster_id:
            ids = f"its cluster id is {found.cluster_id[:8]}, not {cluster_id[:8]}"
            raise Conflict(f"{copy} is not a copy of this cluster's store: {ids}")
        generation = 1 + max(mark.generation for mark in (found, *marks) if mark.cluster_id in ("", cluster_id))
        new = path.with_name(f"{path.name}.new")
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        mark = _copied(copy, new, generation)
        if mark_file.mark is None and there is not None:  # it alone knows which numbers are used up
            mark_file.begin(there)
            mark_file.close(clean=True)
        kept = lineage.moved_away(path, now)
        os.rename(new, path)
        sync_folder(path.parent)
        return Restored(mark, kept, look.was_left_open and not look.has_log)
    except OSError as error:
        raise BadRequest(f"{error.filename or path}: {error.strerror}") from None
    finally:
        lock.release()


def _readable(path: Path) -> StoreMark | None:
    """How far the store has come that lies there, and which job numbers it has given out, if it can be read."""
    try:
        mark = look_at(path).mark
        if mark is None:
            return None
        readers = reader_engine(path)
        try:
            with readers.connect() as connection:
                newest = connection.scalar(select(func.max(job.c.job_id.op("&")(_OF_ARRAY))))
                gone = numbers_given_out(connection)
        finally:
            readers.dispose()
    except (Conflict, DBAPIError, OSError):
        return None
    return msgspec.structs.replace(mark, next_job_id=max(int(newest or 0) + 1, gone))


def look_at_copy(path: Path) -> tuple[FirstLook, StoreMark]:
    """At a file that holds a store, and how far that has come. Raises StoreDamaged, Conflict, BadRequest, OSError."""
    try:
        look = look_at(path)
    except DBAPIError as error:
        raise StoreDamaged(f"{path} cannot be read: {error_text(error)}") from None
    if look.mark is None:
        raise BadRequest(f"{path}: there is no store in it" if path.exists() else f"{path}: No such file or directory")
    return look, look.mark


def _copied(source: Path, target: Path, generation: int | None, sealed: bytes = b"") -> StoreMark:
    look_at_copy(source)
    try:
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise BadRequest(f"{target}: {error.strerror}") from None
    try:
        _copy_pages(source, target)
        _settle(target, generation, sealed)
        sync_folder(target)
        sync_folder(target.parent)
        return look_at_copy(target)[1]
    except BaseException as error:
        for leftover in (target, Path(f"{target}-journal")):
            leftover.unlink(missing_ok=True)
        if isinstance(error, sqlite3.Error | DBAPIError):
            raise _refusal(error, target) from error
        raise


def _refusal(error: BaseException, target: Path) -> GschedError:
    if lineage.is_unusable(error):
        return StoreDamaged(f"the store is damaged, and no copy was made: {error_text(error)}")
    return before_commit(error, str(target))


def _copy_pages(source: Path, target: Path) -> None:
    """In one go: a read transaction, which no writer waits for."""
    readers = reader_engine(source)
    try:
        with readers.connect() as connection, contextlib.closing(sqlite3.connect(target)) as into:
            driver = connection.connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)
            driver.backup(into)
    finally:
        readers.dispose()


def _settle(target: Path, generation: int | None, sealed: bytes) -> None:
    """It is one file, closed, sound, and of that generation; of what a copy has beside the store it has this alone."""
    engine = single_file_engine(target)
    try:
        with engine.begin() as connection:
            note_closed(connection)
            sealed_files.replace(connection, sealed)
            if generation is not None:
                note_generation(connection, generation)
        with engine.connect() as connection:
            _check(connection, target)
    finally:
        engine.dispose()


def _check(connection: Connection, target: Path) -> None:
    said = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if said != "ok":
        raise StoreDamaged(f"the store is damaged, and no copy was made at {target}: {said}")
