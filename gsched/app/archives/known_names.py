"""A set of names that may be larger than memory: which scripts and environments were seen already. Not durable."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from gsched.base.errors import BadRequest

AT_ONCE = 500
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class KnownNames:
    """In a file in a folder of its own, where nobody else can put a link before SQLite opens the file by its name. Both
    are gone with `close`. Raises BadRequest where they cannot be made, or the file cannot grow.
    """

    def __init__(self, path: Path) -> None:
        """`path`: of the folder."""
        self._path, self._file = path, path / "names"
        try:
            self._clear()
            path.mkdir(0o700)
            os.close(os.open(self._file, _NEW, 0o600))
        except OSError as problem:
            raise BadRequest(f"{path}: {problem.strerror}") from None
        try:
            self._connection = self._connected()
        except BaseException:
            self._remove()
            raise

    def _connected(self) -> sqlite3.Connection:
        with self._told():
            connection = sqlite3.connect(f"{self._file.as_uri()}?mode=rw", uri=True, isolation_level=None)
            try:
                for words in ("journal_mode=OFF", "synchronous=OFF"):
                    connection.execute(f"PRAGMA {words}")
                connection.execute("CREATE TABLE name (name TEXT PRIMARY KEY) WITHOUT ROWID")
            except BaseException:
                connection.close()
                raise
            return connection

    def add(self, names: Iterable[str]) -> list[str]:
        """Those of them that were not known, each once."""
        put = "INSERT OR IGNORE INTO name VALUES (?)"
        with self._told():
            return [name for name in dict.fromkeys(names) if self._connection.execute(put, (name,)).rowcount]

    def remove(self, name: str) -> bool:
        """Whether it was known."""
        with self._told():
            return bool(self._connection.execute("DELETE FROM name WHERE name = ?", (name,)).rowcount)

    def all(self) -> Iterator[list[str]]:
        """All that are known, some at a time."""
        after = ""
        while names := self._behind(after):
            after = names[-1]
            yield names

    def _behind(self, after: str) -> list[str]:
        query = "SELECT name FROM name WHERE name > ? ORDER BY name LIMIT ?"
        with self._told():
            return [row[0] for row in self._connection.execute(query, (after, AT_ONCE))]

    def close(self) -> None:
        """Nothing of it stays."""
        self._connection.close()
        self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):  # who comes next makes it anew, or says why that cannot be
            self._clear()

    def _clear(self) -> None:
        """Of one that was killed nothing stays either. No link is followed. Raises OSError."""
        if self._path.is_dir() and not self._path.is_symlink():
            self._file.unlink(missing_ok=True)
            self._path.rmdir()
        else:
            self._path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as problem:
            raise BadRequest(f"{self._path}: {problem}") from None
