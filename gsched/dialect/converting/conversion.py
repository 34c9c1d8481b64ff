"""The whole of a conversion: a script in, the script with other directives and notes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo

from gsched.base.errors import BadRequest
from gsched.dialect.bsub import SCRIPT_LIMIT
from gsched.dialect.converting.asked_scripts import (
    BSUB_DIALECT,
    PBS_DIALECT,
    SBATCH_DIALECT,
    AskedScript,
    read_script,
)
from gsched.dialect.converting.body_variables import notes_on_body
from gsched.dialect.converting.bsub_lines import bsub_lines
from gsched.dialect.converting.printed_lines import PrintedLines
from gsched.dialect.converting.qsub_lines import qsub_lines
from gsched.dialect.converting.sbatch_lines import sbatch_lines
from gsched.dialect.directives import is_directive
from gsched.dialect.options import place
from gsched.dialect.spec_values import ValueContext

PRINTERS: Mapping[str, Callable[[AskedScript, tzinfo], PrintedLines]] = {
    BSUB_DIALECT: bsub_lines,
    SBATCH_DIALECT: sbatch_lines,
    PBS_DIALECT: qsub_lines,
}
MARK_OF = {BSUB_DIALECT: "#BSUB", SBATCH_DIALECT: "#SBATCH", PBS_DIALECT: "#PBS"}


@dataclass(frozen=True, slots=True)
class ConvertedScript:
    """A script in another dialect, and what has to be known of it."""

    script: bytes
    notes: tuple[str, ...]


def convert(script: bytes, target: str, *, name: str, user: str, now: ValueContext) -> ConvertedScript:
    """The script in the dialect `target`. `name`: its file; `user`: whoever will submit it. Raises BadRequest."""
    if len(script) > SCRIPT_LIMIT:
        raise BadRequest(f"the script is longer than {SCRIPT_LIMIT // (1024 * 1024)} MB")
    script = script.replace(b"\r\n", b"\n")
    asked = read_script(script, name, user, now)
    if asked.dialect == target:
        return ConvertedScript(script, (f"it is a script for {target} already",))
    printed = PRINTERS[target](asked, now.zone)
    body = [(number, line) for number, line in enumerate(asked.script.split(b"\n"), 1) if number not in asked.lines]
    notes = [*printed.notes]
    if target == BSUB_DIALECT:
        body, told = _without_directives(body)
        notes += told
    if asked.shell and asked.script.startswith(b"#!"):
        body[0] = (1, asked.shell)
    elif not asked.script.startswith(b"#!"):
        first = asked.shell or b"#!/bin/sh"
        notes.append(f"it names no interpreter: {first.decode('utf-8', 'replace')} was put in front")
        body.insert(0, (0, first))
    texts = [(number, line.decode("utf-8", "replace")) for number, line in body]
    notes += notes_on_body(iter(texts), asked.dialect, target)
    return ConvertedScript(_joined(body, asked, printed, MARK_OF[target]), tuple(dict.fromkeys(notes)))


def _without_directives(body: list[tuple[int, bytes]]) -> tuple[list[tuple[int, bytes]], list[str]]:
    """The body with its #BSUB lines as comments that nobody obeys, and what is to be told of them: bsub obeys such
    lines wherever they stand, sbatch and qsub none behind the first command.
    """
    live = {number for number, line in body if is_directive(line)}
    kept = [(number, b"#" + line if number in live else line) for number, line in body]
    text = "a #BSUB line that is a comment here; bsub would obey it: it became ##BSUB"
    return kept, [f"{place(number)}: {text}" for number in sorted(live)]


def _joined(body: list[tuple[int, bytes]], asked: AskedScript, printed: PrintedLines, mark: str) -> bytes:
    """The directives stand where the first of the others stood, or behind the first line; before the first command,
    since only bsub looks for them further on.
    """
    command = next((number for number, line in body if line.strip() and not line.lstrip().startswith(b"#")), 2)
    first = min(min(asked.lines, default=2), command)
    before = [line for number, line in body if number < first]
    behind = [line for number, line in body if number >= first]
    directives = [f"{mark} {line}".encode() for line in printed.lines]
    return b"\n".join([*before, *directives, *behind])
