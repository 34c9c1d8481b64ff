"""Tells who sits at an interactive job's terminal that the job's GPUs are idle, and that they work again.

The job's events say so; it prints, and does nothing else.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import msgspec

from gsched.base.coded_text import sentence
from gsched.base.errors import GschedError
from gsched.cli.session.call import Cancelled
from gsched.cli.session.session import Session
from gsched.model.event import AnyEvent, JobIdleActed, JobIdleOver, JobIdleWarned, decode_event


def idle_notice(event: AnyEvent) -> str:
    """What the event says of idle GPUs, a line; empty for another one."""
    if isinstance(event, JobIdleWarned):
        return f"<<{sentence(event.warning.text)}>>\n"
    return f"<<{sentence(event.text)}>>\n" if isinstance(event, JobIdleActed | JobIdleOver) else ""


class IdleNotice:
    """For as long as an attempt is shown; `say` prints a line."""

    def __init__(self, session: Session, job_id: int, attempt: int, say: Callable[[str], object]) -> None:
        self._session = session
        self._job_id = job_id
        self._attempt = attempt
        self._say = say
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="gsched-idle-notice", daemon=True)

    def __enter__(self) -> IdleNotice:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True

    def _run(self) -> None:
        with contextlib.suppress(Cancelled, GschedError):  # nobody sits there any more, or the master stays away
            self._follow()

    def _follow(self) -> None:
        for record in self._session.follow(0, (self._job_id,)):
            if self._is_over:
                return
            if record.job_id != self._job_id:
                continue
            with contextlib.suppress(msgspec.MsgspecError):  # ghist tells about it
                event = decode_event(record.payload.encode())
                if getattr(event, "attempt", 0) == self._attempt and (text := idle_notice(event)):
                    self._say(f"\n{text}")
