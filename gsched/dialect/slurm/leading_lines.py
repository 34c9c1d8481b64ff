"""Directives that stand before a script's first command, as Slurm and PBS have them: finding them, and their words.

What the words mean is not known here. Source: sbatch(1) of Slurm 22.05, qsub(1B) of OpenPBS 23.
"""

from __future__ import annotations

from collections.abc import Iterator

from gsched.base.errors import BadRequest
from gsched.dialect.directives import place, split_words

MARKS = (b"#BSUB", b"#SBATCH", b"#PBS")
"""Of the batch systems whose scripts are known."""


def leading_directives(script: bytes, mark: bytes, command: str) -> Iterator[tuple[int, list[str]]]:
    """(1-based line number, words) of each line that begins with `mark`, up to the first line that is no comment.

    Raises BadRequest naming the line that is wrong, also where the lines are of two systems: nobody can say which of
    them are meant. `command`: whose script it is.
    """
    others = [other for other in MARKS if other != mark]
    for number, line in enumerate(script.split(b"\n"), 1):
        text = line.strip()
        if text and not text.startswith(b"#") and not begins(line, mark):
            break
        foreign = next((other for other in others if begins(line, other)), None)
        if foreign is not None:
            raise BadRequest(
                f"{place(number)}: a {foreign.decode()} line in a script for {command}: whose script is it?"
            )
        if begins(line, mark):
            yield number, _words(number, line.removesuffix(b"\r")[len(mark) :], mark)


def begins(line: bytes, mark: bytes) -> bool:
    """Is it a line of this mark?"""
    rest = line[len(mark) :]
    return line.startswith(mark) and (not rest.strip() or rest[:1].isspace() or rest[:1] == b"-")


def _words(number: int, text: bytes, mark: bytes) -> list[str]:
    try:
        return split_words(text.decode())
    except UnicodeDecodeError:
        name = mark.decode("utf-8", "replace")
        raise BadRequest(f"{place(number)}: the {name} line is not UTF-8") from None
    except BadRequest as error:
        raise BadRequest(f"{place(number)}: {error.text}") from None
