"""LSF's option grammar: one table per command, one reader for command lines and #BSUB lines alike.

Options are words with one dash and names of any length (-n, -Is, -gpu, -noheader). A value is the next word, or
joined (-n8, -qshort), or behind a blank in the same word ("-n 8", where a caller quoted too much); flags may share a
word, its last letter may take a value (-aJ name). A word that is exactly an option's name always means that option. A
joined word that could be read in two ways is refused, never guessed. Ours begin with two dashes (--at TIME,
--at=TIME). Nothing here knows what an option means; of those that several commands refuse
alike it knows why.

Source: the manual pages of bsub, bjobs and bhosts of LSF 10.1.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from gsched.base.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command."""

    name: str
    """Without its first dash: `n`, `gpu`, `-help`."""
    value: str = ""
    """What its value is called in help texts; empty for a flag."""
    help: str = ""
    example: str = ""
    refused: str = ""
    """Not empty: LSF has the option, this command does not take it; why, or what does the same."""
    noted: str = ""
    """Not empty: it is taken and has no effect; the text says why."""
    fixed: frozenset[str] = frozenset()
    """The only values it takes; empty: any."""

    @property
    def meaning(self) -> str:
        """What it does, or why it has no effect, for help texts."""
        return f"no effect: {self.noted}" if self.noted else self.help


_ONE_CLUSTER = "there is one cluster"
_NO_LICENCE = "there is no licence scheduler"
_NO_CLASS = "service classes have no goals of time; gjobs -sla lists the jobs of one"
_NO_DATA = "there is no data manager; gsub -f copies files"
_NO_CONNECTOR = "there is no resource connector"
_STEPS = "leave it out: what was asked for at first stays"

FILTERED = "-q, -m, -J, -u, -g and -app choose among jobs"
ONE_KIND = "a reservation is of slots, GPUs or hosts, for one time, for users or groups"

REASONS: dict[str, str] = {
    **dict.fromkeys(("cname", "clusters", "clustersn", "fwd", "gl"), _ONE_CLUSTER),
    **dict.fromkeys(("sla",), _NO_CLASS),
    **dict.fromkeys(("Lp", "Lpn"), _NO_LICENCE),
    **dict.fromkeys(("data", "datachk", "datagrp", "datan", "datagrpn", "stage"), _NO_DATA),
    **dict.fromkeys(("rc", "rconly", "rcacct", "rcacctn", "rnc"), _NO_CONNECTOR),
    **dict.fromkeys(("step_cgroupn", "smtn"), "it belongs to IBM's CSM and JSM"),
    **dict.fromkeys(("ptln", "eptln"), "pending time is not limited; -t ends a job at a time"),
    **dict.fromkeys(("freq", "freqn"), "frequencies are left to the system"),
    **dict.fromkeys(("ext", "extn"), "there are no external schedulers"),
    **dict.fromkeys(("network", "networkn"), "networks of IBM's Parallel Environment are not allocated"),
    **dict.fromkeys(("aps", "apsn"), "the order is that of queue, fairshare and -sp"),
    **dict.fromkeys(("k", "kn", "mig", "mign"), "there are no checkpoints; --signal lets a job save its state"),
    **dict.fromkeys(("ul", "uln"), "limits of the shell of gsub are not passed on; -C, -D, -F, -S, -T and -v set them"),
    **dict.fromkeys(("is", "isn", "Zs", "Zsn"), "what was copied at submission stays"),
    **dict.fromkeys(("env", "envn"), "the environment is that of the submission; gsub --resubmit submits anew"),
    **dict.fromkeys(("nnodes", "nnodesn"), "-n and -R span[...] change the shape of a job"),
    **dict.fromkeys(("arn", "sn"), _STEPS),
    "jobaff": "affinity[...] in -R says how tasks are bound",
    "hln": "memory limits always count for the whole job",
    "app_n": "-app and -appn",
    "Wep": "-We gives an estimate in minutes",
    "H": "gstop holds a job that waits",
    "K": "gwait waits for jobs",
    "ss": "there is no session scheduler",
    "gpfsio": "input and output of file systems are not counted",
}
"""Option, without its dash -> why it is refused."""


