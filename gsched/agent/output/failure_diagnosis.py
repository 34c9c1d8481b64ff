"""Why an attempt failed: what its output, its GPUs and its host tell, looked at when it is over.

Reads no more than the ends of the job's own streams, with the rights of the job's user and beside the event loop; what
cannot be read in time tells nothing. Never holds the end of a job up for longer than that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gsched.agent.blocking_pool import BlockingPool
from gsched.agent.output.failure_lines import MOST_BYTES, failure_in
from gsched.base.ids import attempt_name
from gsched.model.jobs.failure import judge
from gsched.model.jobs.job import AttemptFailure, AttemptResult
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.attempt_files import STDERR, STDOUT
from gsched.run.executor import ProcessExecutor

log = logging.getLogger(__name__)

PATIENCE_S = 10.0

ErrorsOf = Callable[[str], Sequence[int]]
"""XIDs of the GPUs of an attempt (`17.1`) while it held them."""


def no_errors(name: str) -> Sequence[int]:
    """An `ErrorsOf` of an agent without GPUs: there are none."""
    return ()


class FailureDiagnosis:
    """Finds out why attempts of one host have failed."""

    def __init__(self, executor: ProcessExecutor, blocking: BlockingPool, xids: ErrorsOf) -> None:
        self._executor = executor
        self._blocking = blocking
        self._xids = xids

    @staticmethod
    def is_wanted(result: AttemptResult) -> bool:
        """Whether more is to be found out than its result tells: it failed, and nobody ended it."""
        is_known = result.exit_code is not None or result.signal is not None
        return is_known and result.started and not (result.succeeded or result.term_reason or result.pre_failed)

    async def of(self, key: AttemptKey, result: AttemptResult) -> AttemptResult:
        """The result with what was found out. Never raises."""
        name = attempt_name(*key)
        said: AttemptFailure | None = None
        try:
            said = await self._blocking.run(self._executor.user_of(*key), lambda: self._read(key), PATIENCE_S)
        except TimeoutError:
            log.warning("the output of %s is not looked at: its file system does not answer", name)
        except Exception:
            log.exception("the output of %s cannot be looked at", name)
        return judge(result, said, xids=tuple(self._xids(name)))

    def _read(self, key: AttemptKey) -> AttemptFailure | None:
        return failure_in(*(self._executor.read_tail(*key, stream, MOST_BYTES) for stream in (STDOUT, STDERR)))
