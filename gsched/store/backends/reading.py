"""Reads of an open store: one that fails is told as its backend says that it is to be. They never write."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from gsched.store.backends.backend import Backend


@contextlib.contextmanager
def answered(backend: Backend) -> Iterator[None]:
    """What is read meanwhile and fails raises what the backend makes of it (Backend.reading_failure)."""
    try:
        yield
    except DBAPIError as error:
        raise backend.reading_failure(error) from error


@contextlib.contextmanager
def reading(backend: Backend) -> Iterator[Connection]:
    """A connection that cannot write; failures as in `answered`."""
    with answered(backend), backend.readers.connect() as connection:
        yield connection
