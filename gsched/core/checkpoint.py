"""A state as bytes and back. A checkpoint bounds what a restart replays; whatever can be derived is not in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from gsched.base.errors import Internal
from gsched.core.accounting import Accounts
from gsched.core.array import JobArray
from gsched.core.entities import JobGroup, QueueState, StoredReservation
from gsched.core.job import Course, Job
from gsched.core.specs import fingerprint
from gsched.model.job import JobSpec, JobState

if TYPE_CHECKING:
    from gsched.core.cluster import ClusterState


class _StoredJob(msgspec.Struct, array_like=True):
    """A job. Specs and tokens, of which many have the same, are numbers in lists of their own."""

    job_id: int
    spec: int
    state: JobState
    submitted_at: float
    token: int
    place: int
    attempt: int
    course: Course | None
    """None: nothing has happened to it."""


class _Stored(msgspec.Struct, kw_only=True):
    """What a checkpoint holds."""

    jobs: list[_StoredJob]
    specs: list[JobSpec]
    tokens: list[str]
    arrays: list[JobArray] = []
    next_job_id: int
    skipped_numbers: list[tuple[int, int]] = []
    closed_hosts: dict[str, tuple[str, str]]
    config_digest: str
    quarantined: dict[int, str]
    queue_states: dict[str, QueueState] = {}
    groups: dict[str, JobGroup] | None = None
    """None in checkpoints of before there were any."""
    reservations: dict[str, StoredReservation] = {}
    accounts: msgspec.Raw = msgspec.Raw(b"null")


class _Specs:
    """Numbers for specs, the same for equal ones."""

    def __init__(self) -> None:
        self.different: list[JobSpec] = []
        self._by_object: dict[int, int] = {}
        self._by_content: dict[bytes, int] = {}

    def number(self, spec: JobSpec) -> int:
        """Place of the spec, which must stay alive, in `different`."""
        number = self._by_object.get(id(spec))
        if number is None:
            number = self._by_content.setdefault(fingerprint(spec), len(self.different))
            if number == len(self.different):
                self.different.append(spec)
            self._by_object[id(spec)] = number
        return number


def dump(state: ClusterState) -> bytes:
    """The state as bytes that `load` reads back."""
    specs = _Specs()
    tokens: dict[str, int] = {}
    jobs = [
        _StoredJob(
            job.job_id,
            specs.number(job.spec),
            job.state,
            job.submitted_at,
            tokens.setdefault(job.token, len(tokens)),
            job.place,
            job.attempt,
            job.happened(),
        )
        for job in state.jobs.values()
    ]
    return msgspec.json.encode(
        _Stored(
            jobs=jobs,
            specs=specs.different,
            tokens=list(tokens),
            arrays=list(state.arrays.values()),
            next_job_id=state.next_job_id,
            skipped_numbers=state.skipped_numbers,
            closed_hosts=state.closed_hosts,
            config_digest=state.config_digest,
            quarantined=state.quarantined,
            queue_states=state.queue_states,
            groups=state.groups,
            reservations=state.reservations,
            accounts=msgspec.Raw(state.accounts.dump()),
        )
    )


def _job_of(stored: _StoredJob, specs: Sequence[JobSpec], tokens: Sequence[str]) -> Job:
    job = Job(
        job_id=stored.job_id,
        spec=specs[stored.spec],
        state=stored.state,
        submitted_at=stored.submitted_at,
        token=tokens[stored.token],
        place=stored.place,
        attempt=stored.attempt,
    )
    if stored.course is not None:
        job.course = stored.course
    return job


def load(payload: bytes, state: ClusterState) -> ClusterState:
    """Fill the empty `state` from a checkpoint. Raises Internal with one line if it cannot be read."""
    try:
        stored = msgspec.json.decode(payload, type=_Stored)
        for array in stored.arrays:
            state.add_array(array)
        specs = [state.specs.shared(spec) for spec in stored.specs]
        for each in stored.jobs:
            state.add(_job_of(each, specs, stored.tokens))
        state.accounts = Accounts.load(bytes(stored.accounts))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AssertionError, ValueError, IndexError) as error:
        raise Internal(f"the checkpoint cannot be read: {str(error) or 'a started job holds nothing'}") from None
    state.next_job_id = max(state.next_job_id, stored.next_job_id)
    state.skipped_numbers = stored.skipped_numbers
    state.closed_hosts = stored.closed_hosts
    state.config_digest = stored.config_digest
    state.quarantined = stored.quarantined
    state.queue_states = stored.queue_states
    if stored.groups is not None:  # the group of a job that has ended may have been removed
        state.groups.clear()
        state.groups.update(stored.groups)
    state.reservations = stored.reservations
    return state
