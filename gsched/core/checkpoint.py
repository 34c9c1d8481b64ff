"""A state as bytes and back. A checkpoint bounds what a restart replays; whatever can be derived is not in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gsched.base.errors import Internal
from gsched.core.accounting import Accounts
from gsched.core.array import JobArray
from gsched.core.entities import JobGroup, QueueState, StoredReservation
from gsched.core.job import Job

if TYPE_CHECKING:
    from gsched.core.cluster import ClusterState


class _Stored(msgspec.Struct, kw_only=True):
    """What a checkpoint holds."""

    jobs: list[Job]
    arrays: list[JobArray] = []
    next_job_id: int
    closed_hosts: dict[str, tuple[str, str]]
    config_digest: str
    quarantined: dict[int, str]
    queue_states: dict[str, QueueState] = {}
    groups: dict[str, JobGroup] = {}
    reservations: dict[str, StoredReservation] = {}
    accounts: msgspec.Raw = msgspec.Raw(b"null")


def dump(state: ClusterState) -> bytes:
    """The state as bytes that `load` reads back."""
    return msgspec.json.encode(
        _Stored(
            jobs=list(state.jobs.values()),
            arrays=list(state.arrays.values()),
            next_job_id=state.next_job_id,
            closed_hosts=state.closed_hosts,
            config_digest=state.config_digest,
            quarantined=state.quarantined,
            queue_states=state.queue_states,
            groups=state.groups,
            reservations=state.reservations,
            accounts=msgspec.Raw(state.accounts.dump()),
        )
    )


def load(payload: bytes, state: ClusterState) -> ClusterState:
    """Fill the empty `state` from a checkpoint. Raises Internal with one line if it cannot be read."""
    try:
        stored = msgspec.json.decode(payload, type=_Stored)
        for array in stored.arrays:
            state.add_array(array)
        for job in stored.jobs:
            job.spec = state.specs.shared(job.spec)
            state.add(job)
        state.accounts = Accounts.load(bytes(stored.accounts))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AssertionError, ValueError) as error:
        raise Internal(f"the checkpoint cannot be read: {str(error) or 'a started job holds nothing'}") from None
    state.next_job_id = max(state.next_job_id, stored.next_job_id)
    state.closed_hosts = stored.closed_hosts
    state.config_digest = stored.config_digest
    state.quarantined = stored.quarantined
    state.queue_states = stored.queue_states
    state.groups.update(stored.groups)
    state.reservations = stored.reservations
    return state
