"""Which blobs jobs were given to read (-is), and which of them somebody may still read.

A job that is set aside keeps what it reads, and jobs that are still to be made are known by their submission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gsched.core.records.accepted_submissions import AcceptedSubmission, inputs_of


class JobInputs(Counter[str]):
    """Blob -> how many jobs and arrays in memory read it."""

    def __init__(self) -> None:
        super().__init__()
        self.aside: set[str] | None = set()
        """Blobs that quarantined jobs read; None: it was not noted, and any blob may be one of them."""
        self._awaited: dict[int, frozenset[str]] = {}
        """Of accepted submissions, for as long as jobs are to be made of them: blobs that these read."""

    def enter(self, blob: str) -> None:
        """A job, or an array, reads it; nothing where it is empty."""
        if blob:
            self[blob] += 1

    def leave(self, blob: str) -> None:
        """One that read it is no more."""
        if blob:
            self[blob] -= 1
            if self[blob] < 1:
                del self[blob]

    def is_read(self, blob: str, accepted: Mapping[int, AcceptedSubmission]) -> bool:
        """Whether any job may still read it: one in memory, in quarantine, or still to be made of those submissions."""
        if blob in self or self.aside is None or blob in self.aside:
            return True
        known = self._awaited
        self._awaited = {
            number: known[number] if number in known else inputs_of(each.event) for number, each in accepted.items()
        }
        return any(blob in inputs for inputs in self._awaited.values())
