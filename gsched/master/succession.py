"""The store of a cluster for the master that leads: taken at once, or when whoever leads is gone.

Where lsf.conf names several masters, all but one wait here. They listen nowhere, and look at who leads; who waits has
loaded what a master needs, follows the store, and reads the configuration when it is its turn.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gsched.base.errors import BadRequest, Conflict, Unavailable
from gsched.base.machine.service import ServiceManager
from gsched.config.configuration import Loaded, load
from gsched.master.following import Following
from gsched.master.recovery import Replica
from gsched.master.store_lineage import FIRST_HELLOS_S, how_to_go_on
from gsched.model.config import ClusterConfig
from gsched.model.store_url import parse_store_url
from gsched.store.backends.lease import LEASE_S, LOOK_S, Leading, Successor
from gsched.store.eventlog import EventLog
from gsched.store.mark import MarkFile, known_on_this_machine
from gsched.store.safeguards.continuity import StoreLost
from gsched.store.safeguards.failure import StoreDamaged, StoreInUse
from gsched.wire.identity.identity_assertion import check_certificate

log = logging.getLogger(__name__)

BROKEN_EXIT = 70
"""Exit code when the process must be restarted to replay (EX_SOFTWARE)."""
LAST_WORDS_S = 1.0
"""A process that ends at once has so long to say why."""
FEEDS_S = 900.0
"""How long a takeover may take before the service manager's watchdog bites: as TimeoutStartSec of the unit."""


class Taken(NamedTuple):
    """The store, and the configuration as it was read then."""

    loaded: Loaded
    store: EventLog
    has_watched: bool
    """This process has seen without a gap how the store was led before: it is no older state of it."""
    begun: threading.Event
    """To be set when the master feeds the service manager by itself."""
    replica: Replica | None = None
    """What this process has followed of the store while it waited."""


def take_store(loaded: Loaded, host: str, manager: ServiceManager) -> Taken | None:
    """The store, as soon as this process may lead; None: it was told to end meanwhile. Raises GschedError."""
    config = loaded.required()
    if not config.masters:
        return Taken(loaded, open_store(config), False, threading.Event())
    waiting = _Waiting(config, host, manager)
    while True:
        if not waiting.until_free():
            return None
        begun = _feed_meanwhile(manager)
        if waiting.has_waited:
            loaded = _read_again(config, host)
        try:
            store = open_store(loaded.required(), lost=leave_at_once)
        except (StoreInUse, Unavailable) as error:  # somebody else was quicker; the database has gone
            begun.set()  # the wait feeds by itself
            if not waiting.has_waited and not isinstance(error, StoreInUse):
                raise
            waiting.note(error.text)
            continue
        has_watched = waiting.has_watched
        return Taken(loaded, store, has_watched, begun, waiting.close())


def _read_again(config: ClusterConfig, host: str) -> Loaded:
    """The files, which may say something else by now. Raises Conflict where they do about what was waited for."""
    loaded = load(config.locations.conf_dir, host, run_egroup=True)
    now = loaded.required()
    if (now.masters, now.locations.store_place) != (config.masters, config.locations.store_place):
        raise Conflict("LSF_MASTER_LIST or GSCHED_STORE has changed while this master waited to lead: start it anew")
    check_certificate(now, now.master_host)
    return loaded


def _feed_meanwhile(manager: ServiceManager) -> threading.Event:
    """Keep the watchdog quiet until the event is set, while files and store are read: the wait has armed it."""
    until, begun = time.monotonic() + FEEDS_S, threading.Event()

    def feed() -> None:
        while time.monotonic() < until and not begun.wait(manager.feed_s):
            manager.feed()

    if manager.feed_s:
        threading.Thread(target=feed, name="feeding", daemon=True).start()
    return begun


