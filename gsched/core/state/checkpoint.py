"""A state as bytes and back. A checkpoint bounds what a restart replays; whatever can be derived is not in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from gsched.base.errors import Internal
from gsched.core.records.accepted_submissions import AcceptedSubmission
from gsched.core.records.array import JobArray
from gsched.core.records.entities import JobGroup, QueueState, StoredReservation
from gsched.core.records.job import JobProgress, JobRecord
from gsched.core.records.run_times import KnownTimes, RunTimes
from gsched.core.records.spec_interning import fingerprint
from gsched.core.records.unsent_notices import UnsentNotices
from gsched.core.records.usage_accounts import UsageAccounts
from gsched.model.gpus.gpu_closure import GpuClosure
from gsched.model.jobs.job import JobSpec, JobState
from gsched.model.jobs.notice import Notice

if TYPE_CHECKING:
    from gsched.core.state.cluster_state import ClusterState


class _StoredJob(msgspec.Struct, array_like=True):
    """A job. Specs and tokens, of which many have the same, are numbers in lists of their own."""

    job_id: int
    spec: int
    state: JobState
    submitted_at: float
    token: int
    place: int
    attempt: int
    course: JobProgress | None
    """None: nothing has happened to it."""


class _Rest(msgspec.Struct, kw_only=True):
    """What a checkpoint holds beside jobs and arrays."""

    tokens: list[str]
    next_job_id: int
    skipped_numbers: list[tuple[int, int]] = []
    generation: int = 1
    renewed_at: float | None = None
    attempts_before: dict[int, int] = {}
    closed_hosts: dict[str, tuple[str, str]]
    closed_gpus: tuple[GpuClosure, ...] = ()
    gpu_hosts: tuple[str, ...] = ()
    config_digest: str
    quarantined: dict[int, str]
    inputs_aside: tuple[str, ...] | None = None
    """None in checkpoints of before it was noted, and after one of them for as long as jobs of it are set aside."""
    queue_states: dict[str, QueueState] = {}
    groups: dict[str, JobGroup] | None = None
    """None in checkpoints of before there were any."""
    reservations: dict[str, StoredReservation] = {}
    accepted: list[AcceptedSubmission] = []
    accounts: msgspec.Raw = msgspec.Raw(b"null")
    run_times: list[KnownTimes] = []
    notices: tuple[Notice, ...] = ()
    needs_changed: tuple[int, ...] = ()


class _Stored(_Rest, kw_only=True):
    """What a checkpoint holds."""

    jobs: list[_StoredJob]
    specs: list[JobSpec]
    arrays: list[JobArray] = []


class _Specs:
    """Numbers for specs, the same for equal ones."""

    def __init__(self) -> None:
        self.different: list[JobSpec] = []
        self._by_object: dict[int, tuple[int, JobSpec]] = {}
        """By id, with the spec itself: it stays alive, so that no other gets its id."""
        self._by_content: dict[bytes, int] = {}

    def number(self, spec: JobSpec) -> int:
        """Place of the spec in `different`."""
        found = self._by_object.get(id(spec))
        if found is None:
            number = self._by_content.setdefault(fingerprint(spec), len(self.different))
            if number == len(self.different):
                self.different.append(spec)
            found = self._by_object[id(spec)] = (number, spec)
        return found[0]


PART_BYTES = 1 << 18
LAST = 300
"""Jobs and arrays that may have changed since they were written down when the checkpoint is closed."""


class Writing:
    """A checkpoint that is made bit by bit while the state goes on changing.

    Jobs and arrays are written down in steps; those that change afterwards, of which `note` is told, once more. `close`
    takes the rest at one go: what it returns is the state of that moment.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._specs = _Specs()
        self._tokens: dict[str, int] = {}
        self._written: dict[int, bytes] = {}
        self._open = deque([*state.jobs, *state.arrays])
        self._stale: set[int] = set()

    def note(self, numbers: Iterable[int]) -> None:
        """These jobs and arrays have changed."""
        self._stale.update(numbers)

    def step(self, most: int) -> bool:
        """Write down so many more; says whether it may be closed."""
        for _ in range(most):
            if self._open:
                self._write(self._open.popleft())
            elif len(self._stale) > LAST:
                self._write(self._stale.pop())
            else:
                return True
        return False

    def close(self) -> Iterator[bytes]:
        """The state as it is now, in parts that may be made later."""
        for number in (*self._open, *self._stale):
            self._write(number)
        state = self._state
        rest = _Rest(
            tokens=list(self._tokens),
            next_job_id=state.next_job_id,
            skipped_numbers=state.lost_store.numbers,
            generation=state.generation,
            renewed_at=state.lost_store.renewed_at if state.generation > 1 else None,
            attempts_before=state.lost_store.attempts,
            closed_hosts=state.closed_hosts,
            closed_gpus=tuple(state.closed_gpus.values()),
            gpu_hosts=tuple(sorted(state.gpu_hosts)),
            config_digest=state.config_digest,
            quarantined=state.quarantined,
            inputs_aside=None if state.inputs.aside is None else tuple(sorted(state.inputs.aside)),
            queue_states=state.queue_states,
            groups=state.groups,
            reservations=state.reservations,
            accepted=list(state.accepted.values()),
            accounts=msgspec.Raw(state.accounts.dump()),
            run_times=state.run_times.stored(),
            notices=state.notices.all(),
            needs_changed=tuple(sorted(state.waits.needs_changed)),
        )
        return _in_parts(self._pieces(list(state.jobs), list(state.arrays), msgspec.json.encode(rest)))

    def _write(self, number: int) -> None:
        state = self._state
        job, array = state.jobs.get(number), state.arrays.get(number)
        if job is not None:
            self._written[number] = msgspec.json.encode(self._stored(job))
        elif array is not None:
            self._written[number] = msgspec.json.encode(array)

    def _stored(self, job: JobRecord) -> _StoredJob:
        return _StoredJob(
            job.job_id,
            self._specs.number(job.spec),
            job.state,
            job.submitted_at,
            self._tokens.setdefault(job.token, len(self._tokens)),
            job.place,
            job.attempt,
            job.happened(),
        )

    def _pieces(self, jobs: list[int], arrays: list[int], rest: bytes) -> Iterator[bytes]:
        specs, written = list(self._specs.different), self._written
        for heading, items in (
            (b'{"jobs":[', (written[number] for number in jobs)),
            (b'],"arrays":[', (written[number] for number in arrays)),
            (b'],"specs":[', (msgspec.json.encode(spec) for spec in specs)),
        ):
            yield heading
            for place, item in enumerate(items):
                yield b"," + item if place else item
        yield b"]," + rest[1:]


