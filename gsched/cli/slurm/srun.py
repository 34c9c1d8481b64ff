"""`srun` outside of a job: submit one, and be the terminal of its tasks, as Slurm's command of that name does.

Within a job it never comes here: gsched.app.steps starts a step.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from types import FrameType

from gsched.base.errors import GschedError
from gsched.cli.session.call import Call, Cancelled
from gsched.cli.session.command_line import read_words
from gsched.cli.session.session import connected
from gsched.cli.slurm.allocation_wait import AllocationSession, reading_of, shown_name, submit
from gsched.cli.slurm.slurm_call import fails_as_slurm
from gsched.dialect.slurm.allocation import read_srun
from gsched.dialect.slurm.srun_table import SRUN
from gsched.dialect.slurm.step_options import MPI_TYPES
from gsched.model.event import JobStarted
from gsched.wire.messages.control_action import ControlAction

TABLE = SRUN
INTERRUPT_S = 1.0
"""A second Ctrl-C within that goes to the tasks."""


@fails_as_slurm
def main(call: Call) -> int:
    """Run `srun`."""
    words = read_words(call, TABLE)
    if words.value("mpi") == "list":
        call.write(MPI_TYPES)
        return 0
    with connected(call) as session:
        asked = read_srun(call.argv[1:], call.env, reading_of(call, lambda: session, shown_name(words.rest, "srun")))
        job = submit(call, session, asked)
        return TasksSession(call, session, job.job_id, asked, has_input=True).to_its_end()


class TasksSession(AllocationSession):
    """The terminal of one job's tasks. Ctrl-C is reported once before it counts; a third one ends the job."""

    _interrupted_at = -INTERRUPT_S
    _is_sent = False

    def started(self, event: JobStarted) -> int | None:
        """Show it; Ctrl-C is for its tasks from now on."""
        before = signal.getsignal(signal.SIGINT)
        is_ours = threading.current_thread() is threading.main_thread() and before is not signal.SIG_IGN
        if is_ours:
            signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            return super().started(event)
        finally:
            if is_ours:
                signal.signal(signal.SIGINT, before)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """In a thread: what was interrupted may hold what is needed here."""
        del number, frame
        now = time.monotonic()
        is_second = now - self._interrupted_at < INTERRUPT_S
        self._interrupted_at = now
        threading.Thread(target=self._interrupt, args=(is_second,), daemon=True).start()

    def _interrupt(self, is_second: bool) -> None:
        step = f"StepId={self.job_id}.0"
        if not (is_second or self.asked.words.has("quit-on-interrupt", "disable-status")):
            self.say(f"interrupt (one more within {INTERRUPT_S:.0f} sec to abort)")
            self.say(f"{step} tasks: running")
        elif self._is_sent:
            self.say("forcing job termination")
            self.call.cancel()
        else:
            self._is_sent = True
            self.say(f"sending Ctrl-C to {step}")
            with contextlib.suppress(GschedError, Cancelled):
                self.session.client.control(ControlAction(action="signal", signal=signal.SIGINT), (self.job_id,))
