"""The signals of a supervisor: which it waits for, which it ignores, and which are left as they are.

It outlives whoever forked it and must not end by what is meant for others, so it ignores all that can be ignored. What
tells of a fault of its own is not ignored: it would go on in a state that nobody knows. Never sends a signal.

Runs in the fork server's bare interpreter: standard library only. The signals that end a part are in
host_parts; a job's come from the agent (run.attempts.attempt_ending).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps each call of, into enumerations and back
import os
import signal
from collections.abc import Callable

POKE = signal.SIGUSR1
"""Has a supervisor look whether its job is suspended, what its limits are, and which tasks it is to have."""
AWAITED = frozenset({signal.SIGCHLD, POKE})
"""Signals that a supervisor takes with sigwaitinfo(2). The agent pokes it after it has suspended or resumed the job,
given it other limits, or ordered a task."""
_KEPT = (*AWAITED, signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT)
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS)
IGNORED = frozenset(
    signum for signum in signal.valid_signals() if signum < signal.SIGRTMIN and signum not in (*_KEPT, *_FAULTS)
)


def detach(become_subreaper: Callable[[], object]) -> None:
    """Cut what ties a fresh child to the fork server: its session, signals, and terminal or log."""
    os.setsid()
    become_subreaper()
    _signal.set_wakeup_fd(-1)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, AWAITED)
    for signum in AWAITED:
        _signal.signal(signum, _signal.SIG_DFL)
    for signum in IGNORED:
        _signal.signal(signum, _signal.SIG_IGN)
    os.dup2(0, 2)  # 0 is /dev/null; 2 is the agent's log, which may be a pipe
    os.umask(0o077)
