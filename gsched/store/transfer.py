"""A whole store from one database into another, empty one, while no master has either; every row is compared.

All of it is one transaction: a copy that fails leaves nothing behind. Nothing of the source is changed, nothing of the
target overwritten. Which store a cluster uses is decided elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, LargeBinary, Table, cast, func, select
from sqlalchemy.exc import DBAPIError

from gsched.base.errors import BadRequest, Conflict, Internal, NotFound, PermissionDenied, Unavailable
from gsched.base.ids import array_of
from gsched.model.store_url import StoreUrl, is_store_url, parse_store_url
from gsched.store.backends.leadership import LeadershipLock, make_leader_table
from gsched.store.mark import MARK_NAME, MarkFile, StoreMark
from gsched.store.safeguards import sealed_files
from gsched.store.safeguards.continuity import StoreLost, loss_of
from gsched.store.safeguards.copies import look_at_copy
from gsched.store.safeguards.failure import error_text
from gsched.store.safeguards.filesystem import check_filesystem, sync_folder
from gsched.store.safeguards.first_look import IN_USE, last_seq, look_at
from gsched.store.safeguards.lock import StoreLock
from gsched.store.safeguards.server_failure import is_passing
from gsched.store.safeguards.server_promises import check_promises
from gsched.store.tables import postgresql, sqlite
from gsched.store.tables.floor import numbers_given_out
from gsched.store.tables.migrations import (
    MIGRATIONS,
    check_version,
    make_tables,
    note_generation,
    read_meta,
    schema_version,
)
from gsched.store.tables.schema import (
    blob,
    blob_use,
    checkpoint,
    dictionary,
    event,
    host_record,
    job,
    meta,
    start_estimate,
)
from gsched.store.tables.statements import RowInsert, copy_rows, without_nul

TABLES = (meta, event, job, dictionary, blob, blob_use, checkpoint, host_record, start_estimate)
PAGE = 200
"""Rows that are in memory at a time: one may be a script of many MiB."""
_OF_ARRAY = array_of(-1)
"""The bits of a number that an array's elements have in common."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied."""

    mark: StoreMark
    """Whose store it is, and how far it has come."""
    rows: dict[str, int]
    """Name of a table -> its rows."""


def copy_whole_store(source: str, target: str) -> Copied:
    """Copy the store at one place to another, where there is none: paths, `sqlite:///PATH` or `postgresql://...`.

    Raises StoreInUse (a master has one of them), Conflict (no store, of another version, there is one at the target),
    StoreLost, BadRequest, PermissionDenied, Unavailable; then nothing was changed.
    """
    with _told(target), contextlib.ExitStack() as stack:
        reading = stack.enter_context(_source(source))
        writing, mark_file = stack.enter_context(_target(target))
        with writing.begin() as into:
            copied = _copied(reading, into, source)
            if mark_file is not None:
                _note(mark_file, copied.mark, target)
        return copied


def back_up(source: str, file: Path, sealed: bytes = b"") -> StoreMark:
    """Copy the store at this address as it is at one moment into a new file of SQLite; its master may run. Returns how
    far it has come. Raises as `copy_whole_store`.

    `sealed`: what else goes into the file, see `sealed_files`.
    """
    url = parse_store_url(source)
    with _told(str(file)), contextlib.ExitStack() as stack:
        reading = stack.enter_context(_disposed(postgresql.writer_engine(url)))
        writing = stack.enter_context(_new_file(file))
        with writing.begin() as into:
            sealed_files.replace(into, sealed)
            return _copied(_at_one_moment(reading), into, url.name).mark


