"""What there is to say about each command, in one form: read from option tables, click's commands and elim.gpu's usage.

It imports every command; so it is for `gsched man` and `gsched completion` alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import click

from gsched.app import pam_exec
from gsched.app.commands import groups
from gsched.app.commands.lsf_startup import lsf_daemons, lsfshutdown, lsfstartup
from gsched.app.commands.word_group import WordGroup
from gsched.cli.registry import ALIASES, COMMANDS, LOCAL_ONLY, table_of
from gsched.dialect.options import Option, OptionTable
from gsched.probe.elim_gpu import USAGE

HELP = ("-h", "--help")


@dataclass(frozen=True, slots=True)
class OptionEntry:
    """An option as people write it."""

    names: tuple[str, ...]
    """With their dashes: all ways to write it."""
    value: str = ""
    """What its value is called; empty for a flag."""
    help: str = ""
    example: str = ""
    refused: str = ""
    """Not empty: LSF has it, this command refuses it; why."""
    fixed: tuple[str, ...] = ()
    """The only values it takes; empty: any."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command, or a word of one (`gadmin hclose`)."""

    name: str
    summary: str
    operands: str = ""
    note: str = ""
    """What is worth knowing about the operands."""
    text: str = ""
    """More about it, in paragraphs."""
    options: tuple[OptionEntry, ...] = ()
    aliases: tuple[str, ...] = ()
    """LSF's names of it."""
    examples: tuple[str, ...] = ()
    words: tuple[CommandEntry, ...] = ()
    interspersed: bool = True
    """Options may follow operands."""
    operand_values: tuple[str, ...] = ()
    """The only words that the first operand may be; empty: any."""

    @property
    def last_word(self) -> str:
        return self.name.rpartition(" ")[2]

    def every(self) -> Iterator[CommandEntry]:
        """Itself and the words below it."""
        yield self
        for word in self.words:
            yield from word.every()


def entries() -> list[CommandEntry]:
    """Every command by name."""
    found = [
        _of_usage("elim.gpu", USAGE, "count a host's GPUs by compute mode"),
        _of_usage("gsched-pam", pam_exec.USAGE, "let a session of ssh join the job of its user"),
    ]
    for name in sorted(COMMANDS.keys() - LOCAL_ONLY):
        aliases = tuple(alias for alias, command in ALIASES.items() if command == name)
        found.append(replace(of_table(name, table_of(name)), aliases=aliases))
    found.append(of_click("gsched", groups.gsched))
    found.append(replace(of_click("gadmin", groups.gadmin), aliases=("badmin",)))
    for name, command in (("lsadmin", groups.lsadmin), ("lsfstartup", lsfstartup), ("lsfshutdown", lsfshutdown)):
        found.append(of_click(name, command))
    found.append(of_click("lsf_daemons", lsf_daemons))
    return sorted(found, key=lambda entry: entry.name)


def of_table(name: str, table: OptionTable) -> CommandEntry:
    """The command of an option table."""
    operands, _, note = table.operands.replace("PROGRAM", name).partition("   ")
    return CommandEntry(
        name=name,
        summary=table.summary,
        operands=operands,
        note=note.strip().removeprefix("(").removesuffix(")"),
        options=(
            *(_of_option(option) for option in table.options if option.name not in ("h", "-help")),
            OptionEntry(HELP, help="show the options and end"),
        ),
        examples=tuple(example.replace("PROGRAM", name) for example in table.examples),
        interspersed=table.interspersed,
    )


def _of_option(option: Option) -> OptionEntry:
    return OptionEntry(
        (f"-{option.name}",), option.value, option.meaning, option.example, option.refused, tuple(sorted(option.fixed))
    )


def of_click(name: str, command: click.Command) -> CommandEntry:
    """A command that click reads, with its words."""
    summary, _, text = (command.help or "").strip().partition("\n")
    words: tuple[CommandEntry, ...] = ()
    operands: list[str] = []
    if isinstance(command, click.Group):
        below = command.words() if isinstance(command, WordGroup) else command.commands
        words = tuple(of_click(f"{name} {word}", each) for word, each in sorted(below.items()))
        operands.append("COMMAND")
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    operands += [_operand(argument) for argument in arguments]
    options = [_of_click_option(each) for each in command.params if isinstance(each, click.Option)]
    return CommandEntry(
        name=name,
        summary=summary.strip().removesuffix("."),
        operands=" ".join(operands),
        text=re.sub(r"\s*\n\s*", " ", text.strip()),
        options=(*options, OptionEntry(HELP, help="show the options and end")),
        words=words,
        operand_values=_values(arguments[0]) if arguments else (),
    )


def _operand(argument: click.Argument) -> str:
    text = "|".join(_values(argument)) or (argument.metavar or (argument.name or "").rstrip("s")).upper()
    if argument.nargs != 1 and not text.endswith("..."):
        text += " ..."
    return text if argument.required else f"[{text}]"


def _values(parameter: click.Parameter) -> tuple[str, ...]:
    return tuple(parameter.type.choices) if isinstance(parameter.type, click.Choice) else ()


def _of_click_option(option: click.Option) -> OptionEntry:
    value = "" if option.is_flag or option.count else (option.metavar or "VALUE")
    return OptionEntry((*option.opts, *option.secondary_opts), value, option.help or "", fixed=_values(option))


_USAGE_OPTION = re.compile(r"^  (-\S+)(?: ([A-Z]+))? {2,}(\S.*)$")


def _of_usage(name: str, usage: str, summary: str) -> CommandEntry:
    """A program that knows its options by a usage text alone: two blanks, the option, two blanks, what it does."""
    blocks = usage.strip().split("\n\n")
    options = tuple(
        OptionEntry((found[1],), found[2] or "", found[3])
        for found in map(_USAGE_OPTION.match, usage.splitlines())
        if found is not None
    )
    text = [block.replace("\n", " ") for block in blocks[1:] if not block.startswith("  ")]
    return CommandEntry(
        name=name,
        summary=summary,
        text="\n\n".join(text),
        options=(*options, OptionEntry(HELP, help="show the options and end")),
    )