def open_store(config: ClusterConfig, *, renew: bool = False, lost: Callable[[str], None] | None = None) -> EventLog:
    """The cluster's store, checked against all that is known of it on this machine; `renew` and `lost`: see EventLog.

    Raises GschedError; a store that is lost is told with what may be done about it.
    """
    locations = config.locations
    witnesses = known_on_this_machine(Path(locations.spool_dir))
    folder = Path(locations.state_dir)
    try:
        return EventLog(locations.store_place, folder=folder, witnesses=witnesses, renew=renew, lost=lost)
    except StoreLost as missing:
        how = how_to_go_on(locations.store_place, is_shared=config.is_shared)
        raise Conflict(f"{missing.text}: {how}") from None
    except StoreDamaged as damaged:
        how = how_to_go_on(locations.store_place, is_shared=config.is_shared)
        raise Conflict(f"{damaged.text}. Move the file away first; {how}") from None


def leave_at_once(text: str) -> None:
    """End this process where it stands: it must neither tidy up nor tell anybody anything. It is begun anew. A log that
    takes no line, as where its disk hangs, does not keep it.
    """
    latest = threading.Timer(LAST_WORDS_S, os._exit, (BROKEN_EXIT,))
    latest.daemon = True
    try:
        latest.start()
    except RuntimeError:  # there is no room for one more thread
        os._exit(BROKEN_EXIT)
    log.critical("%s; the next start replays", text)
    logging.shutdown()
    os._exit(BROKEN_EXIT)


class _Waiting:
    """The wait of one process for its turn."""

    def __init__(self, config: ClusterConfig, host: str, manager: ServiceManager) -> None:
        self._cluster = config.cluster
        self._manager = manager
        self._place = config.locations.store_place
        self._successor = Successor(parse_store_url(self._place), host)
        self._mark = MarkFile(Path(config.locations.state_dir))
        self._following: Following | None = None
        self._told_to_end = threading.Event()
        self._told = ""
        self.has_waited = False

    @property
    def has_watched(self) -> bool:
        """Whether it has waited for longer than a master that starts asks agents, and nothing has interrupted that."""
        return self.has_waited and self._successor.has_watched(FIRST_HELLOS_S)

    def close(self) -> Replica | None:
        """It leads, and looks no more; returns what it has followed of the store."""
        self._successor.close()
        self._mark.close(clean=False)
        return self._following.finish() if self._following is not None else None

    def until_free(self) -> bool:
        """Return when nobody leads, or whoever leads is lost; False: this process was told to end.

        Raises Unavailable, BadRequest, where the database cannot be reached at the first look.
        """
        was = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            while not self._told_to_end.is_set():
                leading, problem = self._look()
                if leading is None and not problem:
                    if self.has_waited:
                        log.warning("nobody leads cluster %s: this master takes over", self._cluster)
                    return True
                self._tell(problem or _told_of(leading))
                self._told_to_end.wait(LOOK_S)
            if self._following is not None:
                self._following.stop()
            return False
        finally:
            for number, handler in was.items():
                signal.signal(number, handler)

    def note(self, why: str) -> None:
        """The store could not be taken: whatever was seen of it before counts no more."""
        self._successor.close()
        self._tell(why)
        self._told_to_end.wait(LOOK_S)

    def _look(self) -> tuple[Leading | None, str]:
        try:
            leading = self._successor.look()
            # A database that fails over may go back in time: then this master refuses it, as the one that led does.
            self._mark.witness(self._successor.seen)
            return leading, ""
        except (Unavailable, BadRequest) as error:
            if not self.has_waited:
                raise
            return None, error.text

    def _tell(self, how: str) -> None:
        """Once each time that it is another."""
        text = f"waits to lead cluster {self._cluster}: {how}"
        if not self.has_waited:
            self.has_waited = True
            self._manager.ready(text)
            self._following = Following(self._place)
            self._following.start()
        self._manager.status(text)
        self._manager.feed()
        if how != self._told:
            self._told = how
            log.info("%s", text)

    def _end(self, number: int, frame: object) -> None:
        self._told_to_end.set()


def _told_of(leading: Leading | None) -> str:
    """Who leads, and whether it seems to be lost."""
    if leading is None:
        return "nobody leads"
    is_late = leading.lease_age_s is not None and leading.lease_age_s > LEASE_S / 2
    return f"{leading.holder} leads{', and does not renew its lease' if is_late else ''}"
