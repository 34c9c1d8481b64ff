"""What every command does first: read its options by its table, and answer -h and -V. Shared texts live here too.

Nothing here talks to the master.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import Protocol, TypeVar

from gsched import __version__
from gsched.base.errors import BadRequest
from gsched.cli.render.text.output_formats import (
    FieldTable,
    Format,
    FormatSetting,
    field_list,
    parse_format,
    render_json,
    render_text,
)
from gsched.cli.render.text.text_columns import printable
from gsched.cli.session.call import Call
from gsched.cli.session.session import setting
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.options import Option, OptionTable, Parsed
from gsched.dialect.slurm.gnu_options import GnuWords

R = TypeVar("R")

GENERAL = (
    Option("h", help="this text"),
    Option("-help", help="this text"),
    Option("V", help="version"),
)
"""Options of every command."""

FILTERS = (
    Option("q", "QUEUE", "only jobs of this queue", "-q normal"),
    Option("m", "HOST", "only jobs on this host", "-m gpu01"),
    Option("J", "NAME", "only jobs of this name; * stands for anything", "-J 'train*'"),
    Option("u", "USER", "jobs of this user, or all", "-u all"),
)
"""Options that narrow down which jobs are meant."""

APPLICATION = Option("app", "PROFILE", "only jobs of this application profile", "-app training")
SERVICE_CLASS = Option("sla", "CLASS", "only jobs of this service class", "-sla gold")
GROUP = Option("g", "GROUP", "only jobs of this job group, not of those below it", "-g /night")


def program(call: Call) -> str:
    """The name the command was called by, without its folder."""
    return PurePath(call.argv[0]).name


def read_options(call: Call, table: OptionTable) -> Parsed:
    """The command's options. -h and -V are answered here and end the command (SystemExit 0).

    Raises BadRequest that names the command and the option that is wrong.
    """
    try:
        parsed = table.read(call.argv[1:])
    except BadRequest as problem:
        raise BadRequest(f"{program(call)}: {problem.text} (-h lists the options)") from None
    if parsed.has("h", "-help"):
        call.write(table.help(program(call)))
        raise SystemExit(0)
    if parsed.has("V"):
        call.write(version_line())
        raise SystemExit(0)
    return parsed


class WordTable(Protocol):
    """The options of a command of another batch system."""

    def read(self, words: Sequence[str]) -> GnuWords: ...
    def help(self, program: str) -> str: ...


def read_words(call: Call, table: WordTable) -> GnuWords:
    """The options of a command of Slurm or PBS. Help and version are answered here and end it (SystemExit 0).

    Raises BadRequest that names the option that is wrong.
    """
    words = table.read(call.argv[1:])
    if words.has("help", "usage"):
        call.write(table.help(program(call)))
        raise SystemExit(0)
    if words.has("version"):
        call.write(version_line())
        raise SystemExit(0)
    return words


def complain(call: Call, text: str) -> None:
    """Say on standard error what is wrong, as one line that begins with the command's name. What moves a terminal or
    ends a line, in words that somebody typed say, is replaced.
    """
    call.error(f"{program(call)}: {printable(text)}\n")


def version_line() -> str:
    """`gsched 0.1.0`, as -V prints it."""
    return f"gsched {__version__}\n"


REQUIREMENT = Option("R", "REQUIREMENT", "only hosts that meet it; order[...] sorts them", '-R "select[mem>4000]"')
"""Of commands that list hosts."""

CHOSEN_FIELDS = (
    Option("o", "FIELDS", "these fields only; `-o help` lists them", "-o \"FIELD FIELD:WIDTH delimiter=','\""),
    Option("json", help="as JSON, with the fields of -o"),
)
"""Options of commands whose output can be chosen field by field."""


def chosen_format(
    call: Call, options: Parsed, table: FieldTable[R], variable: str, others: str, usual: str = ""
) -> Format[R] | None:
    """The format that -o or the environment `variable` asks for; None when there is none.

    `others` are options that -o cannot stand beside. `usual`: the fields of -json without -o; empty: it wants -o.
    `-o help` is answered here. Raises BadRequest.
    """
    clashing = next((name for name in others.split() if options.has(name)), "")
    text = options.last("o") if options.has("o") else "" if clashing else setting(call, variable)
    if not text.strip() and not options.has("o"):
        if options.has("json") and clashing:
            raise BadRequest(f"{program(call)}: -json and -{clashing} cannot be given together")
        if options.has("json") and usual:
            text = usual
        elif options.has("json", "hms"):
            raise BadRequest(f"{program(call)}: -json and -hms need -o")
        else:
            return None
    if clashing:
        raise BadRequest(f"{program(call)}: -o and -{clashing} cannot be given together")
    if options.has("json") and options.has("noheader"):
        raise BadRequest(f"{program(call)}: -json and -noheader cannot be given together")
    if text.strip() == "help":
        call.write(f"Fields of {program(call)} -o, and their other names:\n{field_list(table)}")
        raise SystemExit(0)
    try:
        return parse_format(text, table)
    except BadRequest as problem:
        # Who has given no option looks for it in vain.
        where = "" if options.has("o") or text == usual else f"{variable}: "
        raise BadRequest(f"{program(call)}: {where}{problem.text}") from None


def shows_year(call: Call, variable: str) -> bool:
    """Whether times are shown with their year: what the command's own `variable` says, else LSB_DISPLAY_YEAR.

    Source: lsf.conf(5).
    """
    return (setting(call, variable) or setting(call, "LSB_DISPLAY_YEAR")).strip().upper() == "Y"


def shows_hms(call: Call) -> bool:
    """Whether durations are shown as HH:MM:SS without -hms. Source: lsf.conf(5), LSB_HMS_TIME_FORMAT."""
    return setting(call, "LSB_HMS_TIME_FORMAT").strip().upper() == "Y"


def size_unit(call: Call) -> str:
    """K, M, G or T when the caller wants sizes in that unit. Source: lsf.conf(5), LSB_UNIT_FOR_JOBS_DISPLAY."""
    unit = call.env.get("LSB_UNIT_FOR_JOBS_DISPLAY", "").upper()[:1]
    return unit if unit in ("K", "M", "G", "T") else ""


def answer_chosen(
    call: Call, options: Parsed, chosen: Format[R], records: Sequence[R], *, command: str, counted: str, unit: str = ""
) -> None:
    """Write records in the format that was chosen, as text or (-json) under LSF's names.

    `unit` is that of sizes where the caller wants none: K, M, G or T; empty for one that fits each size.
    """
    setting = FormatSetting(zone=zone_of(call.env), now=time.time(), size_unit=size_unit(call) or unit)
    if options.has("json"):
        call.write(render_json(records, chosen, setting, command=command, counted=counted))
    else:
        call.write(render_text(records, chosen, setting, header=not options.has("noheader")))
