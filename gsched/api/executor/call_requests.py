"""The jobs that make an executor's calls: which command, by which options. It submits nothing."""

from __future__ import annotations

import base64
import os
import shlex
import signal
import sys
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from gsched.api.executor import run_calls
from gsched.api.executor.call_folder import Batch, CallFolder
from gsched.api.request import JobRequest, SubmitOptions
from gsched.api.values import nearest, one_text, path, texts, whole
from gsched.base.errors import BadRequest
from gsched.dialect.spec_values import MOST_ASKED_RESTARTS
from gsched.model.jobs.job_signal import read_save_signal

_NOT_HERE = ("array", "script", "input")
"""Options that have no meaning for calls."""
_KNOWN = SubmitOptions.__annotations__
_HOST_FOLDER = "/tmp"
"""Where calls run whose hosts do not have this program's folder."""


class CallRequests:
    """`checkpoint`: the signal by which calls save themselves, and how long before the end. Raises BadRequest."""

    def __init__(
        self,
        name: str,
        options: SubmitOptions,
        *,
        shared: bool,
        python: str | os.PathLike[str] | None,
        checkpoint: str,
        max_restarts: int | None,
    ) -> None:
        for option in options:
            if option in _NOT_HERE or option not in _KNOWN:
                raise BadRequest(f"Executor has no option '{option}'{nearest(option, _KNOWN)}")
        self._name = name
        self._options = options
        self._is_shared = shared
        self._python = sys.executable if python is None else path("python", python)
        if not self._python.strip():
            raise BadRequest(f"python={self._python[:40]!r}: the path of an interpreter is wanted")
        asked = read_save_signal(one_text("checkpoint", checkpoint))
        if asked is None:
            raise BadRequest(
                f"checkpoint={checkpoint[:40]!r}: not of the form SIGNAL[@SECONDS] with a signal that can be caught"
            )
        self._signal, self._seconds = asked.name, asked.seconds
        self._restarts = None if max_restarts is None else whole("max_restarts", max_restarts)
        if self._restarts is not None and not 0 <= self._restarts <= MOST_ASKED_RESTARTS:
            raise BadRequest(f"max_restarts={self._restarts}: a whole number from 0 to {MOST_ASKED_RESTARTS} is wanted")

    def signal_of(self, function: Callable[..., Any]) -> int:
        """The number of the signal by which calls of the function save themselves; 0: they cannot. Raises BadRequest
        where `options` name another.
        """
        while isinstance(function, partial):
            function = function.func
        if not callable(getattr(function, "checkpoint", None)):
            return 0
        given = texts("options", self._options.get("options", ()))
        if any(word.partition("=")[0] in ("-signal", "--signal") for word in given):
            raise BadRequest("options: --signal: calls that have a checkpoint() are asked by the signal of checkpoint=")
        return signal.Signals[f"SIG{self._signal}"]

    def source(self) -> str:
        """The program that makes the calls, where it goes with them, as run_calls.START reads it."""
        return "" if self._is_shared else _packed_source()

    def of(self, function: Callable[..., Any], batch: Batch, folder: CallFolder) -> JobRequest:
        """The submission of a batch. Raises BadRequest."""
        place = [os.path.abspath(run_calls.__file__), folder.path]
        # The shell that a name with blanks takes would get the signal in place of the calls.
        shell = [] if shlex.quote(self._python) == self._python else ["exec"]
        calls = place if self._is_shared else ["-c", run_calls.START, "-"]
        command = [*shell, self._python, "-P", *calls, batch.name]
        words = texts("options", self._options.get("options", ()))
        if self.signal_of(function):
            words = [*self._saving(), *words]
        request: JobRequest = {"command": command, **self._options}
        if not self._is_shared:
            words = [*words, "-is", folder.path_of(batch)]
            request.setdefault("cwd", _HOST_FOLDER)
        request["options"] = words
        called = self._name or getattr(function, "__name__", type(function).__name__)
        request.setdefault("name", "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in called))
        if batch.elements:
            request["array"] = batch.elements
        return request

    def _saving(self) -> list[str]:
        """Words of gsub for calls that save themselves."""
        restarts = [] if self._restarts is None else ["--max-restarts", str(self._restarts)]
        return ["--signal", f"B:{self._signal}@{self._seconds}", "--restart-on", "preempt", *restarts]


@cache
def _packed_source() -> str:
    return base64.b64encode(zlib.compress(Path(run_calls.__file__).read_bytes(), 9)).decode()
