"""For which batch system a script is written, by its #BSUB, #SBATCH or #PBS lines, and the words of those lines.

As the programs of Slurm and PBS do, this looks for their lines no further than the first command; #BSUB lines may stand
anywhere. What the words mean is not known here. Source: bsub(1), sbatch(1) of Slurm 22.05, qsub(1B) of OpenPBS 23.
"""

from __future__ import annotations

from collections.abc import Iterator

from gsched.base.errors import BadRequest
from gsched.dialect.directives import directives, split_words
from gsched.dialect.options import place

SLURM_MARK, PBS_MARK = "#SBATCH", "#PBS"
MARKS = (b"#BSUB", SLURM_MARK.encode(), PBS_MARK.encode())
"""Of the batch systems whose scripts are known."""


def mark_of(script: bytes, *, as_bsub: bool = True) -> tuple[str, int]:
    """The mark of another system that the script has lines of, and the number of the first; ("", 0): of none.

    `as_bsub`: it is bsub that was given the script, which obeys its lines behind the first command, too.
    Raises BadRequest where it has lines of two systems: nobody can say which of them are meant.
    """
    found: dict[str, int] = {}
    end = 0
    for number, line in enumerate(script.split(b"\n"), 1):
        text = line.strip()
        if text and not text.startswith(b"#"):
            end = number
            break
        mark = next((mark for mark in (SLURM_MARK, PBS_MARK) if begins(line, mark.encode())), "")
        if mark:
            found.setdefault(mark, number)
    if not found:
        return "", 0
    own = next((number for number, _ in directives(script)), 0)
    own = own if as_bsub or not end or own < end else 0
    first, *others = sorted((number, mark) for mark, number in (*found.items(), ("#BSUB", own)) if number)
    if others:
        second, other = others[0]
        raise BadRequest(
            f"line {first[0]} of the script is a {first[1]} line and line {second} a {other} line: "
            "keep those of one batch system, the others will not be obeyed"
        )
    return first[1], first[0]


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
