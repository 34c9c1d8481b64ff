"""Notices that have been made and of which no agent has told yet what became of them. Changed only by events."""

from __future__ import annotations

from collections.abc import Iterable

from gsched.model.jobs.notice import Notice


class UnsentNotices:
    """All of them, the oldest first, and by host and user."""

    def __init__(self, notices: Iterable[Notice] = ()) -> None:
        self._all: dict[str, Notice] = {}
        self._hosts: dict[str, dict[str, Notice]] = {}
        self._users: dict[str, int] = {}
        for notice in notices:
            self.add(notice)

    def __len__(self) -> int:
        return len(self._all)

    def get(self, notice_id: str) -> Notice | None:
        """The notice of that id; None where it is over, or there never was one."""
        return self._all.get(notice_id)

    def all(self) -> tuple[Notice, ...]:
        """In the order in which they were made."""
        return tuple(self._all.values())

    def add(self, notice: Notice) -> None:
        """One was made."""
        if notice.notice_id in self._all:
            return
        self._all[notice.notice_id] = notice
        self._hosts.setdefault(notice.host, {})[notice.notice_id] = notice
        self._users[notice.user] = self._users.get(notice.user, 0) + 1

    def remove(self, notice_id: str) -> Notice | None:
        """Remove a notice that is over and return it; None where it was removed before."""
        notice = self._all.pop(notice_id, None)
        if notice is None:
            return None
        of_host = self._hosts[notice.host]
        del of_host[notice_id]
        if not of_host:
            del self._hosts[notice.host]
        self._users[notice.user] -= 1
        if not self._users[notice.user]:
            del self._users[notice.user]
        return notice

    def drop_job(self, job_id: int) -> None:
        """Nobody wants those of this job any more."""
        for notice_id in [notice.notice_id for notice in self._all.values() if notice.job_id == job_id]:
            self.remove(notice_id)

    def of_host(self, host: str) -> tuple[Notice, ...]:
        """Notices that the agent of the host is to send."""
        return tuple(self._hosts.get(host, {}).values())

    def count_of(self, user: str) -> int:
        """How many the user has."""
        return self._users.get(user, 0)

    def oldest(self) -> Notice | None:
        """The one that was made first."""
        return next(iter(self._all.values()), None)
