"""Options as getopt(3) reads them in POSIX's form, for PBS's commands: one letter each, `-lwalltime=60`, `-Vh`.

Reading ends at the first word that is no option. `--help` and `--version` are the only long ones. Nothing here knows
what an option means.

Source: getopt(3p) of POSIX, which PBS's commands use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gsched.base.errors import BadRequest
from gsched.dialect.slurm.gnu_options import GivenOption, GnuOption, GnuWords

LONG = ("help", "version")


def letter(name: str, value: str = "", text: str = "") -> GnuOption:
    """An option that is taken. `value`: what its value is called in help texts; empty for a flag."""
    return GnuOption(name, name, value, text)


def refused_letters(letters: str, because: str, *, value: str = "") -> tuple[GnuOption, ...]:
    """Options that are refused by name, a letter each; `value` is not empty where they have one."""
    return tuple(GnuOption(name, name, value, refused=because) for name in letters)


@dataclass(frozen=True, slots=True)
class LetterOptions:
    """The options of one command."""

    summary: str
    operands: str
    options: tuple[GnuOption, ...]
    examples: tuple[str, ...] = field(default=())

    def read(self, words: Sequence[str], line: int = 0) -> GnuWords:
        """Raises BadRequest naming the option that is unknown, refused, or lacks its value."""
        given: list[GivenOption] = []
        left = list(reversed(words))
        while left:
            word = left[-1]
            if word.startswith("--") and word[2:] in LONG and not line:
                given.append(GivenOption(word[2:], "", word))
                left.pop()
            elif not word.startswith("-") or word == "-":
                break
            else:
                left.pop()
                if word == "--":
                    break
                if word.startswith("--"):
                    raise BadRequest(_told(line, f"unrecognized option '{word[:40]}'"))
                given += self._letters(word[1:], left, line)
        return GnuWords(tuple(given), tuple(reversed(left)))

    def help(self, program: str) -> str:
        """The text of --help."""
        lines = [f"{program}: {self.summary}", "", f"usage: {program} [options] {self.operands}".rstrip(), ""]
        lines += [
            f"  -{option.letter} {option.value}".ljust(28) + f" {option.help}".rstrip()
            for option in self.options
            if not option.refused
        ]
        if self.examples:
            lines += ["", "examples:", *(f"  {example.replace('PROGRAM', program)}" for example in self.examples)]
        return "\n".join(lines) + "\n"

    def _letters(self, text: str, left: list[str], line: int) -> Iterator[GivenOption]:
        """The options of a word with one dash: flags may share it, and a value may be joined to the last of them."""
        while text:
            name, text = text[0], text[1:]
            option = next((option for option in self.options if option.letter == name), None)
            if option is None:
                raise BadRequest(_told(line, f"invalid option -- '{name}'"))
            given = GivenOption(name, "", f"-{name}", line)
            if option.refused:
                raise BadRequest(f"{given.place}: {option.refused}")
            if option.value:
                if not text and not left:
                    raise BadRequest(_told(line, f"option requires an argument -- '{name}' ({option.value})"))
                value, text = text or left.pop(), ""
                given = GivenOption(name, value, f"-{name}", line)
            yield given


def _told(line: int, text: str) -> str:
    return f"line {line} of the script: {text}" if line else text
