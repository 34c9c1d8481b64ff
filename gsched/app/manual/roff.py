"""Manual pages in roff's man macros, and the folder of them.

Source of the macros: man(7) of groff. It must never put text into a page that roff would read as a request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from gsched import __version__
from gsched.app.manual.entries import HELP, CommandEntry, OptionEntry
from gsched.app.manual.facts import ENVIRONMENT, OWN_ENVIRONMENT, exits, files, related

_GRAMMAR = (
    "The value of an option is its next word, or is joined to it (-n8). Flags may share a word. "
    "A word that can be read in two ways is refused."
)
_JOB = (
    'JOB is the number of a job, or of an array and then stands for all its elements; "12[3]" is one element, '
    '"12[1-5,7]" are several.'
)


def write_pages(folder: str, entries: Iterable[CommandEntry], say: Callable[[str], None]) -> None:
    """Write man1/NAME.1 below `folder` for each command and each of LSF's names. Raises OSError."""
    place = Path(folder) / "man1"
    place.mkdir(parents=True, exist_ok=True)
    texts = pages(entries)
    for name, text in texts.items():
        (place / name).write_text(text, encoding="utf-8")
    say(f"{len(texts)} pages are in {place}; read one: man -M {folder} gsub")


def pages(entries: Iterable[CommandEntry]) -> dict[str, str]:
    """NAME.1 -> its text, for each command and each of LSF's names."""
    found = {}
    for entry in entries:
        found[f"{entry.name}.1"] = page(entry)
        found.update((f"{alias}.1", f".so man1/{entry.name}.1\n") for alias in entry.aliases)
    return found


def page(entry: CommandEntry) -> str:
    """The manual page of a command."""
    lines = [f'.TH "{_plain(entry.name.upper())}" 1 "" "gsched {__version__}" "gsched"', ".SH NAME"]
    lines.append(f"{', '.join(map(_plain, (entry.name, *entry.aliases)))} \\- {_plain(entry.summary)}")
    lines += [".SH SYNOPSIS", *_usage(entry)]
    lines += [".SH DESCRIPTION", *_description(entry)]
    lines += [".SH OPTIONS", *_options(entry.options)]
    if entry.words:
        lines += [".SH COMMANDS", *(line for word in entry.words for line in _word(word))]
    if entry.examples:
        lines += [".SH EXAMPLES", *(line for example in entry.examples for line in _example(example))]
    lines += [".SH EXIT STATUS", *_terms(exits(entry.name))]
    lines += [".SH FILES", *_terms(files(entry.name))]
    variables = {**OWN_ENVIRONMENT.get(entry.name, {}), **ENVIRONMENT}
    lines += [".SH ENVIRONMENT", *_terms(sorted(variables.items()))]
    lines += [".SH SEE ALSO", ",\n".join(f".BR {_plain(other)} (1)" for other in related(entry.name))]
    return "\n".join(lines) + "\n"


def _usage(entry: CommandEntry) -> Iterator[str]:
    if not entry.words:
        yield f".B {_plain(entry.name)}"
        yield _plain(" ".join(filter(None, (_shown_options(entry), entry.operands))))
        return
    for position, word in enumerate(each for each in entry.every() if not each.words):
        if position:
            yield ".br"
        yield f".B {_plain(word.name)}"
        if rest := " ".join(filter(None, (_shown_options(word), word.operands))):
            yield _plain(rest)


def _shown_options(entry: CommandEntry) -> str:
    return "[options]" if len(entry.options) > 1 else ""


def _description(entry: CommandEntry) -> Iterator[str]:
    names = (entry.name, *entry.aliases)
    yield _sentence(entry.summary)
    if entry.note:
        yield from (".PP", f"Operands: {_plain(entry.note)}.")
    for paragraph in filter(None, entry.text.split("\n\n")):
        yield from (".PP", _plain(paragraph))
    if "JOB" in entry.operands:
        yield from (".PP", _plain(_JOB))
    if entry.aliases:
        yield from (".PP", f"LSF's name of it is {' and '.join(map(_bold, names[1:]))}.")
    if any(not option.names[0].startswith("--") for option in entry.options) and not entry.words:
        yield from (".PP", _plain(_GRAMMAR))


def _options(options: Iterable[OptionEntry]) -> Iterator[str]:
    everything = list(options)
    for option in (each for each in everything if not each.refused):
        yield from _option(option)
    refused = sorted((each for each in everything if each.refused), key=lambda each: each.refused)
    if refused:
        yield ".SS Options of LSF that are refused"
    for why, same in groupby(refused, key=lambda each: each.refused):
        yield ".TP"
        yield ", ".join(_bold(name) for each in same for name in each.names)
        yield _sentence(why)


def _option(option: OptionEntry) -> Iterator[str]:
    yield ".TP"
    value = f" {_italic(option.value)}" if option.value else ""
    yield ", ".join(_bold(name) + value for name in option.names)
    yield _sentence(option.help) if option.help else "\\&"
    if option.fixed:
        yield f"One of {', '.join(map(_bold, option.fixed))}."
    if option.example:
        yield f"Example: {_bold(option.example)}"


def _word(word: CommandEntry) -> Iterator[str]:
    if word.words:
        for each in word.words:
            yield from _word(each)
        return
    inner = word.name.partition(" ")[2]
    yield f'.SS "{_plain(" ".join(filter(None, (inner, word.operands))))}"'
    yield _sentence(word.summary)
    for paragraph in filter(None, word.text.split("\n\n")):
        yield from (".PP", _plain(paragraph))
    yield from _options(option for option in word.options if option.names != HELP)


def _example(example: str) -> Iterator[str]:
    """`command      (what it shows)`: blanks part the two."""
    command, _, comment = example.partition("   ")
    yield from (".TP", f".B {_quoted(command)}")
    yield _sentence(comment.strip().removeprefix("(").removesuffix(")")) if comment else "\\&"


def _terms(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in pairs:
        yield from (".TP", _bold(term), _sentence(meaning))


def _sentence(text: str) -> str:
    """With a capital and a full stop; what stands between backticks is bold."""
    if not re.match(r"[A-Za-z0-9]+:|\S*[A-Z_.-]", text):
        text = text[:1].upper() + text[1:]
    if text and text[-1] not in ".!?":
        text += "."
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _plain(text)
    pieces = (_bold(part) if position % 2 else _escaped(part) for position, part in enumerate(parts))
    return _guarded("".join(pieces))


def _plain(text: str) -> str:
    return _guarded(_escaped(text))


def _bold(text: str) -> str:
    return f"\\fB{_escaped(text)}\\fR"


def _italic(text: str) -> str:
    return f"\\fI{_escaped(text)}\\fR"


def _quoted(text: str) -> str:
    """One argument of a macro."""
    return '"' + _escaped(text).replace('"', "\\(dq") + '"'


_ESCAPES = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"})


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _guarded(text: str) -> str:
    """A line of text never begins with the sign of a request."""
    return "\\&" + text if text.startswith(".") else text
