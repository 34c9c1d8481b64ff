"""What gsub learns from the caller's side to read a submission: its directory and zone, files, programs, esubs.

For the lines of one file (`gsub -pack`) each is asked for once: they are read as of one moment, and a file that ten
thousand of them name crosses from the caller to the door once. It must never keep anything beyond its call.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
from collections.abc import Callable, Mapping, Sequence

from gsched.cli.options.submission_context import value_context
from gsched.cli.session.call import Call
from gsched.cli.session.master_links import serves_others
from gsched.cli.submit.esub import esubs_of
from gsched.dialect.environment import environment_block
from gsched.dialect.esub import Changes, Esub

MOST_BYTES = 64 << 20
"""Of files kept at most; what is longer is read anew for each line."""


class CallerSide:
    """The caller's side of one submission."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.around = value_context(call)
        self.esub = esubs_of(call)

    def read_file(self, path: str) -> bytes:
        """As Call.read_file."""
        return self._call.read_file(path)

    def is_program(self, word: str) -> bool:
        """Whether the shell on the execution host would run it: an executable file, or one of the caller's PATH."""
        call = self._call
        if serves_others():
            call.take_over()  # only the caller can say what the caller may run
        if "/" not in word and shutil.which(word, path=call.env.get("PATH", os.defpath)):
            return True
        return os.access(os.path.join(call.cwd, word), os.X_OK)

    def block(self, environment: Mapping[str, str]) -> bytes:
        """The variables of a job as they travel."""
        return environment_block(environment)


class RememberedCallerSide(CallerSide):
    """The caller's side of many submissions of one call, as of its first question."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.around = dataclasses.replace(self.around, notify_file=functools.cache(self.around.notify_file))
        self._files: dict[str, bytes | OSError] = {}
        self._room = MOST_BYTES
        self._programs: dict[str, bool] = {}
        self.has_run_esubs = False
        """Some esub has been run: what it makes of a line may be another thing each time."""
        self.esub = self._noting(self.esub)
        self._environment: Mapping[str, str] | None = None
        self._block = b""

    def _noting(self, esub: Esub) -> Esub:
        def run(names: Sequence[str], parameters: Callable[[], Mapping[str, str]]) -> Changes:
            def noted() -> Mapping[str, str]:
                self.has_run_esubs = True  # only esubs that there are ask for them
                return parameters()

            return esub(names, noted)

        return run

    def read_file(self, path: str) -> bytes:
        found = self._files.get(path)
        if found is None:
            found = self._asked(path)
        if isinstance(found, OSError):
            raise OSError(found.errno, found.strerror, path)
        return found

    def _asked(self, path: str) -> bytes | OSError:
        found: bytes | OSError
        try:
            found = super().read_file(path)
        except BrokenPipeError:  # the caller is gone
            raise
        except OSError as error:
            found = error.with_traceback(None)
        size = len(path) + (len(found) if isinstance(found, bytes) else 0)
        if size <= self._room:
            self._room -= size
            self._files[path] = found
        return found

    def is_program(self, word: str) -> bool:
        found = self._programs.get(word)
        if found is None:
            found = self._programs[word] = super().is_program(word)
        return found

    def block(self, environment: Mapping[str, str]) -> bytes:
        # Of most lines it is the caller's environment, copied: one block stands for them all.
        if environment != self._environment:
            self._environment, self._block = environment, super().block(environment)
        return self._block
