"""`salloc`: get a job's resources, run a command here that can use them, give them back, as Slurm's command does.

The command runs on this host, with SLURM_* variables; srun in it starts steps on the job's hosts. Its job waits there
until its exit code is typed, so the job ends with the command, and with salloc however that ends.

Source: salloc(1) of Slurm 22.05.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Mapping
from types import FrameType

from gsched.base.errors import BadRequest, GschedError
from gsched.cli.session.call import Call, Cancelled
from gsched.cli.session.command_line import complain, read_words
from gsched.cli.session.session import connected
from gsched.cli.slurm.allocation_wait import FAILURE, AllocationSession, reading_of, submit
from gsched.cli.slurm.slurm_call import fails_as_slurm
from gsched.cli.submit.time_left import TimeLeft
from gsched.dialect.slurm.allocation import read_salloc
from gsched.dialect.slurm.job_variables import SlurmFacts, slurm_variables
from gsched.dialect.slurm.srun_table import SALLOC
from gsched.model.event import JobStarted
from gsched.model.views.view import JobFilter
from gsched.wire.messages.control_action import ControlAction

TABLE = SALLOC
RELEASE_S = 30.0
"""How long the end of the job is waited for."""
_NOT_OF_COMMAND = ("GSCHED_AGENT_SOCKET", "SLURMD_NODENAME", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")


@fails_as_slurm
def main(call: Call) -> int:
    """Run `salloc`."""
    words = read_words(call, TABLE)
    _kill_signal(words.value("kill-command"))
    with connected(call) as session:
        asked = read_salloc(call.argv[1:], call.env, reading_of(call, lambda: session, "interactive"))
        job = submit(call, session, asked)
        kind = CommandSession if asked.parsed.spec.interactive else GrantedOnly
        return kind(call, session, job.job_id, asked, has_input=False).to_its_end()


class GrantedOnly(AllocationSession):
    """--no-shell: waits until the resources are there."""

    def be_there(self) -> None:
        """The job stays when this command has ended."""

    def started(self, event: JobStarted) -> int | None:
        """That is all."""
        del event
        self.say(f"Granted job allocation {self.job_id}")
        return 0


class CommandSession(AllocationSession):
    """Runs the command while the job holds the resources."""

    _child: subprocess.Popen[bytes] | None = None
    _attempt = 0
    _is_released = False

    def started(self, event: JobStarted) -> int | None:
        """They are there: run the command, then give them back."""
        self._attempt = event.attempt
        words = self.asked.words
        bell = "\a" if words.has("bell") and not words.has("no-bell") else ""
        self.say(f"{bell}Granted job allocation {self.job_id}")
        over = threading.Event()
        threading.Thread(target=self._watch, args=(over,), name="gsched-allocation", daemon=True).start()
        with TimeLeft(self.session.client, self.job_id, self.call.error):
            code = self._run_command()
        if not over.is_set():
            self.say(f"Relinquishing job allocation {self.job_id}")
        self._release(code, over)
        return code

    def _run_command(self) -> int:
        """Its exit code. Signals of the terminal are for the command alone."""
        command = list(self.asked.command) or [self.call.env.get("SHELL") or "/bin/sh"]
        ignored = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
        before = {number: signal.signal(number, _do_nothing) for number in ignored}
        try:
            self._child = subprocess.Popen(command, env=self._environment(), cwd=self._folder())
            code = self._child.wait()
        except OSError as error:
            complain(self.call, f"error: Unable to run {command[0]}: {error.strerror}")
            return FAILURE
        finally:
            for number, action in before.items():
                signal.signal(number, action)
        return 128 - code if code < 0 else code

    def _folder(self) -> str:
        return self.asked.parsed.spec.specified_cwd or self.call.cwd

    def _environment(self) -> Mapping[str, str]:
        """salloc's own, with what a job is told."""
        assert self.allocation is not None
        submitted = self.asked.parsed.environment
        views = list(self.session.client.jobs(JobFilter(ids=(self.job_id,), user="all", finished=True)))
        if not views:
            raise GschedError(f"job {self.job_id} is gone")
        facts = SlurmFacts(
            job_id=self.job_id,
            spec=views[0].spec,
            allocation=self.allocation,
            part=self.allocation.hosts[0],
            cluster="",
            user=self.call.user,
            uid=self.call.uid,
            restarts=0,
            now=views[0].started_at or 0.0,
            submitted=submitted,
        )
        told = {name: value for name, value in slurm_variables(facts).items() if name.startswith("SLURM")}
        found = {**submitted, **told}
        for name in (*_NOT_OF_COMMAND, "SLURM_GTIDS", "SLURM_CLUSTER_NAME", "SLURM_CPUS_ON_NODE"):
            found.pop(name, None)
        return found

    def _watch(self, over: threading.Event) -> None:
        """Notice when the job ends before the command does."""
        with contextlib.suppress(GschedError, Cancelled):
            end = self.session.end_of(self.job_id)
            over.set()
            if not self._is_released and self._child is not None:
                del end
                complain(self.call, f"Job allocation {self.job_id} has been revoked.")
                with contextlib.suppress(ProcessLookupError):
                    self._child.send_signal(_kill_signal(self.asked.words.value("kill-command")))

    def _release(self, code: int, over: threading.Event) -> None:
        """Give the resources back: the job ends with this exit code."""
        self._is_released = True
        if over.is_set():
            return
        try:
            self.session.client.terminal.type(self.job_id, self._attempt, 0, b"%d\n" % code, end=True, size=(0, 0))
        except GschedError:
            self.session.client.control(ControlAction(action="kill", text="its command has ended"), (self.job_id,))
        over.wait(RELEASE_S)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Not SIG_IGN, which the command would inherit."""
    del number, frame


def _kill_signal(text: str) -> int:
    """Raises BadRequest."""
    name = text.upper().removeprefix("SIG") or "HUP"
    try:
        return signal.Signals(int(name)) if name.isdigit() and len(name) < 4 else signal.Signals[f"SIG{name}"]
    except (KeyError, ValueError):
        raise BadRequest(f"--kill-command: Invalid signal '{text[:40]}'") from None
