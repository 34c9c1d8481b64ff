"""docs/lsf-coverage.md: each parameter and option of LSF 10.1 and what becomes of it here.

LSF's names are in the text files beside this one, differences of parameters in gsched.config.grammar.lsf_differences;
what becomes of them is asked of the code (asked_code). A name that the code does not know is an error: it must never be
passed over.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from gsched.config.grammar.lsf_differences import DIFFERENCES, NOT_READ_SECTIONS
from tests.support.lsf_coverage.asked_code import Answer, Standing, options, parameters, words

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "lsf-coverage.md"

_INTRODUCTION = """# What of LSF is there

Each parameter of LSF 10.1's configuration files and each option of its commands, and what becomes of it. This page is
made by a program from the tables that read files and command lines (`make lsf-coverage`).

| | |
|---|---|
| same | it means what it means in LSF |
| translated | it is read, with the difference that is told |
| noted | it is accepted with a note that says why it has no effect |
| refused | it is refused by name, with the reason and what does the same |

"""


def _lines(name: str) -> Iterator[str]:
    for line in (HERE / name).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


def _reasons(name: str) -> dict[str, str]:
    pairs = (line.partition(": ") for line in _lines(name))
    return {key: reason for key, _, reason in pairs}


@cache
def parameter_names() -> dict[str, tuple[str, ...]]:
    """File, or file/Section -> LSF's names."""
    found: dict[str, list[str]] = {}
    for line in _lines("parameters.txt"):
        if line.startswith("["):
            found[line.strip("[]")] = names = []
        else:
            names += line.split()
    return {where: tuple(names) for where, names in found.items()}


@cache
def option_names() -> dict[str, tuple[str, ...]]:
    """Command -> its options without their dashes; badmin, lsadmin -> their words."""
    found: dict[str, tuple[str, ...]] = {}
    group = ""
    for line in _lines("options.txt"):
        if line.startswith("["):
            group = line.strip("[]")
        elif group:
            found[group] = (*found.get(group, ()), *line.split())
        else:
            command, _, names = line.partition(":")
            found[command] = tuple(names.split())
    return found


def differences() -> dict[str, str]:
    """`FILE NAME`, `COMMAND OPTION` -> how it differs from LSF's."""
    of_options = _reasons("differences.txt")
    return of_options | {f"{where} {name}": why for where, each in DIFFERENCES.items() for name, why in each.items()}


@cache
def answers() -> dict[str, dict[str, Answer]]:
    """File, file/Section or command -> LSF's name -> answer. Raises KeyError for a name that the code does not know."""
    heard = parameters().answers
    not_read = NOT_READ_SECTIONS
    found: dict[str, dict[str, Answer]] = {}
    for where, names in parameter_names().items():
        if where in not_read:
            found[where] = dict.fromkeys(names, Answer(Standing.REFUSED, not_read[where]))
            continue
        known = heard[where] if where in heard else heard[where.partition("/")[0]]
        loads = heard["lsb.hosts/Host"] if where == "lsb.queues" else {}
        found[where] = {name: (known.get(name.casefold()) or loads[name]) for name in names}
    not_there = _reasons("commands_not_there.txt")
    for command, names in option_names().items():
        taken = words(command) if command in ("badmin", "lsadmin") else options(command)
        if taken is None:
            found[command] = dict.fromkeys(names, Answer(Standing.REFUSED, not_there[command]))
        else:
            found[command] = {name: taken[name] for name in names}
    return _with_differences(found)


def _with_differences(found: dict[str, dict[str, Answer]]) -> dict[str, dict[str, Answer]]:
    for key, reason in differences().items():
        where, _, name = key.partition(" ")
        if found[where][name].standing is not Standing.SAME:
            raise KeyError(key)  # it says of a name that is not read how it differs
        found[where][name] = Answer(Standing.TRANSLATED, reason)
    return found


def counts(which: Iterable[Mapping[str, Answer]]) -> Counter[Standing]:
    """How many names there are of each standing."""
    return Counter(answer.standing for each in which for answer in each.values())


def _part(found: Counter[Standing]) -> str:
    good = found[Standing.SAME] + found[Standing.TRANSLATED]
    return f"{100 * good / found.total():.1f} % of {found.total()}" if found.total() else "none"


def share() -> str:
    """One line: how much is the same or translated, accepted, refused."""
    found = counts(answers().values())
    kinds = ", ".join(f"{found[standing]} {standing.value}" for standing in Standing)
    return f"same or translated: {_part(found)} names ({kinds})"


def text() -> str:
    """The whole page."""
    found = answers()
    files = {where: each for where, each in found.items() if where in parameter_names()}
    commands = {where: each for where, each in found.items() if where not in files}
    parts = [_INTRODUCTION, _summary(files, commands), "\n## Parameters\n"]
    parts += [_section(where, each, "") for where, each in files.items()]
    parts.append("\n## Options of commands\n\n`-h` and `-V` are those of every command.\n")
    parts += [_section(where, each, "" if where in ("badmin", "lsadmin") else "-") for where, each in commands.items()]
    return "".join(parts)


def _summary(files: Mapping[str, Mapping[str, Answer]], commands: Mapping[str, Mapping[str, Answer]]) -> str:
    rows: dict[str, list[Mapping[str, Answer]]] = {}
    for where, each in files.items():
        rows.setdefault(where.partition("/")[0], []).append(each)
    rows["options of commands"] = list(commands.values())
    rows["all"] = [*files.values(), *commands.values()]
    lines = ["| | same | translated | noted | refused | same or translated |", "|---|---|---|---|---|---|"]
    for name, tables in rows.items():
        found = counts(tables)
        numbers = " | ".join(str(found[standing]) for standing in Standing)
        lines.append(f"| {name} | {numbers} | {_part(found)} |")
    return "\n".join(lines) + "\n"


def _section(where: str, each: Mapping[str, Answer], dash: str) -> str:
    """Names that have one answer share a row."""
    rows: dict[Answer, list[str]] = {}
    for name, answer in each.items():
        rows.setdefault(answer, []).append(f"`{dash}{name}`")
    lines = [f"\n### {where.replace('/', ', section ')}\n"]
    if not rows:
        return lines[0] + "\nIt has no other options.\n"
    lines += ["| | | |", "|---|---|---|"]
    order = list(Standing)
    for answer, names in sorted(rows.items(), key=lambda row: order.index(row[0].standing)):
        reason = re.sub(r"[|]", r"\\|", answer.reason)
        lines.append(f"| {answer.standing.value} | {' '.join(names)} | {reason} |")
    return "\n".join(lines) + "\n"
