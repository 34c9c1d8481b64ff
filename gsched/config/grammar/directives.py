"""Lines of LSF's files that are told before they are read: #INCLUDE "FILE" and #if time(...), #elif, #else, #endif.

They may stand in files with sections, not in lsf.conf. Nothing here reads a clock or a file by itself.
Source: lsb.params(5), "Automatic time-based configuration"; lsf.shared(5), #INCLUDE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings, SourcePlace, show
from gsched.config.grammar.windows import parse_windows
from gsched.model.queues.window import Window, is_open

MOST_NESTED = 10
"""Files in one another, and conditions in one another."""
MOST_INCLUDED = 256

_DIRECTIVE = re.compile(r'#(include\s*["<]|(?:el)?if\s+time\s*\(|(?:el)?if\s*\(|(?:else|endif)\s*$)', re.IGNORECASE)
_INCLUDE = re.compile(r'#include\s*"([^"<>]+)"\s*', re.IGNORECASE)
_TIME = re.compile(r"#(?:el)?if\s+time\s*\(([^()]*)\)\s*", re.IGNORECASE)
_ZONE = re.compile(r"[A-Za-z]{1,5}")

Include = Callable[[str, SourcePlace], tuple[str, str] | None]
"""(name as written, where) -> (path, text) of a file; None when it cannot be read, which has been reported."""


def is_directive(raw: str) -> bool:
    """Whether the line is one of these; `# if you include` is a comment."""
    return _DIRECTIVE.match(raw.strip()) is not None


def included_name(raw: str) -> str | None:
    """The file that the line includes; None for any other line."""
    found = _INCLUDE.fullmatch(raw.strip())
    return found[1] if found else None


class Directives(msgspec.Struct):
    """What they depend on, and what they came to, for all files of one configuration."""

    include: Include
    minute: int
    """Of the week, local time."""
    conditions: list[tuple[tuple[Window, ...], bool]] = msgspec.field(default_factory=list)
    """The windows of each `time(...)`, and whether they were open."""
    included: int = 0

    def lines(
        self, path: str, text: str, findings: Findings, within: tuple[str, ...] = ()
    ) -> Iterator[tuple[SourcePlace, str]]:
        """The lines that count, each with where it stands. `within`: the files that include this one, in order."""
        blocks = _Blocks(self, findings)
        for number, raw in enumerate(text.split("\n"), start=1):
            line, at = raw.strip(), SourcePlace(path, number)
            if not is_directive(line):
                if blocks.is_read:
                    yield at, raw
            elif not line[1:].casefold().startswith("include"):
                blocks.meet(line, at)
            elif blocks.is_read:
                yield from self._included(line, at, findings, (*within, path))
        blocks.finish()

    def _included(
        self, line: str, at: SourcePlace, findings: Findings, within: tuple[str, ...]
    ) -> Iterator[tuple[SourcePlace, str]]:
        named = _INCLUDE.fullmatch(line)
        self.included += 1
        if named is None:
            findings.error(at, f'{show(line)}: a file is named in double quotes, #INCLUDE "FILE"')
        elif len(within) > MOST_NESTED or self.included > MOST_INCLUDED:
            findings.error(at, f"{show(line)}: more than {MOST_NESTED} files in one another, or {MOST_INCLUDED} in all")
        elif (found := self.include(named[1], at)) is None:
            return
        elif found[0] in within:
            circle = " includes ".join((*within[within.index(found[0]) :], found[0]))
            findings.error(at, f"{show(line)}: files include each other in a circle: {circle}")
        else:
            yield from self.lines(*found, findings, within)


class _Blocks:
    """The #if blocks that are open at a line of one file."""

    def __init__(self, directives: Directives, findings: Findings) -> None:
        self._directives = directives
        self._findings = findings
        self._open: list[tuple[SourcePlace, bool, bool, bool]] = []
        """Where it begins, whether a branch has held, whether this one is read, whether #else has come."""

    @property
    def is_read(self) -> bool:
        return all(reads for _, _, reads, _ in self._open)

    def meet(self, line: str, at: SourcePlace) -> None:
        """A directive of time."""
        word = re.split(r"[\s(]", line[1:], maxsplit=1)[0].casefold()
        if word == "if":
            if len(self._open) >= MOST_NESTED:
                self._findings.error(at, f"more than {MOST_NESTED} #if in one another")
            holds = self._holds(line, at)
            self._open.append((at, holds, holds, False))
        elif not self._open:
            self._findings.error(at, f"#{word} without #if")
        elif word == "endif":
            self._open.pop()
        else:
            begun, held, _, had_else = self._open.pop()
            if had_else:
                self._findings.error(at, f"#{word} behind the #else of the #if at line {begun.line}")
            holds = word == "else" or self._holds(line, at)
            self._open.append((begun, held or holds, holds and not held, word == "else"))

    def finish(self) -> None:
        """The file is over."""
        for begun, _, _, _ in self._open:
            self._findings.error(begun, "#if has no #endif")

    def _holds(self, line: str, at: SourcePlace) -> bool:
        found = _TIME.fullmatch(line)
        if found is None:
            self._findings.error(at, f"{show(line)}: not supported yet; #if time(WINDOW ...) is")
            return False
        words = found[1].split()
        if words and _ZONE.fullmatch(words[-1]):
            self._findings.error(at, f"{show(line)}: time zones are not supported yet; the master's own counts")
            return False
        try:
            windows = parse_windows(" ".join(words))
        except BadRequest as error:
            self._findings.error(at, f"{show(line)}: {error.text}")
            return False
        holds = is_open(windows, self._directives.minute)
        self._directives.conditions.append((windows, holds))
        return holds
