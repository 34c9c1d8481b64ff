"""What a log of events needs of the database beneath it. A backend never interprets, and never retries by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from gsched.base.errors import GschedError
from gsched.store.mark import StoreMark
from gsched.store.safeguards.lineage import Renewal


class Backend(Protocol):
    """A store that is open, and held against every other process until `close`. Methods may be called from any thread,
    but `transact` and `close` by one at a time.
    """

    place: str
    """What opens it, also for readers in other processes: no secret is in it."""
    name: str
    """As people are told of it."""
    readers: Engine
    """Connections that cannot write and never hold the writer up, for any thread."""
    renewed: Renewal | None
    """What was begun in place of what; None: nothing was lost, or nothing was to be renewed."""
    cluster_id: str
    """Made with the cluster's first store, the same for ever."""
    generation: int
    """One more with each renewal."""
    epoch: int
    """Higher with each master that has taken it; 0: there can be one alone."""
    created_at: float
    """UTC seconds."""
    numbers_from: int
    """No job may get a number below this one, as far as is known outside the database."""

    @property
    def mark(self) -> StoreMark:
        """How far the store has come, as it is noted outside the database."""

    def transact(
        self,
        write: Callable[[Connection], None],
        *,
        landed: Callable[[], bool] | None = None,
        batch: object = None,
    ) -> None:
        """Run `write` in a transaction and commit it: when this returns, all of it is durable.

        Raises StoreFull (give the same again) or StoreBroken (unknown, or hopeless: so is every call after it).
        `landed` says by a fresh read whether the batch is visible. `batch` is what must not be stored twice: of a call
        that repeats one whose outcome was not known, it is found out whether there is anything left to do.
        """

    def note(self, seq: int, next_job_id: int) -> None:
        """So much has been committed; noted outside the database as well. It never fails."""

    def disown(self, known: StoreMark) -> None:
        """This store should not be there: the next start refuses it, for `known` is missing. Raises OSError."""

    def hand_over(self, among: Sequence[str]) -> str:
        """Promise the store to the first master that waits of those on these hosts; returns its host.

        Raises NotFound when none waits, Unavailable, BadRequest.
        """

    def check_lease(self) -> None:
        """Before anything is told of the store. Where the lease is over, so that another process may have written more,
        `lost` hears of it at once, and this does not return: it waits for the end of this process, which `lost` brings.
        It asks nobody. Raises Unavailable where the store has been closed after that.
        """

    def lead_while(self, is_well: Callable[[], bool]) -> None:
        """Let others that wait have the store when this says no for longer than a lease is; asked once a second, from
        another thread.
        """

    def reading_failure(self, error: DBAPIError) -> GschedError:
        """What it means that the log cannot be read."""

    def shortage(self) -> str:
        """Why new commands are better refused, though no write has failed yet; empty: nothing of that kind is known."""

    def close(self) -> None:
        """Give the store back; nothing may be called afterwards."""
