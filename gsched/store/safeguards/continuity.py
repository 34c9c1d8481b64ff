"""Is the database that lies here the one that jobs were acknowledged from, and all of it? Pure comparison of marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gsched.base.errors import Conflict
from gsched.store.mark import StoreMark


class StoreFault(StrEnum):
    """What is wrong with the database."""

    MISSING = "missing"
    FOREIGN = "foreign"
    OLD = "old"
    """Of an earlier generation than is known of."""
    SHORT = "short"
    """It lacks events that were acknowledged."""
    DOUBTFUL = "doubtful"
    """It may lack some: the machine went down, and there is no log."""
    UNCLOSED = "unclosed"
    """It may lack some: it says itself that it was not closed, and there is no log."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What was found, who knows better, and what that one knows."""

    fault: StoreFault
    witness: str
    known: StoreMark
    found: StoreMark | None

    def text(self, store: str, *, log_missing: bool, damage: str = "") -> str:
        """One sentence that names what is missing. `damage`: why a file that is there cannot be read."""
        known = self.known
        what = f"{known.seq} events" if known.seq else "jobs"
        if known.next_job_id > 1:
            what += f", job numbers below {known.next_job_id}"
        if self.found is None:
            how = f"cannot be read ({damage})" if damage else "is missing or empty"
            return f"the store {store} {how}, but {self.witness} knows of one ({what})"
        if self.fault is StoreFault.FOREIGN:
            ids = f"{self.found.cluster_id[:8]} instead of {known.cluster_id[:8]}"
            return f"the store {store} is not the one that {self.witness} knows ({what}): its cluster id is {ids}"
        if self.fault is StoreFault.OLD:
            now, before = known.generation, self.found.generation
            return f"the store {store} is of generation {before}, but {self.witness} knows of generation {now} ({what})"
        log = f"; its write-ahead log {store}-wal is missing" if log_missing else ""
        if self.fault is StoreFault.SHORT:
            first, last = self.found.seq + 1, known.seq
            return f"the store {store} has lost events {first} to {last}, of which {self.witness} knows{log}"
        may = f"the store {store} may have lost its newest events"
        if self.fault is StoreFault.UNCLOSED:
            return f"{may}: it was not closed, and its write-ahead log {store}-wal is missing"
        return f"{may}: this machine went down while it was in use{log}"


class StoreLost(Conflict):
    """The store is not, or not all of, what was acknowledged; nothing has been changed."""

    def __init__(self, text: str, loss: Loss) -> None:
        super().__init__(text)
        self.loss = loss


def loss_of(
    found: StoreMark | None, witnesses: Mapping[str, StoreMark], without_log: StoreFault | None = None
) -> Loss | None:
    """The gravest thing that the witnesses know better than the database `found`; None: it is whole.

    `without_log`: why it may lack something that no witness knows, where its log is gone.
    """
    for witness, known in witnesses.items():
        if known.is_empty:
            continue
        if found is None:
            return Loss(StoreFault.MISSING, witness, known, None)
        if known.cluster_id not in ("", found.cluster_id):
            return Loss(StoreFault.FOREIGN, witness, known, found)
        if known.cluster_id and known.generation > found.generation:
            return Loss(StoreFault.OLD, witness, known, found)
    for witness, known in witnesses.items():
        if found is None or known.cluster_id != found.cluster_id or known.generation < found.generation:
            continue
        if known.seq > found.seq:
            return Loss(StoreFault.SHORT, witness, known, found)
    return Loss(without_log, "", found, found) if found is not None and without_log is not None else None


def numbers_from(found: StoreMark, witnesses: Mapping[str, StoreMark], exact: str) -> int:
    """The first job number that the store `found` may give out. `exact`: the witness that knows it to the number; the
    others know only a bound, which says nothing about a store that has lost nothing."""
    return max(
        (
            known.next_job_id
            for witness, known in witnesses.items()
            if witness == exact
            or (known.cluster_id, known.generation) != (found.cluster_id, found.generation)
            or known.seq > found.seq
        ),
        default=1,
    )