def unsupported(*names: str, because: str = "") -> tuple[Option, ...]:
    """Options that LSF has and that are refused by name; `because` says why, or what to use instead.

    Without it, REASONS must know why.
    """
    return tuple(Option(name, refused=because or REASONS[name]) for name in names)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What was read: options in the order given ("" is a flag's value), and the words that are no options."""

    given: tuple[tuple[str, str], ...] = ()
    rest: list[str] = field(default_factory=list)
    lines: tuple[int, ...] = ()
    """In which line of a script each of `given` stands, 0: on the command line; empty where all stand there."""

    def placed(self) -> Iterator[tuple[str, str, int]]:
        """(name, value, line) of each option; line 0 is the command line."""
        for (name, value), line in zip(self.given, self._lines(), strict=True):
            yield name, value, line

    def line(self, *names: str) -> int:
        """Where the last of these stands."""
        return next((line for name, _, line in reversed([*self.placed()]) if name in names), 0)

    def without(self, is_dropped: Callable[[str], bool]) -> Parsed:
        """These options but those whose name is dropped."""
        kept = [(each, line) for each, line in zip(self.given, self._lines(), strict=True) if not is_dropped(each[0])]
        return Parsed(tuple(each for each, _ in kept), self.rest, tuple(line for _, line in kept))

    def followed_by(self, later: Parsed) -> Parsed:
        """These options and then those of `later`, whose other words are the ones that count."""
        return Parsed(self.given + later.given, later.rest, self._lines() + later._lines())

    def _lines(self) -> tuple[int, ...]:
        return self.lines or (0,) * len(self.given)

    @property
    def values(self) -> dict[str, str]:
        """Option -> its last value."""
        return dict(self.given)

    def has(self, *names: str) -> bool:
        """Was any of these given?"""
        for name, _ in self.given:  # noqa: SIM110 - a generator takes three times as long, and each line asks 15 times
            if name in names:
                return True
        return False

    def last(self, name: str, default: str = "") -> str:
        """The value that counts when an option was repeated: its last."""
        return self.values.get(name, default)

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of an option that adds up (-R, -env)."""
        return tuple(value for given, value in self.given if given == name)

    def last_of(self, *names: str) -> tuple[str, str] | None:
        """(name, value) of whichever of several exclusive options came last; None if none was given."""
        return next(((name, value) for name, value in reversed(self.given) if name in names), None)


def place(*numbers: int) -> str:
    """How lines of a script are named to whoever wrote it."""
    *first, last = sorted(set(numbers))
    if not first:
        return f"line {last} of the script"
    return f"lines {', '.join(map(str, first))} and {last} of the script"


@contextmanager
def told_of(line: int) -> Iterator[None]:
    """What is wrong in here is told of with the line of the script where it stands; 0: it stands in none."""
    try:
        yield
    except BadRequest as error:
        raise told(error, line) from None


def told(error: BadRequest, line: int) -> BadRequest:
    """The error, told of with the line of the script where it stands; 0: it stands in none."""
    return BadRequest(f"{place(line)}: {error.text}" if line else error.text)


@dataclass(frozen=True, slots=True)
class OptionTable:
    """The options of one command. `interspersed`: options may also follow operands (not where a command follows)."""

    summary: str
    operands: str
    options: tuple[Option, ...]
    interspersed: bool = False
    examples: tuple[str, ...] = ()
    _by_name: dict[str, Option] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for option in self.options:
            self._by_name.setdefault(option.name, option)

    def option(self, name: str) -> Option | None:
        """The option of that exact name."""
        return self._by_name.get(name)

    def read(self, words: Sequence[str]) -> Parsed:
        """Read options up to `--` or the first other word; what is left is `rest`.

        Raises BadRequest (exit code 255) naming the option that is unknown, refused, ambiguous, or lacks its value.
        """
        given: list[tuple[str, str]] = []
        operands: list[str] = []
        position = 0
        while position < len(words):
            word = words[position]
            position += 1
            if word == "--":
                break
            if not word.startswith("-") or word == "-":
                operands.append(word)
                if self.interspersed:
                    continue
                break
            for option, joined in _reading(self, word):
                if option.refused:
                    raise BadRequest(f"option -{option.name} is not supported: {option.refused}")
                if option.value and joined is None:
                    given.append((option.name, _checked(option, self._next_value(option, words, position))))
                    position += 1
                else:
                    given.append((option.name, _checked(option, joined or "")))
        return Parsed(tuple(given), operands + list(words[position:]))

    def _next_value(self, option: Option, words: Sequence[str], position: int) -> str:
        if position >= len(words):
            raise BadRequest(f"option -{option.name} needs a value ({option.value})")
        word = words[position]
        if word.startswith("-") and self.option(word[1:]):
            raise BadRequest(f"option -{option.name} needs a value ({option.value}); the next word is option {word}")
        return word

    def help(self, program: str) -> str:
        """The text of -h: what the command does, one line per option, examples to copy."""
        taken = [option for option in self.options if not option.refused]
        shown = [f"-{option.name} {option.value}".rstrip() for option in taken]
        size = max((len(text) for text in shown), default=0)
        operands = self.operands.replace("PROGRAM", program)
        lines = [f"{program}: {self.summary}", "", f"Usage: {program} [options] {operands}".rstrip(), ""]
        for option, text in zip(taken, shown, strict=True):
            example = f"   e.g. {option.example}" if option.example else ""
            lines.append(f"  {text:<{size}}  {option.meaning}{example}".rstrip())
        refused = [f"-{option.name}" for option in self.options if option.refused]
        if refused:
            lines += ["", "Known from LSF, refused by name: " + " ".join(refused)]
        if self.examples:
            lines += ["", "Examples:", *(f"  {example.replace('PROGRAM', program)}" for example in self.examples)]
        return "\n".join(lines) + "\n"


_Reading = tuple[tuple[Option, str | None], ...]
"""Options of one word; the value is None where it is the next word (or the option is a flag)."""


def _checked(option: Option, value: str) -> str:
    if option.fixed and value not in option.fixed:
        raise BadRequest(f"option -{option.name} takes {' or '.join(sorted(option.fixed))}, not '{value}'")
    return value


def _reading(table: OptionTable, word: str) -> _Reading:
    text = word[1:]
    exact = table.option(text)
    if exact is not None:
        return ((exact, None),)
    with_blank = _with_blank(table, text)
    if with_blank is not None:
        return (with_blank,)
    if text.startswith("-"):
        return (_long_option(table, word),)
    readings = list(_readings(table, text))
    if len(readings) == 1:
        return readings[0]
    if readings:
        ways = " or as ".join(_spelled(reading) for reading in readings[:2])
        raise BadRequest(f"{word[:40]} can be read as {ways}: write a blank between an option and its value")
    close = difflib.get_close_matches(text, [option.name for option in table.options if not option.refused], n=1)
    raise BadRequest(f"unknown option {word[:40]}" + (f"; did you mean -{close[0]}?" if close else ""))


def _with_blank(table: OptionTable, text: str) -> tuple[Option, str] | None:
    """An option and its value in one word, a blank between them; None where it is something else."""
    name = text.split(maxsplit=1)[0] if text.strip() and not text[0].isspace() else ""
    option = table.option(name)
    if option is None or name == text:
        return None
    value = text[len(name) :].strip()
    if option.value and not value:
        raise BadRequest(f"option -{name} needs a value ({option.value})")
    if value and not option.value and not option.refused:
        raise BadRequest(f"option -{name} takes no value, and '{value[:40]}' stands in one word with it")
    return option, value


_MOST_JOINED = 4
"""Flags in one word: enough for -alpw, and a bound for what a hostile word can cost."""


def _readings(table: OptionTable, text: str, flags: int = 0) -> Iterator[_Reading]:
    exact = table.option(text)
    if exact:
        yield ((exact, None),)
        return
    for option in table.options:
        rest = text.removeprefix(option.name)
        if rest == text or option.name.startswith("-"):
            continue
        if option.value or option.refused:
            yield ((option, rest),)
        elif flags < _MOST_JOINED:
            for more in _readings(table, rest, flags + 1):
                yield ((option, None), *more)


def _spelled(reading: _Reading) -> str:
    return " ".join(f"-{option.name}" + (f" {value[:40]}" if value else "") for option, value in reading)


def _long_option(table: OptionTable, word: str) -> tuple[Option, str | None]:
    name, equals, value = word[1:].partition("=")
    option = table.option(name)
    if option is None:
        long_names = [known.name for known in table.options if known.name.startswith("-")]
        close = difflib.get_close_matches(name, long_names, n=1)
        raise BadRequest(f"unknown option -{name[:40]}" + (f"; did you mean -{close[0]}?" if close else ""))
    if equals and not option.value:
        raise BadRequest(f"option -{name} takes no value")
    return option, value if equals else None
