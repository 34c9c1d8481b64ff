"""Where what the tasks of a step print goes: to srun's own streams, with labels or not, or into files.

Source: srun(1) of Slurm 22.05, "IO Redirection" and "--label".
"""

from __future__ import annotations

import os
import posix
import re
from collections.abc import Callable, Mapping

from gsched.app.launch_streams import OutputFault, write
from gsched.base.errors import BadRequest
from gsched.dialect.slurm.step_options import StepAsk
from gsched.model.jobs.job_step import StepGranted

MOST_LINE = 64 * 1024
"""Bytes of a line that are kept back until it is whole."""
_LETTERS = "jJstnNuxAab%"


class StepOutput:
    """Of one step."""

    def __init__(self, ask: StepAsk, environment: Mapping[str, str]) -> None:
        """Raises BadRequest for a pattern that is not understood."""
        self._ask = ask
        self._environment = environment
        self._granted: StepGranted | None = None
        self._files: dict[str, int] = {}
        self._lines: dict[tuple[int, int], bytearray] = {}
        for option, text in (("--output", ask.output), ("--error", ask.error)):
            wrong = re.search(f"%(?![0-9]*[{_LETTERS}])[0-9]*.?", text)
            if wrong is not None and "\\" not in text:
                known = " ".join(f"%{letter}" for letter in _LETTERS if letter != "%")
                raise BadRequest(f"{option}: {wrong[0]} is not supported: {known} are filled in")

    def begin(self, granted: StepGranted) -> None:
        """The step is there. Raises OSError where a file cannot be opened."""
        if self._granted is not None:
            return
        self._granted = granted
        for number in range(len(granted.places)):
            for stream in (1, 2):
                self._target(number, stream)

    def show(self, number: int, stream: int, data: bytes) -> None:
        """Task `number` has printed this. Raises OutputFault."""
        target = self._target(number, stream)
        if target is None:
            return
        if not self._ask.labels or self._ask.request.pty:
            _put(target, data)
            return
        kept = self._lines.setdefault((number, stream), bytearray())
        kept += data
        end = kept.rfind(b"\n") + 1
        if self._ask.is_unbuffered or (not end and len(kept) >= MOST_LINE):
            end = len(kept)
        if end:
            lines = bytes(kept[:end])
            del kept[:end]
            _put(target, self._labelled(number, lines))

    def end(self, number: int) -> None:
        """It prints nothing any more. Raises OutputFault."""
        for stream in (1, 2):
            rest = self._lines.pop((number, stream), None)
            target = self._target(number, stream)
            if rest and target is not None:
                _put(target, self._labelled(number, bytes(rest)))

    def _labelled(self, number: int, lines: bytes) -> bytes:
        count = len(self._granted.places) if self._granted is not None else 1
        label = b"%*d: " % (len(str(count - 1)), number)
        return b"".join(label + line for line in lines.splitlines(keepends=True))

    def _target(self, number: int, stream: int) -> int | None:
        """The descriptor that it goes to; None: nowhere."""
        text = self._ask.error or self._ask.output if stream == 2 else self._ask.output
        if text in ("", "all"):
            return stream
        if text == "none":
            return None
        if text.isascii() and text.isdigit():
            return stream if int(text) == number else None
        path = os.path.join(self._ask.cwd, self._filled(text, number))
        if path not in self._files:
            mode = os.O_TRUNC if self._ask.truncates else 0
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | mode
            self._files[path] = posix.open(path, flags, 0o666)
        return self._files[path]

    def _filled(self, text: str, number: int) -> str:
        assert self._granted is not None
        if "\\" in text:  # nothing is filled in
            return text.replace("\\", "")
        place, env = self._granted.places[number], self._environment
        job = env.get("SLURM_ARRAY_JOB_ID") or env.get("SLURM_JOB_ID", "")
        known: dict[str, Callable[[], str]] = {
            "j": lambda: env.get("SLURM_JOB_ID", ""),
            "J": lambda: f"{env.get('SLURM_JOB_ID', '')}.{self._granted.number if self._granted else 0}",
            "s": lambda: str(self._granted.number if self._granted else 0),
            "t": lambda: str(number),
            "n": lambda: str(place.node),
            "N": lambda: place.host.partition(".")[0],
            "u": lambda: env.get("SLURM_JOB_USER") or env.get("USER", ""),
            "x": lambda: env.get("SLURM_JOB_NAME", ""),
            "A": lambda: job,
            "a": lambda: env.get("SLURM_ARRAY_TASK_ID", "0"),
            "b": lambda: env.get("SLURM_ARRAY_TASK_ID", "0")[-1:],
            "%": lambda: "%",
        }

        def fill(found: re.Match[str]) -> str:
            value = known[found[2]]()
            return value.zfill(min(int(found[1]), 10)) if found[1] and value.isdigit() else value

        return re.sub(f"%([0-9]*)([{_LETTERS}])", fill, text)


def _put(target: int, data: bytes) -> None:
    try:
        write(target, data)
    except OSError as problem:
        raise OutputFault(problem) from None
