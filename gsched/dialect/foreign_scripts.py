"""Scripts for other batch systems: #SBATCH and #PBS lines, which gsub does not obey, and what to say in their place.

A script that has such lines and none of its own is refused: run as if it had none, it would ask for no GPU, no time and
no memory. Each option is translated, or named as one without a translation; nothing is guessed. Like the programs that
read them, this looks no further than the first command. Source: sbatch(1) of Slurm, qsub(1B) of OpenPBS and Torque.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gsched.base.errors import BadRequest

_MARKS = {b"#SBATCH": "#SBATCH", b"#PBS": "#PBS"}
_OWN = {"#SBATCH": ", and sbatch obeys the lines (gsched names slurm DIR)"}
_MOST_NAMED = 300
"""Characters of the suggestion: a line that is read, not a script."""

_SLURM_NAMES = {
    "J": "job-name",
    "p": "partition",
    "t": "time",
    "n": "ntasks",
    "N": "nodes",
    "o": "output",
    "e": "error",
    "A": "account",
    "G": "gpus",
    "D": "chdir",
    "w": "nodelist",
}


class _Line(NamedTuple):
    number: int
    mark: str
    words: list[str]


def refuse_foreign(script: bytes) -> None:
    """Raises BadRequest for a script that another batch system is to obey. To be asked where there is no #BSUB line."""
    lines = list(_lines(script))
    if not lines:
        return
    first = lines[0]
    said, without = _translated([line for line in lines if line.mark == first.mark])
    instead = f"say #BSUB {' '.join(said)} instead" if said else "say what it needs in #BSUB lines"
    lacking = f" (nothing stands for {', '.join(without)})" if without else ""
    raise BadRequest(
        f"line {first.number} of the script: {first.mark} lines are not obeyed, and there is no #BSUB line: "
        f"{_cut(instead)}{_cut(lacking)}; a line '#BSUB' alone has it run as it is{_OWN.get(first.mark, '')}"
    )


def _lines(script: bytes) -> Iterator[_Line]:
    """The directives before the first command."""
    for number, line in enumerate(script.split(b"\n"), 1):
        text = line.strip()
        if text and not text.startswith(b"#"):
            return
        for mark, name in _MARKS.items():
            rest = line[len(mark) :]
            if line.startswith(mark) and (not rest or rest[:1].isspace()):
                yield _Line(number, name, _words(rest.decode("utf-8", "replace")))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # an open quote
        return text.split()


def _translated(lines: list[_Line]) -> tuple[list[str], list[str]]:
    """Options of gsub, and the options without one; each once."""
    read, known = (_slurm, _SLURM) if lines[0].mark == "#SBATCH" else (_pbs, _PBS)
    said: dict[str, None] = {}
    without: dict[str, None] = {}
    for line in lines:
        for shown, name, value in read(line.words):
            options = known[name](value) if name in known else None
            if options is None:
                without[shown] = None
            for option in options or ():
                said[option] = None
    return [*said], [*without]


def _slurm(words: list[str]) -> Iterator[tuple[str, str, str]]:
    """(as written, long name, value) of sbatch's options."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        else:
            name, value = _SLURM_NAMES.get(word[1:2], word[1:2]), word[2:].removeprefix("=")
            equals = value
        if not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        yield word.partition("=")[0][: 2 if not word.startswith("--") else None], name, value


def _pbs(words: list[str]) -> Iterator[tuple[str, str, str]]:
    """(as written, letter or resource of -l, value) of qsub's options."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        letter, value = word[1:2], word[2:]
        if not value and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        if letter != "l":
            yield f"-{letter}", letter, value
            continue
        for part in value.split(","):
            name, _, amount = part.partition("=")
            yield f"-l {name}", name, amount


def _plain(option: str) -> Callable[[str], list[str] | None]:
    return lambda value: [f"{option} {shlex.quote(value)}"] if value else None


