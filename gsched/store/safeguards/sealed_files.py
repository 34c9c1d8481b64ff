"""What a copy of a store holds beside the store: files of the cluster, encrypted, in a table that no store has.

It is bytes here, and nobody's business what they mean. A copy that is put back as a store has none any more.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Connection, Integer, LargeBinary, MetaData, Table, insert, inspect, select
from sqlalchemy.exc import DBAPIError

from gsched.base.errors import BadRequest
from gsched.store.safeguards.failure import error_text
from gsched.store.tables.sqlite import reader_engine

_sealed = Table(
    "sealed_files",
    MetaData(),
    Column("number", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)


def replace(connection: Connection, data: bytes) -> None:
    """The database holds this beside its store; nothing where it is empty."""
    _sealed.drop(connection, checkfirst=True)
    if data:
        _sealed.create(connection)
        connection.execute(insert(_sealed).values(number=1, data=data))


def read(path: Path) -> bytes:
    """What the copy holds beside its store; empty: nothing. Raises BadRequest for what is no copy."""
    if not path.is_file():
        raise BadRequest(f"{path}: No such file" if not path.exists() else f"{path} is not a file")
    engine = reader_engine(path)
    try:
        with engine.connect() as connection:
            if not inspect(connection).has_table(_sealed.name):
                return b""
            return bytes(connection.scalar(select(_sealed.c.data)) or b"")
    except DBAPIError as error:
        raise BadRequest(f"{path} cannot be read: {error_text(error)}") from None
    finally:
        engine.dispose()