def put_back(file: Path, target: str, witnesses: Mapping[str, StoreMark]) -> StoreMark:
    """Copy a backup, of either kind of store, into an empty database, as a new generation. Returns how far that has
    come. Raises as `copy_whole_store`.

    `witnesses`: see EventLog.
    """
    with _told(str(file)):
        _, found = look_at_copy(file)
    cluster_id = next((mark.cluster_id for mark in witnesses.values() if mark.cluster_id), found.cluster_id)
    if cluster_id != found.cluster_id:
        ids = f"its cluster id is {found.cluster_id[:8]}, not {cluster_id[:8]}"
        raise Conflict(f"{file} is not a copy of this cluster's store: {ids}")
    generation = 1 + max(mark.generation for mark in (found, *witnesses.values()))
    with _told(str(file)), contextlib.ExitStack() as stack:
        reading = stack.enter_context(_disposed(sqlite.reader_engine(file)))
        writing, _ = stack.enter_context(_target(target))
        with writing.begin() as into:
            copied = _copied(reading, into, str(file))
            note_generation(into, generation)
        return msgspec.structs.replace(copied.mark, generation=generation)


@contextlib.contextmanager
def _told(target: str) -> Iterator[None]:
    """What goes wrong, in one line."""
    try:
        yield
    except DBAPIError as error:
        text = f"the store was not copied: {error_text(error)}"
        raise (Unavailable(text) if is_passing(error) else Conflict(text)) from error
    except OSError as error:
        raise BadRequest(f"{error.filename or target}: {error.strerror}") from None


def _copied(reading: Engine, into: Connection, source: str) -> Copied:
    with reading.connect() as connection:
        version = schema_version(connection, source)
        check_version(version, source)
        if version != len(MIGRATIONS):
            raise Conflict(f"the store {source} has format {version}: start the master of this gsched with it once")
        make_tables(into)
        rows = {table.name: _copy_table(connection, into, table) for table in TABLES}
        for table in TABLES:
            _compare(connection, into, table)
        if into.dialect.name == "postgresql":
            make_leader_table(into)
            sequence = func.pg_get_serial_sequence(host_record.name, "number")
            into.execute(select(func.setval(sequence, func.max(host_record.c.number))))
        values = read_meta(connection)
        newest = connection.scalar(select(func.max(job.c.job_id.op("&")(_OF_ARRAY))))
        mark = StoreMark(
            cluster_id=values["cluster_id"],
            generation=int(values.get("generation", "1")),
            seq=last_seq(connection),
            next_job_id=max(int(newest or 0) + 1, numbers_given_out(connection)),
        )
        return Copied(mark, rows)


def _copy_table(source: Connection, into: Connection, table: Table) -> int:
    count = 0

    def counted() -> Iterator[tuple[Any, ...]]:
        nonlocal count
        for row in _rows(source, table):
            count += 1
            yield row

    columns = tuple(column.name for column in table.c)
    try:
        copy_rows(into, RowInsert(table, columns), counted(), PAGE)
    except DBAPIError as error:
        if is_passing(error):
            raise
        raise Conflict(f"the table {table.name} cannot be copied: {error_text(error)}") from error
    return count


