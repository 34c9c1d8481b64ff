"""Who may log in to a host by ssh, and which job the session joins.

Pure: it knows what runs here and decides. Must never let in a user by default: what no rule names is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gsched.base.ids import array_of, show_job
from gsched.model.config import SshAccess
from gsched.model.ledgers.host_ledger import AttemptKey


class LoginAnswer(StrEnum):
    """What becomes of a login."""

    JOIN = "join"
    """The session becomes a part of the job."""
    NO_GPU = "no_gpu"
    """It is let in, and can open no GPU."""
    FREE = "free"
    """It is let in as it is."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class LoginJob:
    """A job of the user that has begun on this host and is not over. `started_at`: seconds since the epoch."""

    key: AttemptKey
    started_at: float
    is_suspended: bool = False

    @property
    def names(self) -> tuple[str, str]:
        """What it may be called by: an element of an array by the number of its array too."""
        return show_job(self.key[0]), str(array_of(self.key[0]))


@dataclass(frozen=True, slots=True)
class LoginVerdict:
    """The answer, the job to join, and the line that says why somebody is refused."""

    answer: LoginAnswer
    key: AttemptKey | None = None
    line: str = ""


def judge_login(
    user: str, host: str, jobs: Sequence[LoginJob], *, wanted: str = "", is_admin: bool = False, access: SshAccess
) -> LoginVerdict:
    """What becomes of a login of `user`, who has these jobs on `host`. `wanted`: the job that GSCHED_JOB names.

    The newest job is joined. A suspended one is not: the session would stand still with it.
    """
    if wanted:
        jobs = [job for job in jobs if wanted in job.names]
        if not jobs:
            return _refused(f"GSCHED_JOB={wanted[:40]!s} is no job of {user} that runs on {host}")
    elif is_admin:
        return LoginVerdict(LoginAnswer.FREE)
    awake = [job for job in jobs if not job.is_suspended]
    if awake:
        newest = max(awake, key=lambda job: (job.started_at, job.key))
        return LoginVerdict(LoginAnswer.JOIN, newest.key)
    if access is SshAccess.OPEN and not wanted:
        return LoginVerdict(LoginAnswer.FREE)
    if access is SshAccess.NO_GPU and not wanted:
        return LoginVerdict(LoginAnswer.NO_GPU)
    if jobs:
        number = jobs[0].names[0]
        return _refused(f"job {number} of {user} is suspended on {host}; a session can join it when it runs again")
    return _refused(f"{user} has no job running on {host}; ssh to it is possible while one does")


def _refused(line: str) -> LoginVerdict:
    return LoginVerdict(LoginAnswer.REFUSED, line=line)
