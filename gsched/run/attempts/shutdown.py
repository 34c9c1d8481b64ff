"""A machine that is going down: what its jobs' ends from then on are worth.

When systemd stops a machine it ends the agent first and every other process a moment later, jobs and all. A supervisor
then writes down how its job ended, truthfully, but it was the machine's end and not the job's. So the agent leaves a
note when it is ended like that; the next one, after the boot, knows what to think. Nothing here ends anything.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import msgspec

from gsched.base.coded_text import coded
from gsched.base.machine.atomic_write import replace_file
from gsched.model.jobs.job import AttemptResult

PROBLEM = coded("attempt.host_shut_down")
_FILE = "going-down"
_ASK_S = 3.0


class Shutdown(msgspec.Struct, frozen=True, kw_only=True):
    """The note: this boot was ended at that time (UTC seconds)."""

    boot_id: str
    at: float

    def ended(self, result: AttemptResult, boot_id: str) -> bool:
        """Whether it was this that ended an attempt of that boot: nobody asked for it, and it did not succeed."""
        asked_for = bool(result.term_reason) or not result.started
        is_after = boot_id == self.boot_id and result.ended_at >= self.at
        return is_after and not asked_for and result.exit_code != 0


def is_going_down() -> bool:
    """Whether systemd is stopping this machine; False where there is no systemd."""
    if not os.path.isdir("/run/systemd/system"):
        return False
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        words = ["systemctl", "is-system-running"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_ASK_S)
        return done.stdout.strip() == b"stopping"
    return False


def leave_note(spool: Path, boot_id: str, now: float) -> None:
    """For the agent after the boot. Raises OSError."""
    replace_file(str(spool / _FILE), msgspec.json.encode(Shutdown(boot_id=boot_id, at=now)), durable=True)


def last_shutdown(spool: Path) -> Shutdown | None:
    """What the last agent that was ended by a shutdown has left; None: nothing, or nothing that can be read."""
    try:
        return msgspec.json.decode((spool / _FILE).read_bytes(), type=Shutdown)
    except (OSError, msgspec.MsgspecError):
        return None
