"""Which jobs and arrays have which name, by user: dependency conditions ask, and never look at every job for it.

Derived from the jobs in memory and never stored. Elements of arrays are not in it: their array has the name. Jobs
without a name are not in it either.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator

from gsched.base.errors import BadRequest
from gsched.base.wildcards import looks, wildcards

MOST_LOOKED_AT = 20_000
"""Names that one expression may have compared one by one: those of its patterns that begin alike."""
LOOKS_OF_NAME = 16
"""At a name, that take as long as getting to it."""
STALE_SHARE = 2
"""The sorted names are made anew when fewer than one in so many is still in use."""


_LAST = chr(sys.maxunicode)


class JobNames:
    """The names of all users' jobs."""

    def __init__(self) -> None:
        self._users: dict[str, _OfUser] = {}

    def enter(self, number: int, user: str, name: str) -> None:
        """The job or array has that name from now on."""
        if name:
            found = self._users.get(user)
            if found is None:
                found = self._users[user] = _OfUser()
            found.enter(number, name)

    def leave(self, number: int, user: str, name: str) -> None:
        """The job no longer has this name."""
        found = self._users.get(user) if name else None
        if found is not None and found.leave(number, name):
            del self._users[user]

    def search(self, user: str | None) -> Search:
        """For the names in one expression. `user` None: the jobs of all users are meant."""
        if user is None:
            return Search(list(self._users.values()))
        found = self._users.get(user)
        return Search([found] if found is not None else [])


class Search:
    """Finds the numbers that the names of one expression stand for, each name once."""

    def __init__(self, users: list[_OfUser]) -> None:
        self._users = users
        self._left = MOST_LOOKED_AT

    def numbers(self, pattern: str, most: int) -> list[int]:
        """Numbers of jobs with such a name, ascending; `*` stands for any text. Raises BadRequest for more than `most`
        of them, or for patterns that would have to be held against too many names.
        """
        found: list[int] = []
        for user in self._users:
            for name in self._names(user, pattern):
                found += user.numbers(name)
                if len(found) > most:
                    raise BadRequest(f"{pattern} stands for more than {most} jobs")
        return sorted(found)

    def newest(self, pattern: str) -> int | None:
        """The highest number of a job with such a name. Raises BadRequest as `numbers`."""
        found = [user.newest(name) for user in self._users for name in self._names(user, pattern)]
        return max(found, default=None)

    def _names(self, user: _OfUser, pattern: str) -> Iterator[str]:
        head, star, _ = pattern.partition("*")
        if not star:
            if user.has(pattern):
                yield pattern
            return
        names = user.beginning(head)
        self._left -= len(names)
        if pattern.count("*") > LOOKS_OF_NAME:  # a long name of which many pieces are looked for counts as several
            self._left -= sum(looks(pattern, len(name), any_one=False) // LOOKS_OF_NAME for name in names)
        if self._left < 0:
            raise BadRequest(f"{pattern} and what else is named would be held against over {MOST_LOOKED_AT} names")
        fits = wildcards(pattern, any_one=False).fits
        yield from dict.fromkeys(name for name in names if fits(name) and user.has(name))


class _OfUser:
    """Names of one user's jobs -> their numbers: one, or those of several as the keys of a dict."""

    def __init__(self) -> None:
        self._numbers: dict[str, int | dict[int, None]] = {}
        self._sorted: list[str] = []
        """Names in order, also some that are no longer in use."""
        self._unsorted: list[str] = []
        """Names that are to go there when somebody asks."""

    def enter(self, number: int, name: str) -> None:
        found = self._numbers.get(name)
        if found is None:
            self._numbers[name] = number
            self._unsorted.append(name)
        elif isinstance(found, int):
            self._numbers[name] = {found: None, number: None}
        else:
            found[number] = None

    def leave(self, number: int, name: str) -> bool:
        """Says whether no name is left."""
        found = self._numbers.get(name)
        if isinstance(found, dict):
            found.pop(number, None)
        if not found or found == number:
            self._numbers.pop(name, None)
        if len(self._unsorted) > STALE_SHARE * len(self._numbers):  # they come and go, and nobody asks
            self._unsorted, self._sorted = list(self._numbers), []
        return not self._numbers

    def has(self, name: str) -> bool:
        return name in self._numbers

    def numbers(self, name: str) -> list[int]:
        found = self._numbers[name]
        return [found] if isinstance(found, int) else list(found)

    def newest(self, name: str) -> int:
        found = self._numbers[name]
        return found if isinstance(found, int) else max(found)

    def beginning(self, head: str) -> list[str]:
        """Names that begin so, in order; some may be no longer in use, or stand there twice."""
        names = self._in_order()
        first = bisect_left(names, head)
        return names[first : bisect_left(names, head + _LAST, first)] if head else names

    def _in_order(self) -> list[str]:
        if len(self._sorted) + len(self._unsorted) > STALE_SHARE * len(self._numbers) + 64:
            self._sorted, self._unsorted = sorted(self._numbers), []
        elif self._unsorted:
            self._sorted += self._unsorted
            self._sorted.sort()  # of what is in order already little is compared again
            self._unsorted = []
        return self._sorted
