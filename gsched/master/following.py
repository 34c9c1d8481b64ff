"""A master that waits follows the store: it keeps a replica of the state, and takes over with that instead of a replay.

It loads the newest checkpoint and then applies what is committed, a little behind the leader. It reads and nothing
else: it never writes, instructs or answers, and knows nothing of who leads. What it cannot follow costs it the replica,
never more: who takes over without one replays.
"""

from __future__ import annotations

import gc
import logging
import threading

from gsched.base.errors import GschedError
from gsched.master.garbage_collection import settle_in
from gsched.master.recovery import MOST_BEHIND, CannotFollow, Replica, state_of
from gsched.store.log_tail import LogTail
from gsched.store.tables.records import PAGE

log = logging.getLogger(__name__)

FOLLOW_S = 1.0
"""How often it asks for what is new. What comes within a second is replayed in milliseconds at a takeover. To be told
of each commit (NOTIFY) would cost the leader something with each, and would save a standby that rests next to nothing.
"""


class Following:
    """Follows the store at this place in a thread of its own, from `start` until `finish` or `stop`."""

    def __init__(self, place: str, follow_s: float = FOLLOW_S) -> None:
        """Raises BadRequest, NotFound."""
        self._tail = LogTail(place)
        self._follow_s = follow_s
        self._replica: Replica | None = None
        self._needed = 0
        """A checkpoint from this event on is needed: what was followed came to its end there."""
        self._passed = 0
        """The newest checkpoint when it was last tried to skip to one."""
        self._problem = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="following", daemon=True)

    @property
    def followed(self) -> int:
        """Number of the last event that is in the replica; 0: none is, or there is no replica."""
        replica = self._replica
        return replica.seq if replica is not None else 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End soon. May be called twice."""
        self._stopping.set()

    def finish(self) -> Replica | None:
        """End, and return the state as far as it was followed; None: nothing can be used. It waits for a checkpoint
        that is being loaded: to begin anew would take longer.
        """
        self.stop()
        self._thread.join()
        return self._replica

    def _follow(self) -> None:
        while not self._stopping.is_set():
            if not self._is_behind():
                self._stopping.wait(self._follow_s)
        self._tail.close()

    def _is_behind(self) -> bool:
        """Go on by a page; says whether there is more at once."""
        try:
            if self._replica is None and not self._begin():
                return False
            assert self._replica is not None
            if self._tail.lineage() != self._replica.lineage:
                self._begin_anew()
                return True
            records = self._tail.page_from(self._replica.seq)
            self._replica.follow(records)
            if len(records) >= PAGE:
                self._skip_ahead(self._replica)
        except CannotFollow as problem:
            self._drop(str(problem))
        except GschedError as error:  # the same again at the next look, when the database may answer
            self._note(error.text)
        except Exception:  # a takeover without it is only slower
            log.exception("following has failed: a takeover replays")
            self._replica = None
            self._stopping.set()
        else:
            self._problem = ""
            return len(records) >= PAGE
        return False

    def _begin(self) -> bool:
        """Load the newest checkpoint; false: there is none yet that can be used."""
        lineage = self._tail.lineage()
        if lineage is None:
            return False
        if self._needed and self._tail.newest_checkpoint() < self._needed:
            return False
        found = self._tail.checkpoint(self._needed)
        if found is None and self._needed:
            return False
        self._replica = Replica(lineage, *state_of(found))
        settle_in()  # what a takeover would have to go through
        log.info("follows the store: %d jobs at event %d", len(self._replica.state.jobs), self._replica.seq)
        return True

    def _skip_ahead(self, replica: Replica) -> None:
        """To a checkpoint that is far beyond what was followed, as after a long time without the database: to load it
        is quicker than to apply all that lies between.
        """
        newest = self._tail.newest_checkpoint()
        if newest == self._passed or newest - replica.seq <= MOST_BEHIND:
            return
        state, seq = state_of(self._tail.checkpoint(replica.seq + MOST_BEHIND + 1))
        self._passed = newest
        if seq > replica.seq:  # else it is damaged, and all is applied
            self._replica = Replica(replica.lineage, state, seq)
            gc.unfreeze()  # what is left of the other one goes
            settle_in()
            log.info("skips to the checkpoint of event %d", seq)

    def _begin_anew(self) -> None:
        """The store was begun anew (`gadmin newstore`), or is another one: its numbers mean other records."""
        log.warning("the store is another one, or was begun anew: it is followed from its newest checkpoint on")
        self._needed, self._passed, self._replica = 0, 0, None
        gc.unfreeze()

    def _drop(self, why: str) -> None:
        """Without a replica until there is a checkpoint that goes beyond what could not be followed."""
        self._needed = self.followed + 1
        self._replica = None
        gc.unfreeze()
        log.warning("the store is not followed until its next checkpoint: %s", why)

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("the store is not followed for now: %s", problem)
        self._problem = problem
