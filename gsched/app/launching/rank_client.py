"""The tasks of one launch under a profile: when one fails the others are ended, as far as the profile needs them."""

from __future__ import annotations

import os
import signal

from gsched.app.glaunch import FAILURE, LaunchArguments, exit_code
from gsched.app.launch_streams import say
from gsched.app.steps.task_group import TaskGroupClient
from gsched.dialect.launching.launch_plan import LaunchPlan, rank_words, task_script
from gsched.wire.messages.launch_protocol import NO_SHELL

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class RankClient(TaskGroupClient):
    """One attempt of a launch."""

    def __init__(self, name: str, plan: LaunchPlan) -> None:
        """Raises LaunchRefused."""
        arguments = LaunchArguments()
        arguments.shell = NO_SHELL.encode()
        arguments.reads = len(plan.tasks) == 1
        arguments.hosts = [os.fsencode(host) for host in plan.task_hosts]
        words = ["/bin/sh", "-c", task_script(plan), "sh", *rank_words(plan)]
        arguments.words = [os.fsencode(word) for word in words]
        super().__init__(name, arguments)
        self._plan = plan
        self._failed = 0
        self.is_told_to_end = False
        """A signal has come that asks it to end: nothing is started again."""

    def on_signal(self, number: int, frame: object) -> None:
        """For the tasks."""
        self.is_told_to_end = self.is_told_to_end or number in _ENDING
        super().on_signal(number, frame)

    def _note_end(self, number: int, text: bytes) -> None:
        status, _, problem = text.decode("utf8", "replace").partition(" ")
        code = FAILURE if problem else exit_code(int(status))
        host = self._plan.task_hosts[number]
        if self._plan.profile.is_single:
            if number == 0:
                self.code = code
            if problem:
                say(f"{self.name}: {problem}")
            if not self._is_ending:  # the others wait for ever, or cannot do without this one
                self.code = code if number == 0 else self.code or code or FAILURE
                self._begin_to_end()
            return
        if not code:
            return
        self._failed += 1
        if not self._is_ending and not self.is_told_to_end:
            say(f"{self.name}: {problem or f'{self._what(number)} on {host} {_how(int(status))}'}")
        self.code = self.code or code
        least = self._plan.asked.min_hosts
        if least and len(self._plan.tasks) - self._failed >= least:
            return
        if not self._is_ending and any(self._had or ()):
            self._begin_to_end()

    def _what(self, number: int) -> str:
        if self._plan.profile.words:
            return self._plan.profile.program
        return f"rank {self._plan.tasks[number].rank}"


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"was ended by signal {os.WTERMSIG(status)}"
    return f"exited with code {os.WEXITSTATUS(status)}"
