"""What was said of starts, in the order in which it was said. SQLite finds that by its rows, PostgreSQL by an index."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Delete, Dialect, Integer, Select, delete, literal_column, select, tuple_

from gsched.store.tables.schema import start_estimate

_ROW: ColumnElement[int] = literal_column("rowid", Integer)
"""Of SQLite; rows are added in the order of their times."""


def first_estimate(dialect: Dialect) -> Select[Any]:
    """When something was said first."""
    order = _ROW if dialect.name == "sqlite" else start_estimate.c.at
    return select(start_estimate.c.at).order_by(order).limit(1)


def dropping_estimates(dialect: Dialect, before: float, most: int) -> Delete:
    """The statement that takes away up to so many from before that time (UTC seconds), the oldest first."""
    at, old = start_estimate.c.at, delete(start_estimate).where(start_estimate.c.at < before)
    if dialect.name == "sqlite":
        return old.where(_ROW.in_(select(_ROW).select_from(start_estimate).order_by(_ROW).limit(most)))
    keys = (start_estimate.c.job_id, at)
    return old.where(tuple_(*keys).in_(select(*keys).where(at < before).order_by(at).limit(most)))
