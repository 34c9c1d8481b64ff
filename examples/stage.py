"""What the walk-through stands on: a private cluster in a folder of its own, a screen, and a person who types commands.

Every command is run by a shell exactly as it is shown, and what is shown of its output is what it printed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

BIN = Path(sys.executable).parent
LOOK_S = 0.2
PATIENCE_S = 120.0
ENDING_S = 60.0
OTHER_CLUSTERS = ("LSF_", "LSB_", "GSCHED_ENVDIR", "GSCHED_DOOR", "GSCHED_COMMAND", "GSCHED_GPU", "GSCHED_HOST")
"""Beginnings of variables that would lead the commands elsewhere."""
LONGEST_FOLDER = 60
"""Bytes of the folder's path that leave room for the cluster's sockets in it."""


class NotSo(Exception):
    """The walk-through said something that is not true here."""


class Interrupted(BaseException):
    """A signal ends the walk-through; the argument is its number."""


class Interrupts:
    """Turns Ctrl-C, SIGTERM and SIGHUP into Interrupted, but not while a command runs: a cluster that is half up
    could not be stopped cleanly.
    """

    def __init__(self) -> None:
        self._is_held = False
        self._came = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, self._arrive)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """What comes inside is raised at the end."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        if self._came:
            raise Interrupted(self._came)

    def stop(self) -> None:
        """From now on no signal interrupts, also not a command that is started."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._came = 0

    def _arrive(self, number: int, frame: FrameType | None) -> None:
        self._came = number
        if not self._is_held:
            raise Interrupted(number)


class Screen:
    """Where the story is told: colours and a running clock on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self._has_colour = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def title(self, text: str) -> None:
        self._print(f"\n== {text}", "1;36")

    def say(self, text: str) -> None:
        self._print(text, "")

    def command(self, text: str) -> None:
        self._print(f"$ {text}", "1;32")

    def output(self, text: str) -> None:
        for line in text.splitlines():
            if line.strip():
                self._print(f"  {line.rstrip()}", "")

    def fault(self, text: str) -> None:
        self._print(text, "1;31")

    def tick(self, text: str, seconds: float) -> None:
        """Show how long something has taken so far, in place; nothing off a terminal."""
        if self.is_terminal:
            print(f"\r  ... {text}: {seconds:.0f} s ", end="", flush=True)

    def ticked(self, text: str, seconds: float) -> None:
        """The last word of `tick`: one plain line."""
        begin, end = ("\r", " ") if self.is_terminal else ("", "")  # the blank covers a longer number
        print(f"{begin}  ... {text}: {seconds:.1f} s{end}", flush=True)

    def _print(self, text: str, colour: str) -> None:
        print(f"\x1b[{colour}m{text}\x1b[0m" if self._has_colour and colour else text, flush=True)


class Stage:
    """The cluster's folder, the commands typed in it, and what has been checked so far."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.interrupts = Interrupts()
        self.checked = 0
        parent = tempfile.gettempdir()
        self.folder = Path(
            tempfile.mkdtemp(prefix="gsched-demo-", dir=None if len(parent) < LONGEST_FOLDER else "/tmp")
        )
        self.work = self.folder / "work"
        self.work.mkdir()
        kept = {name: text for name, text in os.environ.items() if not name.startswith(OTHER_CLUSTERS)}
        path = f"{BIN}:{os.environ.get('PATH', os.defpath)}"
        self.env = kept | {"GSCHED_ENVDIR": str(self.folder / "cluster" / "conf"), "PATH": path}

    # -- commands ---------------------------------------------------------------------------------------------------

    def quietly(self, command: str, extra: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run a command line without showing it; returns exit code and output."""
        with self.interrupts.held():
            try:
                done = subprocess.run(
                    ["bash", "-c", command],
                    cwd=self.work,
                    env={**self.env, **(extra or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=2 * PATIENCE_S,
                    check=False,
                    process_group=0,  # a terminal's Ctrl-C is for us alone
                )
            except subprocess.TimeoutExpired:
                raise NotSo(f"`{command}` ends within {2 * PATIENCE_S:g} s") from None
        return done.returncode, done.stdout

    def run(self, command: str, code: int = 0) -> str:
        """Show a command line and all that it prints; its exit code must be `code`."""
        self.screen.command(command)
        ended, output = self.quietly(command)
        self.screen.output(output)
        self.expect(ended == code, f"`{command}` ends with exit code {code} (it was {ended})")
        return output

    def ask(self, command: str) -> str:
        """The output of a command line that is not shown and must succeed."""
        ended, output = self.quietly(command)
        if ended:
            raise NotSo(f"`{command}` succeeds (exit code {ended}: {output.strip()})")
        return output.strip()

    # -- claims -----------------------------------------------------------------------------------------------------

    def expect(self, is_so: bool, claim: str) -> None:
        """Check what the story says. Raises NotSo."""
        if not is_so:
            raise NotSo(claim)
        self.checked += 1

    def until(self, is_so: Callable[[], bool], claim: str, *, at_least_s: float = 0.0) -> None:
        """Wait until it is so, but not longer than PATIENCE_S; says how long it took. Raises NotSo."""
        began = time.monotonic()
        while (waited := time.monotonic() - began) < at_least_s or not is_so():
            if waited > PATIENCE_S:
                raise NotSo(f"{claim} (not within {PATIENCE_S:g} s)")
            if waited > LOOK_S:
                self.screen.tick(claim, waited)
            time.sleep(LOOK_S)  # a person would look again and again, too
        self.checked += 1
        if waited > 2 * LOOK_S:
            self.screen.ticked(claim, waited)

    # -- the end ----------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Stop the cluster with its jobs and remove the folder. Raises NotSo if something stays."""
        self.interrupts.stop()
        if (Path(self.env["GSCHED_ENVDIR"]) / "lsf.conf").exists():
            code, output = self.quietly("gsched down --kill")
            if code:
                raise NotSo(f"the cluster in {self.folder} could be stopped: {output.strip()}")
        deadline = time.monotonic() + ENDING_S
        while (left := processes_of(self.folder)) and time.monotonic() < deadline:
            time.sleep(LOOK_S)  # what a daemon has started ends a moment after it; it is no child of ours
        shutil.rmtree(self.folder, ignore_errors=True)
        if left or self.folder.exists():
            raise NotSo(f"nothing is left behind ({self.folder}: {', '.join(left) or 'it cannot be removed'})")


def processes_of(folder: Path) -> list[str]:
    """Processes that name the folder in their command line or work in it, as `process NUMBER`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
            names = [*(entry / "cmdline").read_bytes().split(b"\0"), os.readlink(entry / "cwd").encode()]
            if any(os.fsencode(folder) in name for name in names):
                found.append(f"process {entry.name}")
    return found
