"""Runs a host's elims, programs in any language that report external load, and keeps what they say.

An elim is an executable `elim` or `elim.NAME` in LSF_SERVERDIR that prints `NUM name value ...` from time to time.
All of them run while the host has a dynamic external resource. One that dies, writes rubbish or falls silent makes
its values unknown and is started again; it never takes the agent or another elim with it.

Source: elim(8), and the chapter on external load indices of LSF's administration manual.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from gsched.base.clock import Clock, SystemClock
from gsched.base.coded_text import AnyText, coded
from gsched.probe.elims.elim_format import Report, quote
from gsched.probe.elims.elim_program import ABORT_CODE, ElimProgram, ElimRules
from gsched.probe.elims.elim_silence import Silence
from gsched.probe.elims.elim_table import ElimResource, ElimTable
from gsched.probe.elims.process_guard import ProcessGroupGuard

__all__ = ["ElimResource", "ElimRules", "ElimRunner", "find_elims"]

log = logging.getLogger(__name__)

MOST_LOGGED = 1000
"""Characters of a report that are logged."""

RESERVED = frozenset({"elim.user"})

_COPIES = ("~", ".bak", ".old", ".orig", ".save", ".swp", ".tmp", ".new", ".rej", ".rpmsave", ".rpmnew", ".rpmorig")
"""How names of copies end that editors, people and package tools leave behind."""


def find_elims(server_dir: str | os.PathLike[str]) -> list[Path]:
    """Elims of a folder by name: executable files `elim` and `elim.NAME`, without copies. Empty if there is none."""
    found = []
    with contextlib.suppress(OSError), os.scandir(server_dir) as entries:
        for entry in entries:
            name = entry.name
            if (name == "elim" or name.startswith("elim.")) and name not in RESERVED:
                is_copy = name.endswith(_COPIES) or ".dpkg-" in name
                if not is_copy and entry.is_file() and os.access(entry.path, os.X_OK):
                    found.append(Path(entry.path))
    return sorted(found)


class ElimRunner:
    """All elims of one host. Starts nothing before `reconfigure`; must be used from one event loop.

    `on_change` is called without arguments, within the event loop, after values or notes have changed, also when a
    value has become unknown by silence. `may_run` says why a program must not be run, empty when it may: who can
    change it would be who runs it.
    """

    def __init__(
        self,
        server_dir: str | os.PathLike[str],
        *,
        conf_dir: str = "",
        rules: ElimRules = ElimRules(),  # noqa: B008 - immutable
        clock: Clock | None = None,
        on_change: Callable[[], None] | None = None,
        may_run: Callable[[str], AnyText] | None = None,
    ) -> None:
        self._server_dir = Path(server_dir)
        self._conf_dir = conf_dir
        self._rules = rules
        self._clock = clock or SystemClock()
        self._on_change = on_change
        self._may_run = may_run
        self._wanted: dict[str, ElimResource] = {}
        self._is_master = False
        self._table = ElimTable({})
        self._silence = Silence({})
        self._guard = ProcessGroupGuard()
        self._programs: dict[Path, tuple[ElimProgram, object]] = {}
        self._failures: dict[str, AnyText] = {}
        self._refused: dict[str, AnyText] = {}
        self._shown: object = ({}, {}, ())
        self._expiry: asyncio.TimerHandle | None = None
        self._changing = asyncio.Lock()
        self._closed = False

    async def reconfigure(
        self, wanted: Mapping[str, ElimResource], *, is_master: bool = False, rules: ElimRules | None = None
    ) -> None:
        """Have exactly these resources reported.

        Elims are started, ended, or started again where the wanted names, the master's host, the rules or the program's
        file have changed, and where one was given up; the others run on. Without a wanted resource no elim runs.
        """
        rules = rules or self._rules
        async with self._changing:
            if self._closed:
                return
            if (dict(wanted), is_master, rules) != (self._wanted, self._is_master, self._rules):
                await self._stop(list(self._programs))
                self._wanted, self._is_master, self._rules = dict(wanted), is_master, rules
                self._table, self._silence = ElimTable(self._wanted), Silence(self._wanted)
            found = find_elims(self._server_dir) if wanted else []
            self._refused = self._judged(found)
            elims = {path: _identity(path) for path in found if path.name not in self._refused}
            await self._stop(
                [
                    path
                    for path, (program, file) in self._programs.items()
                    if elims.get(path) != file or program.has_given_up
                ]
            )
            for path, file in elims.items():
                if path not in self._programs:
                    self._programs[path] = (self._start(path), file)
            self._update()

    def values(self) -> dict[str, float | str]:
        """Known values of the wanted resources; a name is absent while its value is unknown."""
        return self._table.values(self._clock.monotonic())

    def overrides(self) -> dict[str, float]:
        """Values that elims report for built-in load indices (`mem`, `tmp` …), which then hold in place of gsched's."""
        return self._table.overrides(self._clock.monotonic())

    def notes(self) -> tuple[AnyText, ...]:
        """One line for each thing that is wrong now, beginning with the program's name."""
        begun = {program.name: program.pending for program, _ in self._programs.values()}
        silent = self._silence.notes(self._clock.monotonic(), begun)
        return (*self._refused.values(), *self._failures.values(), *silent, *self._table.notes())

    async def close(self) -> None:
        """End all elims: SIGTERM, then SIGKILL, each with all that it has started. May be called twice."""
        async with self._changing:
            self._closed = True
            await self._stop(list(self._programs))
            if self._expiry is not None:
                self._expiry.cancel()
            await asyncio.to_thread(self._guard.close)

    # What programs tell (ElimListener)

    def started(self, name: str) -> None:
        self._silence.started(name, self._clock.monotonic())
        self._update()

    def reported(self, name: str, reports: list[Report]) -> None:
        self._failures.pop(name, None)
        now = self._clock.monotonic()
        self._table.take(name, reports, now)
        self._silence.reported(name, reports, now)
        if self._rules.debug:
            for report in reports:
                log.info("%s reports %s", name, quote(" ".join(word for pair in report for word in pair), MOST_LOGGED))
        self._update()

    def failed(self, name: str, note: AnyText, *, distrust: bool) -> None:
        self._failures.pop(name, None)
        self._silence.ended(name)
        if note:
            self._failures[name] = note
        if distrust:
            self._table.forget(name)
        self._update()

    def _judged(self, paths: list[Path]) -> dict[str, AnyText]:
        """Those that are not run, by name, with a note that says why."""
        if self._may_run is None:
            return {}
        refused: dict[str, AnyText] = {}
        for path in paths:
            try:
                problem = self._may_run(str(path))
            except OSError as error:
                problem = coded("elim.not_looked_at", str(path), str(error.strerror or error))
            if problem:
                refused[path.name] = coded("elim.not_run", path.name, problem)
        return refused

    def _start(self, path: Path) -> ElimProgram:
        return ElimProgram(
            path,
            {**os.environ, **self._environment()},
            self,
            guard=self._guard,
            rules=self._rules,
            clock=self._clock,
        )

    async def _stop(self, paths: list[Path]) -> None:
        programs = [self._programs.pop(path)[0] for path in paths]
        await asyncio.gather(*(program.stop() for program in programs))
        for program in programs:
            self._failures.pop(program.name, None)
            self._silence.ended(program.name)
            self._table.forget(program.name)
            self._table.forget_notes(program.name)

    def _environment(self) -> dict[str, str]:
        """What an elim is told by its environment. Source: elim(8)."""
        environment = {
            "LSF_MASTER": "Y" if self._is_master else "N",
            "LSF_RESOURCES": " ".join(self._wanted),
            "ELIM_ABORT_VALUE": str(ABORT_CODE),
            "LSF_SERVERDIR": str(self._server_dir),
        }
        if self._conf_dir:
            environment |= {"LSF_ENVDIR": self._conf_dir, "GSCHED_ENVDIR": self._conf_dir}
        return environment

    def _update(self) -> None:
        """Tell of a change, and come back when the next value grows stale."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        now = self._clock.monotonic()
        changes = (self._table.next_expiry(now), self._silence.next_change(now))
        expiry = min((at for at in changes if at is not None), default=None)
        if expiry is not None and not self._closed:
            self._expiry = asyncio.get_running_loop().call_later(expiry - now + 0.01, self._update)
        shown = (self.values(), self.overrides(), self.notes())
        if shown != self._shown:
            self._shown = shown
            if self._on_change is not None:
                self._on_change()


def _identity(path: Path) -> object:
    """What tells a program's file from another one in its place."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
    return None
