"""The lease of a master that others wait for: renewed on a connection of its own, or the master ends.

The advisory lock goes with its connection, which a machine that is cut off, or a process that is stopped, keeps for as
long as the server likes. So a master that has successors also renews a row. Who finds it old by the clock of the
database ends the sessions of that master there, and leads. What the old one does afterwards comes to nothing: its epoch
is not that of the store any more. It finds its lease lost when it goes on, and ends by itself.

Nothing here decides who leads: that is the lock's, and the epoch's.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, text

from gsched.base.errors import GschedError, NotFound, Unavailable
from gsched.model.store_url import StoreUrl
from gsched.store.backends.leadership import LOCK_ROLE, Standing, lock_key
from gsched.store.mark import StoreMark
from gsched.store.safeguards.failure import error_text
from gsched.store.tables.migrations import check_version
from gsched.store.tables.postgresql import connect, driver

if TYPE_CHECKING:
    from psycopg import Connection as DriverConnection

LEASE_S = 6.0
"""A master that has not renewed its lease for so long is taken for lost, by others and by itself."""
RENEW_S = 1.0
LOOK_S = 0.5
"""How often one that waits looks; it hears nothing by itself."""
HANGS = "this master hangs"
REPLACED = "another master leads"
_ANSWER_S = 2.0

_GRANT = text(
    "INSERT INTO lease (id, epoch, renewed_at, successor, acknowledged) VALUES (1, :epoch, clock_timestamp(), '', 0) "
    "ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, renewed_at = excluded.renewed_at, successor = '', "
    "acknowledged = 0"
)
_REVOKE = text("DELETE FROM lease")
_END = "DELETE FROM lease WHERE epoch = %s AND successor = ''"
_RENEW = "UPDATE lease SET renewed_at = clock_timestamp(), acknowledged = %s WHERE id = 1 AND epoch = %s"
_HAND_OVER = "UPDATE lease SET renewed_at = clock_timestamp(), successor = %s WHERE id = 1 AND epoch = %s"
_HAS_TABLES = (
    "SELECT to_regclass('leader') IS NOT NULL AND to_regclass('lease') IS NOT NULL AND to_regclass('meta') IS NOT NULL"
)
# Not by the events that can be seen: a commit that waits for a standby is seen, though nobody has acknowledged it, when
# its session is ended. A leader of an earlier version does not say what it has acknowledged.
_META = (
    "SELECT key, value FROM meta WHERE key IN ('schema_version', 'cluster_id', 'generation') UNION ALL "
    "SELECT 'acknowledged', coalesce(to_jsonb(lease) ->> 'acknowledged', '0') FROM lease"
)
_LEASE = (
    "SELECT leader.holder, extract(epoch FROM clock_timestamp() - lease.renewed_at)::float8, "
    "coalesce(lease.successor, '') FROM leader LEFT JOIN lease USING (id, epoch)"
)
_LOCKED_BY_MASTER = (
    "SELECT activity.application_name = %s FROM pg_locks held "
    "LEFT JOIN pg_stat_activity activity ON activity.pid = held.pid "
    "WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 2 "
    "AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND held.classid::bigint = %s AND held.objid::bigint = hashtext(current_schema())::bigint & 4294967295"
)
# Another one that waits may have taken over since the look, or be about to: nothing of that is ended.
_END_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
    "AND usename = current_user AND application_name = ANY (%s) "
    "AND backend_start < clock_timestamp() - make_interval(secs => %s) AND EXISTS (SELECT 1 FROM lease "
    "JOIN leader USING (id, epoch) WHERE clock_timestamp() - lease.renewed_at >= make_interval(secs => %s))"
)
_STANDBYS = (
    "SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database() "
    "AND usename = current_user AND application_name LIKE %s ORDER BY 1"
)
_STANDBY = "gsched standby on "
_LONGEST_NAME = 63 - len(_STANDBY)
"""PostgreSQL keeps 63 bytes of what a session calls itself."""
_OF_MASTERS = ["gsched master", LOCK_ROLE, "gsched master's lease"]

_log = logging.getLogger("gsched.store")


def grant(connection: Connection, standing: Standing, *, is_renewed: bool) -> float:
    """In the transaction that begins the epoch. A master that nobody waits for has no lease, which nobody finds old.

    Returns a time before the database notes its own, for LeaseKeeper.
    """
    began = _now()
    if is_renewed:
        connection.execute(_GRANT, {"epoch": standing.epoch})
    else:
        connection.execute(_REVOKE)
    return began


def _now() -> float:
    """Seconds that nobody sets, and that pass while the machine is suspended, as they do for the database."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseKeeper:
    """Renews the lease of one epoch, in a thread of its own, until `close`; another one looks at the time, for a
    connection may take long. `lost` hears once why it is lost, and is to end this process. `began`: as of `grant`.

    The lease is over here before it is for the database: it counts from before each renewal.

    `is_well`: whether the master does its work; the lease of one that hangs is not renewed. It is asked by that thread
    at each renewal, and must not block. `acknowledged`, asked at the same time: number of the last event that is.
    """

    def __init__(self, url: StoreUrl, epoch: int, lost: Callable[[str], None], began: float) -> None:
        self._url = url
        self._epoch = epoch
        self._lost = lost
        self.is_well: Callable[[], bool] = lambda: True
        self.acknowledged: Callable[[], int] = lambda: 0
        self._ended = threading.Event()
        self._told = threading.Lock()
        self._renewed_at = began
        self._problem = ""
        self._connection: DriverConnection[Any] | None = None
        self._keeping = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._keeping.start()
        threading.Thread(target=self._watch, name="lease's end", daemon=True).start()

    def close(self) -> None:
        """Renew it no more; others need not wait for its end, unless it is promised to one of them."""
        self._ended.set()
        self._keeping.join(_ANSWER_S)

    def _keep(self) -> None:
        while not self._ended.wait(RENEW_S):
            began = _now()
            if not self.is_well():
                self._problem = HANGS
                continue
            try:
                is_ours = self._renew()
            except (GschedError, driver().Error) as error:
                self._problem = error_text(error) if isinstance(error, driver().Error) else str(error)
                self._drop()
            else:
                if not is_ours:
                    self._renewed_at, self._problem = -math.inf, REPLACED
                    self._has_ended()
                    return
                self._renewed_at, self._problem = began, ""
        if not self._problem:
            with contextlib.suppress(GschedError, driver().Error):
                self._connected().execute(_END, (self._epoch,))
        self._drop()

    def _watch(self) -> None:
        # To the end and not a moment longer: from then on another one may lead, and be told other things.
        while not self._ended.wait(min(RENEW_S, max(0.0, self._renewed_at + LEASE_S - _now()))):
            if self._has_ended():
                return

    def check(self) -> None:
        """Return where the lease holds. Where it is over, `lost` hears of it, and this waits for the process to end:
        whoever asks must tell nobody anything. For any thread: one that goes on after a stop of the process may be
        quicker than the one that watches. Raises Unavailable after `close`.
        """
        if self._has_ended():
            self._ended.wait()
            raise Unavailable(f"this master does not lead the store {self._url.name} any more")

    def _has_ended(self) -> bool:
        """Whether it is over, which `lost` hears of then."""
        renewed_at = self._renewed_at
        if _now() - renewed_at < LEASE_S:
            return False
        why = self._problem or "the database does not answer, or this process was stopped"
        self._tell(REPLACED if renewed_at == -math.inf else f"it could not be renewed for {LEASE_S:g} seconds: {why}")
        return True

    def _tell(self, why: str) -> None:
        if not self._ended.is_set() and self._told.acquire(blocking=False):
            self._lost(f"the lease on the store {self._url.name} is lost: {why}")

    def _renew(self) -> bool:
        return self._connected().execute(_RENEW, (self.acknowledged(), self._epoch)).rowcount == 1

    def _connected(self) -> DriverConnection[Any]:
        if self._connection is None:
            self._connection = connect(self._url, "master's lease", answer_s=_ANSWER_S)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def hand_over(url: StoreUrl, epoch: int, among: Sequence[str]) -> str:
    """Let another master take the store as soon as this one has given it back: the first that waits of those on these
    hosts. Returns its host. For LEASE_S nobody else takes it.

    Raises NotFound when none of them waits, Unavailable, BadRequest.
    """
    try:
        with connect(url, "master's lease", answer_s=_ANSWER_S) as connection:
            found = connection.execute(_STANDBYS, (f"{_STANDBY}%",)).fetchall()
            waiting = {str(row[0]).removeprefix(_STANDBY) for row in found}
            chosen = next((host for host in among if _short(host) in waiting), "")
            if not chosen:
                raise NotFound(f"no master waits on {' or '.join(among)}")
            connection.execute(_HAND_OVER, (chosen, epoch))
    except driver().Error as error:
        raise Unavailable(f"the store {url.name} cannot be reached: {error_text(error)}") from error
    return chosen