def _in_parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces put together to some hundred kilobytes each."""
    part: list[bytes] = []
    size = 0
    for piece in pieces:
        part.append(piece)
        size += len(piece)
        if size >= PART_BYTES:
            yield b"".join(part)
            part, size = [], 0
    yield b"".join(part)


def dump(state: ClusterState) -> bytes:
    """The state as bytes that `load` reads back."""
    return b"".join(Writing(state).close())


def _job_of(stored: _StoredJob, specs: Sequence[JobSpec], tokens: Sequence[str]) -> JobRecord:
    job = JobRecord(
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
        state.accounts = UsageAccounts.load(bytes(stored.accounts))
        state.run_times = RunTimes(stored.run_times)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AssertionError, ValueError, IndexError) as error:
        raise Internal(f"the checkpoint cannot be read: {str(error) or 'a started job holds nothing'}") from None
    state.next_job_id = max(state.next_job_id, stored.next_job_id)
    state.lost_store.numbers = stored.skipped_numbers
    state.generation = stored.generation
    state.lost_store.renewed_at = float("-inf") if stored.renewed_at is None else stored.renewed_at
    state.lost_store.attempts = stored.attempts_before
    state.closed_hosts = stored.closed_hosts
    state.closed_gpus = {(each.host, each.uuid): each for each in stored.closed_gpus}
    state.gpu_hosts = frozenset(stored.gpu_hosts)
    state.config_digest = stored.config_digest
    state.quarantined = stored.quarantined
    is_known = stored.inputs_aside is not None or not stored.quarantined
    state.inputs.aside = set(stored.inputs_aside or ()) if is_known else None
    state.queue_states = stored.queue_states
    if stored.groups is not None:  # the group of a job that has ended may have been removed
        state.groups.clear()
        state.groups.update(stored.groups)
    state.reservations = stored.reservations
    state.notices = UnsentNotices(stored.notices)
    state.waits.needs_changed = set(stored.needs_changed)
    state.accepted = {each.event.first_id: each for each in stored.accepted}
    return state
