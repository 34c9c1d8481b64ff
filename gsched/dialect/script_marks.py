"""For which batch system a script is written: by its #BSUB, #SBATCH or #PBS lines.

As the programs of Slurm and PBS do, this looks for their lines no further than the first command; #BSUB lines may stand
anywhere. What the lines say is not known here. Source: bsub(1), sbatch(1), qsub(1B).
"""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.dialect.directives import directives

SLURM_MARK, PBS_MARK = "#SBATCH", "#PBS"


def mark_of(script: bytes) -> tuple[str, int]:
    """The mark of another system that the script has lines of, and the number of the first; ("", 0): of none.

    Raises BadRequest where it has lines of two systems: nobody can say which of them are meant.
    """
    found: dict[str, int] = {}
    for number, line in enumerate(script.split(b"\n"), 1):
        text = line.strip()
        if text and not text.startswith(b"#"):
            break
        mark = next((mark for mark in (SLURM_MARK, PBS_MARK) if _begins(line, mark.encode())), "")
        if mark:
            found.setdefault(mark, number)
    if not found:
        return "", 0
    own = next((number for number, _ in directives(script)), 0)
    first, *others = sorted((number, mark) for mark, number in (*found.items(), ("#BSUB", own)) if number)
    if others:
        second, other = others[0]
        raise BadRequest(
            f"line {first[0]} of the script is a {first[1]} line and line {second} a {other} line: "
            "keep those of one batch system, the others will not be obeyed"
        )
    return first[1], first[0]


def _begins(line: bytes, mark: bytes) -> bool:
    rest = line[len(mark) :]
    return line.startswith(mark) and (not rest.strip() or rest[:1].isspace() or rest[:1] == b"-")
