"""Under whose account what runs: the job and its steps, and with which limits they begin.

A supervisor stays what the agent is. Its job's user, if that is another one, is named by the order; the site may have
its own commands run by a third. Runs in the fork server's bare interpreter: standard library only. Nothing is executed
here, and nothing goes on that could not be made the user that it should be. Once rights are taken no module can be
imported: the interpreter's folders may be closed to the user.
"""

from __future__ import annotations

import os
import resource

from gsched.run.account import UnixAccount, become

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gsched.run.order import JobStep, Order

    Limits = Iterable[tuple[int, int, int]]

_SITE_UMASK = 0o022
_TOLD = ("LS_JOBPID", "LSB_JOBRES_PID", "LSB_JOBEXIT_STAT", "LSB_JOBPEND")
"""What only a supervisor knows; never what was submitted, for it sets these itself."""


class JobRights:
    """As whom the processes of one order run."""

    __slots__ = ("_granted", "_site", "_site_environment", "user")

    def __init__(self, order: Order) -> None:
        self.user = order.account
        """The job's user where that is not the supervisor's."""
        self._site = order.site_account
        self._site_environment = order.site_environment
        self._granted = order.granted

    def take(self) -> None:
        """This process is the job's from now on. Raises OSError: then nothing must be executed."""
        grant(self._granted)
        if self.user is not None:
            become(self.user)

    def for_step(self, step: JobStep, umask: int) -> tuple[UnixAccount | None, tuple[tuple[int, int, int], ...], int]:
        """Whom the step runs as, with which limits it begins, and its umask; `umask` is the job's."""
        if step.is_site and self._site is not None:
            return self._site, (), _SITE_UMASK
        return self.user, self._granted, umask

    def take_for(self, step: JobStep, umask: int) -> None:
        """This process is to execute the step. Raises OSError, as `take`."""
        account, granted, mask = self.for_step(step, umask)
        grant(granted)
        if account is not None:
            become(account)
        os.umask(mask)

    def environment_of(self, step: JobStep, environment: dict[str, str]) -> dict[str, str]:
        """What the step is to see.

        What the site has run by another user sees nothing that the job's user has put into the environment: a name
        there can make a program load what the user wants.
        """
        if not step.is_site or self._site is None:
            return environment
        told = {name: environment[name] for name in _TOLD if name in environment}
        return {**self._site_environment, **told}


def grant(limits: Limits) -> None:
    """Set (kind, soft, hard) limits of this process; a hard one that it may not raise stays as it is."""
    for kind, soft, hard in limits:
        try:
            resource.setrlimit(kind, (soft, hard))
        except ValueError:  # how Python tells that only a more privileged process may
            _, most = resource.getrlimit(kind)
            resource.setrlimit(kind, (_lower(soft, most), most))


def _lower(first: int, second: int) -> int:
    infinite = resource.RLIM_INFINITY
    if infinite in (first, second):
        return second if first == infinite else first
    return min(first, second)
