"""The parts of a job on its other hosts: what is there when no process of the job has been started.

A part is an attempt whose supervisor has no main process. It holds the GPUs' locks and the group, forks what is
started there later, and is told to end by a signal, for a disk may be full. No process stands in for the job: there is
nothing that a signal to the job, or the kernel short of memory, could take for the job itself.

Runs in the bare interpreter of the fork server too: standard library only. Never ends a part by itself.
"""

from __future__ import annotations

import signal

END = signal.SIGUSR2
"""A part's supervisor leaves when nothing runs there any more."""
CLOSE = signal.SIGRTMIN
"""It ends what runs there, and leaves. No signal that everybody gets when a machine goes down: what that takes along
has not ended.
"""
ENDINGS = frozenset({END, CLOSE})


def await_endings() -> None:
    """Have these signals wait for the calling process, which ignored them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    for signum in ENDINGS:
        signal.signal(signum, signal.SIG_DFL)
