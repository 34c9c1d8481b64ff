"""Limits that configuration sets on slots: per queue, per user of a queue, per host and user, per queue and host."""

from __future__ import annotations

from gsched.model.snapshot import Bucket, HostSnapshot, Snapshot
from gsched.policy.explain import Reason


class SlotUse:
    """Slots in use in this cycle: what the snapshot counts plus what the cycle has placed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._queues = snapshot.queues
        self._queue = dict(snapshot.queue_slots)
        self._owner = dict(snapshot.queue_user_slots)
        self._queue_host: dict[tuple[str, str], int] = {}
        self._user_host: dict[tuple[str, str], int] = {}

    def queue_reason(self, bucket: Bucket) -> tuple[Reason | None, bool]:
        """Why the bucket's next job may not start whatever the host; and whether that holds for every user."""
        queue = self._queues.get(bucket.queue)
        if queue is None:
            return Reason(f"The queue {bucket.queue} no longer exists"), True
        slots = bucket.requirement.slots
        used = self._queue.get(bucket.queue, 0)
        if queue.job_limit is not None and used + slots > queue.job_limit:
            return Reason("The queue has reached its job slot limit", f"{used} of {queue.job_limit} used"), True
        mine = self._owner.get((bucket.queue, bucket.user), 0)
        if queue.user_limit is not None and mine + slots > queue.user_limit:
            text = "User has reached the per-user job slot limit of the queue"
            return Reason(text, f"{mine} of {queue.user_limit} used by {bucket.user}"), False
        return None, False

    def host_reason(self, bucket: Bucket, host: HostSnapshot) -> Reason | None:
        """Why the bucket's next job may not start on this host for a limit's sake."""
        slots = bucket.requirement.slots
        queue = self._queues[bucket.queue]
        used = host.queue_slots.get(bucket.queue, 0) + self._queue_host.get((bucket.queue, host.name), 0)
        if queue.host_limit is not None and used + slots > queue.host_limit:
            return Reason(
                "Queue's per-host job slot limit reached", f"{used} of {queue.host_limit} used on {host.name}"
            )
        mine = host.user_slots.get(bucket.user, 0) + self._user_host.get((bucket.user, host.name), 0)
        if host.user_limit is not None and mine + slots > host.user_limit:
            return Reason("Host's per-user job slot limit reached", f"{mine} of {host.user_limit} used on {host.name}")
        return None

    def count(self, bucket: Bucket, host: str) -> None:
        """A job of the bucket was placed on the host."""
        slots = bucket.requirement.slots
        owner = (bucket.queue, bucket.user)
        self._queue[bucket.queue] = self._queue.get(bucket.queue, 0) + slots
        self._owner[owner] = self._owner.get(owner, 0) + slots
        for table, key in ((self._queue_host, (bucket.queue, host)), (self._user_host, (bucket.user, host))):
            table[key] = table.get(key, 0) + slots
