"""A job's record in the state: plain and mutable, changed only by applying events, and small enough to have 100,000."""

from __future__ import annotations

import msgspec

from gsched.model.allocation import Allocation
from gsched.model.job import PENDING, AttemptResult, JobSpec, JobState, Usage
from gsched.model.ledger import AttemptKey
from gsched.model.snapshot import Bucket, RequirementClass
from gsched.model.view import JobView, Message


class Job(msgspec.Struct, kw_only=True):
    """One job. Times are UTC seconds; what belongs to an attempt is reset when the job is requeued."""

    job_id: int
    spec: JobSpec
    state: JobState
    submitted_at: float
    token: str = ""
    place: int = 0
    attempt: int = 0
    allocation: Allocation | None = None
    effective_req: str = ""
    dispatched_at: float | None = None
    started_at: float | None = None
    pid: int | None = None
    boot_id: str = ""
    exec_home: str = ""
    exec_cwd: str = ""
    finished_at: float | None = None
    result: AttemptResult | None = None
    post_processed: bool = False
    messages: list[Message] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    kill_by: str = ""
    """Who asked for its end; empty when nobody did."""
    stopped_by: str = ""
    """Who suspended it; empty when it is not suspended."""
    known_state: JobState | None = None
    """While UNKWN: the state it was in before."""
    failed_starts: int = 0
    not_before: float = 0.0
    avoid_host: str = ""
    stale: list[int] = msgspec.field(default_factory=list)
    """Attempts whose late results are on record."""

    @property
    def key(self) -> AttemptKey:
        return (self.job_id, self.attempt)

    def is_pending(self) -> bool:
        return self.state in PENDING

    def bucket(self) -> Bucket:
        """Where the job waits."""
        spec = self.spec
        requirement = RequirementClass(spec.combined_req, spec.slots, spec.hosts, self.avoid_host, spec.auto_gpu)
        return Bucket(spec.queue, spec.user, requirement)

    def view(self, usage: Usage | None = None) -> JobView:
        """A frozen copy for readers; pending reasons are added when asked for."""
        return JobView(
            job_id=self.job_id,
            spec=self.spec,
            state=self.state.value,
            submitted_at=self.submitted_at,
            attempt=self.attempt,
            allocation=self.allocation,
            effective_req=self.effective_req,
            dispatched_at=self.dispatched_at,
            started_at=self.started_at,
            pid=self.pid,
            exec_home=self.exec_home,
            exec_cwd=self.exec_cwd,
            finished_at=self.finished_at,
            result=self.result,
            usage=usage,
            messages=tuple(self.messages),
            notes=tuple(self.notes),
        )