def _path(option: str) -> Callable[[str], list[str] | None]:
    """A file; %j and %A are its number, %a its index."""

    def translate(value: str) -> list[str] | None:
        path = re.sub("%[jA]", "%J", value).replace("%a", "%I")
        return _plain(option)(path) if not re.search("%[^JI]", path) else None

    return translate


def _gpus(value: str) -> list[str] | None:
    """`2`, `a100:2`, and `gpu:a100:2` of --gres."""
    model, colon, count = value.removeprefix("gpu:").rpartition(":")
    if value == "gpu":
        count = "1"
    if not count.isdigit() or (colon and not re.fullmatch(r"[\w.-]+", model)):
        return None
    return [f'-gpu "num={count}{f":gmodel={model}" if model else ""}"']


def _time(value: str) -> list[str] | None:
    """`[DAYS-]HOURS[:MINUTES[:SECONDS]]`, `MINUTES[:SECONDS]`: minutes, rounded up."""
    days, dash, rest = value.rpartition("-")
    parts = rest.split(":")
    if not all(part.isascii() and part.isdigit() and len(part) < 7 for part in [*parts, days or "0"]) or len(parts) > 3:
        return None
    numbers = [int(part) for part in parts]
    if dash or len(numbers) == 3:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    else:
        hours, (minutes, seconds) = 0, [*numbers, 0][:2]
    total = (int(days or 0) * 24 + hours) * 60 + minutes + (seconds > 0)
    return [f"-W {total // 60}:{total % 60:02}"] if total else None


def _memory(value: str) -> list[str] | None:
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", value, re.ASCII | re.IGNORECASE)
    return [f'-R "rusage[mem={found[1]}{(found[2] or "M").upper()}B]"'] if found else None


def _places(value: str) -> list[str] | None:
    """`2:ncpus=4:ngpus=1` of select=, `2:ppn=4:gpus=1` of nodes=."""
    count, *parts = value.split(":")
    amounts = dict(part.partition("=")[::2] for part in parts)
    each = amounts.pop("ncpus", amounts.pop("ppn", "1"))
    gpus = amounts.pop("ngpus", amounts.pop("gpus", ""))
    memory = amounts.pop("mem", "")
    if amounts or not (count.isdigit() and each.isdigit() and (gpus or "0").isdigit()):
        return None
    said = [f"-n {int(count) * int(each)}", f'-R "span[ptile={each}]"']
    said += (_gpus(gpus) or []) if gpus else []
    return said + ((_memory(memory) or []) if memory else [])


_SLURM: Mapping[str, Callable[[str], list[str] | None]] = {
    "job-name": _plain("-J"),
    "partition": _plain("-q"),
    "time": _time,
    "ntasks": _plain("-n"),
    "nodes": _plain("-nnodes"),
    "output": _path("-o"),
    "error": _path("-e"),
    "account": _plain("-P"),
    "chdir": _plain("-cwd"),
    "nodelist": _plain("-m"),
    "reservation": _plain("-U"),
    "mail-user": _plain("-u"),
    "mem": _memory,
    "gres": lambda value: _gpus(value) if value == "gpu" or value.startswith("gpu:") else None,
    "gpus": _gpus,
    "gpus-per-node": _gpus,
    "exclusive": lambda value: ["-x"],
    "requeue": lambda value: ["-r"],
}
_PBS: Mapping[str, Callable[[str], list[str] | None]] = {
    "N": _plain("-J"),
    "q": _plain("-q"),
    "o": _plain("-o"),
    "e": _plain("-e"),
    "A": _plain("-P"),
    "P": _plain("-P"),
    "M": _plain("-u"),
    "V": lambda value: [],
    "j": lambda value: [],
    "walltime": _time,
    "select": _places,
    "nodes": _places,
    "mem": _memory,
}
"""Name of an option -> what gsub calls it: nothing where it does that by itself, None where it has none."""


def _cut(text: str) -> str:
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= _MOST_NAMED else text[: _MOST_NAMED - 3] + "..."
