"""`gadmin check-store`: can all of a store be read, and does it add up? It changes nothing, and a master may write."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gsched.app.stores.blob_references import Reference, of_event, of_state
from gsched.base.errors import GschedError
from gsched.base.ids import show_job
from gsched.core.audit import audit
from gsched.core.state.cluster_state import ClusterState
from gsched.master.recovery import apply_all
from gsched.model.config import ClusterConfig
from gsched.model.event import AnyEvent
from gsched.store.history_queries import History
from gsched.store.integrity import Integrity
from gsched.store.mark import MARK_NAME, MarkFile, StoreMark, known_on_this_machine
from gsched.store.past_queries import PastStore
from gsched.store.safeguards.quarantine import Quarantine, Quarantined

MOST_SAID = 20
"""Problems of one kind that are told one by one, unless all are wanted."""
AT_ONCE = 500
"""Names of blobs that are looked up together."""
MOST_REMEMBERED = 100_000
"""Names that were looked up: most jobs have a script or an environment that others have, too."""


def check_store(config: ClusterConfig, say: Callable[[str], None], *, all_of_them: bool = False) -> bool:
    """Say what is wrong with the store, and what is in it; returns whether all is well. The master may run.

    Raises GschedError for a store that cannot be read at all.
    """
    witnesses = _witnesses(config)  # before anything is read: a master goes on
    history = History(config.locations.store_place)
    past, integrity = PastStore(history), Integrity(history)
    try:
        count = 0
        for problems in _StoreCheck(past, integrity).kinds(witnesses):
            count += _tell(problems, say, math.inf if all_of_them else MOST_SAID)
        last = history.last_seq()
    finally:
        integrity.close()
        past.close()
        history.close()
    problem = f"{count} problem{'s' if count > 1 else ''}"
    say(f"the store {history.name}: {last} events, {problem if count else 'all is well'}")
    return not count


def _witnesses(config: ClusterConfig) -> dict[str, StoreMark]:
    """What is known of the store on this machine outside it."""
    known = known_on_this_machine(Path(config.locations.spool_dir))
    mark = MarkFile(Path(config.locations.state_dir)).mark
    return known if mark is None else {MARK_NAME: mark, **known}


def _tell(problems: Iterable[str], say: Callable[[str], None], most: float) -> int:
    """Says how many there are."""
    count = 0
    for count, text in enumerate(problems, 1):
        if count <= most:
            say(f"attention: {text}")
    if count > most:
        say(f"attention: {count - int(most)} more of that kind (--all names them)")
    return count


class _StoreCheck:
    """One look through a store. A job that is set aside is told once."""

    def __init__(self, past: PastStore, integrity: Integrity) -> None:
        self._past = past
        self._integrity = integrity
        self._lookup = _Lookup(integrity)
        self._told: set[int] = set()

    def kinds(self, witnesses: dict[str, StoreMark]) -> Iterator[Iterable[str]]:
        """Problems, each kind by itself."""
        lost = self._integrity.loss(witnesses)
        yield [lost] if lost else []
        yield self._integrity.file_damage()
        yield self._integrity.damaged_blobs()
        yield self._integrity.damaged_checkpoints()
        yield from self._of_events()
        yield (f"job {show_job(number)} has no row: queries of the past do not find it" for number in self._rowless())
        yield from self._of_state()

    def _of_events(self) -> Iterator[Iterable[str]]:
        """Every event is read."""
        missing: list[Reference] = []
        yield self._unreadable(missing)
        yield map(_lost, missing)

    def _unreadable(self, missing: list[Reference]) -> Iterator[str]:
        """Of a job that is set aside the first reason; blobs that are `missing` are noted beside."""
        for item in self._past.events(0, Quarantine()):
            if not isinstance(item, Quarantined):
                missing += self._lookup.missing_of(of_event(item[1]))
            elif item.job_id is None:
                yield item.text
            elif item.job_id not in self._told:
                self._told.add(item.job_id)
                yield f"job {item.job_id} is set aside: {item.text}"
        missing += self._lookup.rest()

    def _rowless(self) -> Iterator[int]:
        return (number for number in self._integrity.jobs_without_row() if number not in self._told)

    def _of_state(self) -> Iterator[Iterable[str]]:
        """What a master would begin with is in order, and has all jobs but those that were told."""
        found = self._past.checkpoint_before(math.inf)
        state, seq = ClusterState(), 0
        if found is not None:
            try:
                state, seq = ClusterState.load(found[1]), found[0]
            except GschedError as error:
                yield [f"the checkpoint of event {found[0]} cannot be used: {error.text}"]
        floor = self._past.floor()
        if seq < floor.seq:
            yield [f"no checkpoint can be used, and events are kept from {floor.seq} on: no master can begin with it"]
            return
        quarantine = Quarantine(state.quarantined)
        seq = self._replay(state, seq, quarantine)
        yield [
            f"job {number} is set aside: {text}"
            for number, text in state.quarantined.items()
            if number not in self._told
        ]
        yield audit(state)
        missing = [*self._lookup.missing_of(of_state(state)), *self._lookup.rest()]
        if missing:  # while this was read a master may have forgotten the jobs, and dropped what they named
            self._replay(state, seq, quarantine)
        named = {name for name, _ in of_state(state)}
        yield (_lost(each) for each in missing if each[0] in named)

    def _replay(self, state: ClusterState, after: int, quarantine: Quarantine) -> int:
        """Apply what comes after an event; returns the number of the last one."""
        last = after

        def counted() -> Iterator[tuple[int, AnyEvent] | Quarantined]:
            nonlocal last
            for item in self._past.events(after, quarantine):
                last = item.seq if isinstance(item, Quarantined) else item[0]
                yield item

        apply_all(state, counted(), quarantine)
        return last


class _Lookup:
    """Are blobs there that are named? Some names at a time; each that is missing is told once."""

    def __init__(self, integrity: Integrity) -> None:
        self._integrity = integrity
        self._seen: set[str] = set()
        self._missing: set[str] = set()
        self._asked: dict[str, str] = {}

    def missing_of(self, references: Iterable[Reference]) -> Iterator[Reference]:
        """Those that are missing of these, and of those before that were not looked up yet."""
        for name, what in references:
            if name not in self._seen and name not in self._missing:
                self._seen.add(name)
                self._asked[name] = what
            if len(self._asked) >= AT_ONCE:
                yield from self.rest()

    def rest(self) -> list[Reference]:
        """Those that are missing of what was not looked up yet."""
        missing = self._integrity.missing_blobs(self._asked)
        found = [reference for reference in self._asked.items() if reference[0] in missing]
        self._missing |= missing
        self._asked.clear()
        if len(self._seen) > MOST_REMEMBERED:
            self._seen.clear()
        return found


def _lost(reference: Reference) -> str:
    name, what = reference
    return f"{what} is missing: there is no blob {name}"
