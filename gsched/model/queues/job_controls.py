"""JOB_CONTROLS of queues, SUSPEND_CONTROL and its kin of application profiles: what is done to a job in place of
stopping it, letting it go on, and ending it.

A value: nothing is read or done here. It is part of an order, which the fork server reads, so it imports next to
nothing. Source: lsb.queues(5), JOB_CONTROLS; lsb.applications(5), SUSPEND_CONTROL.
"""

from __future__ import annotations

import signal

import msgspec

ACTIONS = ("SUSPEND", "RESUME", "TERMINATE")


class JobControls(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Each is the name of a signal (`SIGTSTP`), or a line for /bin/sh; empty: as usual."""

    suspend: str = ""
    resume: str = ""
    terminate: str = ""
    defaults_on_failure: bool = False
    """JOB_CONTROLS_FAIL_DEFAULT_ACTION: where a command fails it is done as usual."""

    @property
    def text(self) -> str:
        """As JOB_CONTROLS writes it; empty when all is as usual."""
        given = zip(ACTIONS, (self.suspend, self.resume, self.terminate), strict=True)
        return " ".join(f"{name}[{action}]" for name, action in given if action)

    def before(self, other: JobControls) -> JobControls:
        """These, and where they say nothing those of `other`."""
        return JobControls(
            suspend=self.suspend or other.suspend,
            resume=self.resume or other.resume,
            terminate=self.terminate or other.terminate,
            defaults_on_failure=self.defaults_on_failure or other.defaults_on_failure,
        )

    @property
    def of_part(self) -> JobControls:
        """What counts on a host that is not the job's first: signals. Commands run once. Who is stopped as usual goes
        on as usual, for no other signal ends SIGSTOP.
        """
        kept = (action if signal_of(action) else "" for action in (self.suspend, self.resume, self.terminate))
        suspend, resume, terminate = kept
        resume = resume if suspend else ""
        return JobControls(suspend=suspend, resume=resume, terminate=terminate)


def signal_of(action: str) -> int:
    """Number of the signal that the action sends; 0: it is a command, or empty."""
    name = action if action.startswith("SIG") else f"SIG{action}"
    return int(signal.Signals[name]) if name in signal.Signals.__members__ else 0