def _rows(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    """All rows in the order of their keys, but for what says that a process has a file open."""
    # The cast makes bytes of what somebody repaired as text.
    columns = [cast(column, LargeBinary) if isinstance(column.type, LargeBinary) else column for column in table.c]
    query = select(*columns).order_by(*table.primary_key)
    if table is meta:
        query = query.where(meta.c.key != IN_USE)
    found = connection.execute(query, execution_options={"stream_results": True, "yield_per": PAGE})
    for row in found:
        yield tuple(row)


def _compare(source: Connection, into: Connection, table: Table) -> None:
    """Raises Internal at the first difference."""
    is_server = into.dialect.name == "postgresql"
    for place, (there, here) in enumerate(zip_longest(_rows(source, table), _rows(into, table))):
        if here != (without_nul(there) if is_server and there is not None else there):
            raise Internal(f"the copy differs in row {place + 1} of the table {table.name}: it was not kept")


@contextlib.contextmanager
def _source(place: str) -> Iterator[Engine]:
    """Connections that read it, while no master can have it."""
    if is_store_url(place):
        with _server(parse_store_url(place)) as engine:
            yield _at_one_moment(engine)
        return
    path = sqlite.store_path(place)
    with _held_folder(path) as mark_file:
        look = look_at(path)
        if look.mark is None:
            raise NotFound(f"there is no store {path}")
        if look.was_left_open and not look.has_log:
            raise Conflict(f"the store {path} was not closed, and its write-ahead log {path}-wal is missing")
        _check_loss(path, look.mark, mark_file.mark)
        with _disposed(sqlite.reader_engine(path)) as engine:
            yield engine


def _at_one_moment(engine: Engine) -> Engine:
    return engine.execution_options(isolation_level="REPEATABLE READ")


@contextlib.contextmanager
def _disposed(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


@contextlib.contextmanager
def _target(place: str) -> Iterator[tuple[Engine, MarkFile | None]]:
    """A connection that writes to what is empty, and where the mark of the store belongs."""
    if is_store_url(place):
        url = parse_store_url(place)
        with _server(url) as engine:
            with engine.connect() as connection:
                check_promises(connection, url.name)
                if schema_version(connection, url.name):
                    raise Conflict(f"there is a store already: {url.name}")
            yield engine, None
        return
    path = sqlite.store_path(place)
    with _held_folder(path) as mark_file, _new_file(path) as engine:
        yield engine, mark_file


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[Engine]:
    """A connection that writes to a file that is there, under its name, when all has gone well."""
    if os.path.lexists(path):
        raise Conflict(f"there is a file already: {path}")
    if not path.parent.is_dir():
        raise BadRequest(f"{path}: No such file or directory")
    descriptor, name = tempfile.mkstemp(prefix=".gsched-copy-", dir=path.parent)
    os.close(descriptor)
    new = Path(name)
    try:
        with _disposed(sqlite.single_file_engine(new)) as engine:
            yield engine
        _name_new(new, path)
        sync_folder(path.parent)
    finally:
        for left in (new, Path(f"{new}-journal")):
            left.unlink(missing_ok=True)


def _name_new(new: Path, path: Path) -> None:
    """Give a file its name, which nothing may have got meanwhile."""
    try:
        os.link(new, path)  # a rename would replace what is there
    except FileExistsError:
        raise Conflict(f"there is a file already: {path}") from None
    except OSError:  # a filesystem on which a file has one name only
        if os.path.lexists(path):
            raise Conflict(f"there is a file already: {path}") from None
        os.rename(new, path)


@contextlib.contextmanager
def _server(url: StoreUrl) -> Iterator[Engine]:
    lock, engine = LeadershipLock(url, "copy"), postgresql.writer_engine(url)
    lock.take()
    try:
        yield engine
    finally:
        engine.dispose()
        lock.release()


@contextlib.contextmanager
def _held_folder(path: Path) -> Iterator[MarkFile]:
    folder = path.parent
    if not folder.is_dir():
        raise BadRequest(f"the folder of the store does not exist: {folder}")
    if folder.stat().st_uid != os.geteuid():  # files that we make there would be in the master's way
        raise PermissionDenied(f"{folder} belongs to another user, who must run this")
    check_filesystem(folder)
    lock = StoreLock(folder)
    try:
        yield MarkFile(folder)
    finally:
        lock.release()


def _check_loss(path: Path, found: StoreMark, known: StoreMark | None) -> None:
    loss = loss_of(found, {MARK_NAME: known} if known is not None else {})
    if loss is not None:
        raise StoreLost(loss.text(str(path), log_missing=False), loss)


def _note(mark_file: MarkFile, mark: StoreMark, path: str) -> None:
    """The mark of the copy, where its folder has none; else it must be that of the same store. Raises OSError."""
    if mark_file.mark is not None:
        _check_loss(sqlite.store_path(path), mark, mark_file.mark)
        return
    mark_file.begin(mark)
    mark_file.close(clean=True)
