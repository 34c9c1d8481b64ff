"""Who has cancelled a job, `CANCELLED by UID`: the owner, or another user, of whom only its history tells."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gsched.cli.session.session import Session
from gsched.cli.slurm.facts.job_facts import BY_OWNER, SlurmJob
from gsched.model import event as events
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import JobFilter, JobHistory
from gsched.wire.identity.caller_identity import uid_of_user

_MOST_HISTORIES = 200


@dataclass(slots=True)
class Cancellers:
    """Asks for a limited number of histories; of further jobs it is not told who has cancelled them."""

    session: Session
    asked: int = 0

    def of(self, job: SlurmJob) -> int | None:
        """Number of the user; None: the job was not cancelled, or nobody knows."""
        if job.state != "CANCELLED":
            return None
        result = job.view.result
        if result is None or result.term_reason in BY_OWNER:
            return job.uid
        if self.asked >= _MOST_HISTORIES or not result.term_reason.endswith("_ADMIN"):
            return None
        self.asked += 1
        return self._told(job.view.job_id)

    def _told(self, job_id: int) -> int | None:
        found: int | None = None
        for history in self.session.client.past.histories(HistoryQuery(jobs=JobFilter(ids=(job_id,), user="all"))):
            for record in history.events if isinstance(history, JobHistory) else ():
                try:
                    event = events.decode_event(record.payload.encode())
                except (msgspec.MsgspecError, ValueError):
                    continue
                if isinstance(event, events.JobSignalRequested) and event.by and event.step is None:
                    found = uid_of_user(event.by)
        return found
