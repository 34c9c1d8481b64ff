"""What a store is read through, by its place: a file of SQLite or a database in PostgreSQL. It never writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from gsched.base.errors import NotFound
from gsched.model.store_url import is_store_url, parse_store_url
from gsched.store.tables import postgresql, sqlite


@dataclass(frozen=True, slots=True)
class Source:
    """A place, and connections to it that cannot write."""

    place: str
    """What opens it, also in another process: no secret is in it."""
    name: str
    """As people are told of it."""
    engine: Engine


def open_source(place: str | Path, *, answer_s: float = postgresql.QUERY_ANSWER_S) -> Source:
    """Connect to nothing yet. `answer_s`: how long a server may say nothing. Raises NotFound for a file that is not
    there, BadRequest.
    """
    text = str(place)
    if is_store_url(text):
        url = parse_store_url(text)
        return Source(url.text, url.name, postgresql.reader_engine(url, answer_s))
    path = sqlite.store_path(place)
    if not path.is_file():
        raise NotFound(f"there is no store {path}")
    return Source(str(path), str(path), sqlite.reader_engine(path))