def _short(host: str) -> str:
    """The host in what a session calls itself."""
    if len(host) <= _LONGEST_NAME:
        return host
    return f"{host[: _LONGEST_NAME - 9]}~{zlib.crc32(host.encode()):08x}"


class Leading(NamedTuple):
    """Who has a store, as one that waits sees it."""

    holder: str
    lease_age_s: float | None
    """None: it has no lease, nobody may take it from him."""


class Successor:
    """Waits for a store that another master leads. For one thread."""

    def __init__(self, url: StoreUrl, host: str) -> None:
        self._url = url
        self._host = host
        self._role = f"{_STANDBY.removeprefix('gsched ')}{_short(host)}"
        self._connection: DriverConnection[Any] | None = None
        self._watched_since = time.monotonic()
        self.seen = StoreMark()
        """What was acknowledged of the store at the last look: whoever leads it later must find no less."""

    def look(self) -> Leading | None:
        """Who leads; None: nobody, or one whose lease was old and whose sessions have been ended.

        Raises Unavailable, BadRequest; the next look begins anew. Raises Conflict when a newer gsched has brought the
        store to a format that this one does not know, so that it could never lead.
        """
        failure = driver().Error
        try:
            if self._connection is None:
                self._connection = connect(self._url, self._role, answer_s=_ANSWER_S)
                self._watched_since = time.monotonic()
            return self._found(self._connection)
        except failure as error:
            self.close()
            raise Unavailable(f"the store {self._url.name} cannot be reached: {error_text(error)}") from error
        except BaseException:
            self.close()
            raise

    def _found(self, connection: DriverConnection[Any]) -> Leading | None:
        has_tables = connection.execute(_HAS_TABLES).fetchone()
        standing = None
        if has_tables and has_tables[0]:
            self.seen = self._looked_at(connection)
            standing = connection.execute(_LEASE).fetchone()
        holder, age_s, successor = standing or ("another process", None, "")
        locked = connection.execute(_LOCKED_BY_MASTER, (LOCK_ROLE, lock_key())).fetchone()
        if locked is None:
            is_promised = successor not in ("", self._host) and age_s is not None and age_s < LEASE_S
            return Leading(f"{holder} hands over to {successor} and", age_s) if is_promised else None
        if not locked[0] or age_s is None or age_s < LEASE_S:
            return Leading(str(holder), age_s)
        if connection.execute(_END_SESSIONS, (_OF_MASTERS, LEASE_S, LEASE_S)).rowcount == 0:
            return Leading(str(holder), age_s)  # somebody else is about to lead
        _log.warning("%s has not renewed its lease for %.1f seconds: its sessions are ended", holder, age_s)
        return None

    def _looked_at(self, connection: DriverConnection[Any]) -> StoreMark:
        values = {str(key): str(value) for key, value in connection.execute(_META)}
        check_version(int(values["schema_version"]), self._url.name)
        generation, seq = int(values.get("generation", "1")), int(values.get("acknowledged", "0"))
        return StoreMark(cluster_id=values["cluster_id"], generation=generation, seq=seq)

    def has_watched(self, for_s: float) -> bool:
        """Whether one session of the database has answered at every look for so long, and does now: it is the one that
        it was, and has lost nothing.
        """
        if self._connection is None or time.monotonic() - self._watched_since < for_s:
            return False
        try:
            self._connection.execute("SELECT 1")
        except driver().Error:
            return False
        return True

    def close(self) -> None:
        """Look no more; the next look begins anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
