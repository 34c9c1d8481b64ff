"""Options as getopt_long(3) reads them, for commands of batch systems that are no LSF: --name=value, --name value, -n5.

A long name may be cut to what only one option begins with. Reading ends at the first word that is no option, where a
command follows, else options and operands mix. Nothing here knows what an option means.

Source: getopt(3) of glibc, which Slurm's commands use.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gsched.base.errors import BadRequest

HETEROGENEOUS = "heterogeneous jobs are not supported: submit a job for each part, with --dependency where one follows"


@dataclass(frozen=True, slots=True)
class GnuOption:
    """One option of a command."""

    name: str
    """Without its dashes: `job-name`."""
    letter: str = ""
    """`J`; empty: it has none."""
    value: str = ""
    """What its value is called in help texts; empty for a flag."""
    help: str = ""
    is_optional: bool = False
    """The value may be left out, and then stands joined or not at all."""
    refused: str = ""
    """Not empty: the option is known and not taken; the text says why, or what to say instead."""
    note: str = ""
    """Not empty: the option is taken and does nothing; the text says why that changes no meaning."""
    variable: str = ""
    """Name of the variable in the environment that gives it, where nobody else does."""
    also: tuple[str, ...] = ()
    """Other long names of the same."""

    @property
    def names(self) -> tuple[str, ...]:
        """All its long names."""
        return (self.name, *self.also)


def refused(*names: str, because: str = "") -> tuple[GnuOption, ...]:
    """Options that are refused by name: `name` or `name/letter`."""
    text = because or "it is not supported yet"
    parts = [name.partition("/") for name in names]
    return tuple(GnuOption(name, letter, refused=text) for name, _, letter in parts)


def noted(*names: str, value: str = "VALUE", because: str) -> tuple[GnuOption, ...]:
    """Options that are taken, with a note: `name` or `name/letter`; without a `value` they are flags."""
    parts = [name.partition("/") for name in names]
    return tuple(
        GnuOption(name, letter, value, f"taken, and does nothing: {because}", note=because) for name, _, letter in parts
    )


VERBOSE = GnuOption("verbose", "v", help="taken, and says nothing more")


def general(help_letter: str = "h", usage_letter: str = "") -> tuple[GnuOption, ...]:
    """Help, usage and version of every command; the letters of the first two where no other option has them."""
    return (
        GnuOption("help", help_letter, help="this text"),
        GnuOption("usage", usage_letter, help="the same"),
        GnuOption("version", "V", help="version"),
    )


@dataclass(frozen=True, slots=True)
class GivenOption:
    """An option as somebody has given it."""

    name: str
    value: str = ""
    written: str = ""
    """As it stands there: `--time`, `-t`, `SBATCH_TIMELIMIT`."""
    line: int = 0
    """In which line of a script, from 1; 0: in none."""

    @property
    def place(self) -> str:
        """How it is named to whoever gave it."""
        return f"line {self.line} of the script: {self.written}" if self.line else self.written


@dataclass(frozen=True, slots=True)
class GnuWords:
    """What was read: options in the order given, and the words that are no options."""

    given: tuple[GivenOption, ...] = ()
    rest: tuple[str, ...] = ()

    def has(self, *names: str) -> bool:
        """Was any of these given?"""
        return any(each.name in names for each in self.given)

    def last(self, name: str) -> GivenOption | None:
        """The one that counts when an option was repeated: its last."""
        return next((each for each in reversed(self.given) if each.name == name), None)

    def places(self, options: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        """Field -> the option that has set it last, by `options`: which ones set which field."""
        last = {
            name: next((each for each in reversed(self.given) if each.name in of), None) for name, of in options.items()
        }
        return {name: given.place for name, given in last.items() if given is not None}

    def value(self, name: str, default: str = "") -> str:
        """The value that counts."""
        found = self.last(name)
        return found.value if found is not None else default


@dataclass(frozen=True, slots=True)
class GnuOptions:
    """The options of one command. `interspersed`: options may also follow operands (not where a command follows)."""

    summary: str
    operands: str
    options: tuple[GnuOption, ...]
    interspersed: bool = False
    examples: tuple[str, ...] = field(default=())

    def read(self, words: Sequence[str], line: int = 0) -> GnuWords:
        """Raises BadRequest naming the option that is unknown, refused, ambiguous, or lacks its value."""
        given: list[GivenOption] = []
        operands: list[str] = []
        left = list(reversed(words))
        while left:
            word = left.pop()
            if word == "--":
                break
            if word.startswith("--"):
                given.append(self._long(word, left, line))
            elif word.startswith("-") and word != "-":
                given += self._letters(word, left, line)
            else:
                operands.append(word)
                if not self.interspersed:
                    break
        return GnuWords(tuple(given), (*operands, *reversed(left)))

    def in_environment(self, environment: Mapping[str, str]) -> GnuWords:
        """What variables give. Raises BadRequest for one that is not taken."""
        found = [
            self._checked(option, GivenOption(option.name, environment[option.variable], option.variable))
            for option in self.options
            if option.variable and environment.get(option.variable)
        ]
        return GnuWords(tuple(found))

    def notes(self, words: GnuWords) -> list[str]:
        """A line for each option that was given and does nothing."""
        notes = {option.name: option.note for option in self.options if option.note}
        given = {each.name: each.place for each in words.given if each.name in notes}
        return [f"{place}: taken, and does nothing: {notes[name]}" for name, place in given.items()]

    def help(self, program: str) -> str:
        """The text of --help."""
        lines = [f"{program}: {self.summary}", "", f"usage: {program} [options] {self.operands}".rstrip(), ""]
        for option in self.options:
            if not option.refused:
                letter = f"-{option.letter}, " if option.letter else "    "
                value = f"[={option.value}]" if option.is_optional else f"={option.value}" if option.value else ""
                lines.append(f"  {letter}--{option.name}{value}".ljust(36) + f" {option.help}".rstrip())
        if self.examples:
            lines += ["", "examples:", *(f"  {example.replace('PROGRAM', program)}" for example in self.examples)]
        return "\n".join(lines) + "\n"

    def _long(self, word: str, left: list[str], line: int) -> GivenOption:
        name, equals, value = word[2:].partition("=")
        option = self._named(name, line)
        written = f"--{option.name}"
        if equals and not option.value and not option.refused:
            raise BadRequest(_told(line, f"option '{written}' takes no value"))
        if not equals and option.value and not option.is_optional:
            value = _next(left, written, option, line)
        return self._checked(option, GivenOption(option.name, value, written, line))

    def _named(self, name: str, line: int) -> GnuOption:
        exact = [option for option in self.options if name in (option.name, *option.also)]
        begins = [
            option for option in self.options if any(each.startswith(name) for each in (option.name, *option.also))
        ]
        close = exact or (begins if name else [])
        if len(close) == 1:
            return close[0]
        if close:
            ways = " or ".join(f"--{option.name}" for option in close[:3])
            raise BadRequest(_told(line, f"option '--{name[:40]}' can mean {ways}"))
        known = [option.name for option in self.options if not option.refused]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean --{near[0]}?" if near else ""
        raise BadRequest(_told(line, f"unrecognized option '--{name[:40]}'{hint}"))

    def _letters(self, word: str, left: list[str], line: int) -> Iterator[GivenOption]:
        """The options of a word with one dash: flags may share it, and a value may be joined to the last of them."""
        text = word[1:]
        while text:
            letter, text = text[0], text[1:]
            option = next((option for option in self.options if option.letter == letter), None)
            if option is None:
                raise BadRequest(_told(line, f"invalid option -- '{letter}'"))
            written, value = f"-{letter}", ""
            if option.value:
                value, text = text.removeprefix("="), ""
                if not value and not option.is_optional:
                    value = _next(left, written, option, line)
            yield self._checked(option, GivenOption(option.name, value, written, line))

    @staticmethod
    def _checked(option: GnuOption, given: GivenOption) -> GivenOption:
        if option.refused:
            raise BadRequest(f"{given.place}: {option.refused}")
        return given


def refuse_parts(words: Sequence[str], where: str = "") -> None:
    """Raise BadRequest for a heterogeneous job: parts with `:` between them on a command line."""
    if ":" in words:
        raise BadRequest(f"{where}{HETEROGENEOUS}")


def _next(left: list[str], written: str, option: GnuOption, line: int) -> str:
    if not left:
        raise BadRequest(_told(line, f"option '{written}' needs a value ({option.value})"))
    return left.pop()


def _told(line: int, text: str) -> str:
    return f"line {line} of the script: {text}" if line else text
