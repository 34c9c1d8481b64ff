"""GPUs into a job's hands and back: what is seen to before an attempt gets its GPUs, and before they are offered again.

Each hook sees to one thing (foreign processes on a GPU, its compute mode …). An attempt's end is told to the master
only when all hooks are through, so that no GPU is handed out before. Nothing here waits without an end.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from gsched.base.coded_text import AnyText
from gsched.base.errors import ResourceExhausted
from gsched.base.ids import attempt_name
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey

log = logging.getLogger(__name__)


class GpusUnfit(ResourceExhausted):
    """The GPUs of an attempt must not be used now, and the master has been told which: its job need not wait."""


class GpuHook(Protocol):
    """What is done about the GPUs of an attempt at both of its ends."""

    async def before(self, key: AttemptKey, part: HostAllocation, spec: JobSpec) -> None:
        """Make the GPUs ready. Raises GschedError when the attempt must not start: its job goes back to PEND."""
        ...

    async def after(self, key: AttemptKey, part: HostAllocation) -> None:
        """The attempt's processes are gone, or it has never had any. May be called twice, and after a restart of the
        agent without `before`; waits for a bounded time from when the master has said how to probe.
        """
        ...


Blame = Callable[[AttemptKey, HostAllocation], Awaitable[AnyText]]
"""What of its GPUs may have made an attempt fail; empty: nothing that is known."""


class PrologEpilog:
    """All hooks of a host, in the order in which they are called."""

    def __init__(
        self, hooks: Sequence[GpuHook] = (), blame: Blame | None = None, *, returning: Sequence[GpuHook] | None = None
    ) -> None:
        """`returning`: the same hooks in their order after an attempt, if that is not the other way round."""
        self._hooks = tuple(hooks)
        self._returning = tuple(reversed(hooks)) if returning is None else tuple(returning)
        self._blame = blame

    async def before(self, key: AttemptKey, part: HostAllocation, spec: JobSpec) -> None:
        """Raises GschedError when one hook refuses; `after` is still to be called then."""
        for hook in self._hooks if part.gpus else ():
            await hook.before(key, part, spec)

    async def blame(self, key: AttemptKey, part: HostAllocation) -> AnyText:
        """What of its GPUs may have made an attempt fail, whose processes are gone. Never raises."""
        if self._blame is None or not part.gpus:
            return ""
        try:
            return await self._blame(key, part)
        except Exception:
            log.exception("it is not known who else was on the GPUs of attempt %s", attempt_name(*key))
            return ""

    async def after(self, key: AttemptKey, part: HostAllocation) -> None:
        """Never raises: a hook that fails is logged, and the others go on."""
        for hook in self._returning if part.gpus else ():
            try:
                await hook.after(key, part)
            except Exception:
                log.exception("the GPUs of attempt %s are not seen to", attempt_name(*key))
