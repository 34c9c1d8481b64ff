"""The control group of a user's sender: it can open no GPU, and what it leaves running is ended with it.

A program that a notice is given to must not be a way to use GPUs outside of a job, nor to go on for ever. On a host
where groups cannot be made there are none, as for jobs.
"""

from __future__ import annotations

import hashlib

from gsched.agent.attempts.attempt_fences import AttemptFences
from gsched.base.coded_text import AnyText
from gsched.model.ledgers.allocation import HostAllocation
from gsched.run.fence.cgroup_root import CgroupRoot
from gsched.run.fence.group import make_fenced
from gsched.run.order import Fence


class NoticeGroups:
    """The control groups of senders of notices on one host. `cgroup_root` is where groups can be made, or the reason
    why they cannot.
    """

    def __init__(self, host: str, cgroup_root: CgroupRoot | AnyText, fencing: AttemptFences) -> None:
        self._nothing = HostAllocation(host=host, slots=0)
        self._cgroup_root = cgroup_root if isinstance(cgroup_root, CgroupRoot) else None
        self._fencing = fencing
        self._users: set[str] = set()

    @property
    def names(self) -> list[str]:
        """Names of the groups in use."""
        return [_name(user) for user in self._users] if self._cgroup_root is not None else []

    def take_up(self, user: str) -> None:
        """An earlier agent may have made one."""
        self._users.add(user)

    async def make(self, user: str) -> Fence | None:
        """A group with nothing in it; None where there are none. Raises GschedError, OSError."""
        self._users.add(user)
        if self._cgroup_root is None:
            return None
        fence = await self._fencing.fence_of_gpus(_name(user), self._nothing)
        if fence is not None:
            make_fenced(self._cgroup_root.group(_name(user)), fence.minors, fence.denied)
        return fence

    def end(self, user: str) -> None:
        """Kill what is left in the group, and remove it."""
        if self._cgroup_root is not None:
            group = self._cgroup_root.group(_name(user))
            group.kill()
            group.remove()
        self._users.discard(user)


def _name(user: str) -> str:
    return f"notices-{hashlib.sha256(user.encode()).hexdigest()[:12]}"
