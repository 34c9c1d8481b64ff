"""What is to be done to jobs, as commands ask it of the master. It says what, never to which jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsched.wire.v1 import scheduler_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlAction:
    """What it is, `kill`, `signal`, `stop`, `resume`, `requeue`, `top`, `bottom`, `exchange`, `run`, `post`,
    `release` or `request`, and what it needs to know.
    """

    action: str
    signal: int = 0
    position: int = 1
    """Of top and bottom, from 1; of request: how many slots more, 0 for none."""
    among_own: bool = False
    """Of top and bottom: the place is counted among the jobs of the job's user, also for administrators."""
    hosts: Sequence[str] = ()
    """Where to run; of release: which slots to give back."""
    cancels: bool = False
    """Of release: no more slots are asked for, either."""
    hold: bool = False
    """Of requeue: the jobs wait as PSUSP."""
    states: Sequence[str] = ()
    """Of requeue: the states of those that are meant."""
    text: str = ""
    """The message (post), or why jobs are ended, suspended or resumed (kill, stop, resume)."""
    box: int = 0
    """Where the message goes."""
    attachment: bytes | None = None
    """What goes with the message."""
    as_done: bool = False
    """A job that is killed counts as DONE."""
    hangup: bool = False
    """It gets SIGHUP and soon afterwards SIGKILL."""
    kill_delay_s: int | None = None
    """Of kill: seconds from the signals that ask to SIGKILL; None: as usual."""
    target: str = ""
    """Of signal, for jobs of Slurm's commands: whom it is for, `main` or `steps`; empty: all processes."""
    step: int | None = None
    """Of signal: this step alone; signal 0 ends it."""

    def request(self, job_ids: Sequence[int]) -> Any:
        """The message that asks it for these jobs."""
        return scheduler_pb2.ControlRequest(
            action=self.action,
            job_ids=job_ids,
            signal=self.signal,
            position=self.position,
            among_own=self.among_own,
            hosts=self.hosts,
            cancels=self.cancels,
            hold=self.hold,
            states=self.states,
            text=self.text,
            box=self.box,
            attachment=self.attachment,
            as_done=self.as_done,
            hangup=self.hangup,
            kill_delay_s=self.kill_delay_s,
            target=self.target,
            step=self.step,
        )
