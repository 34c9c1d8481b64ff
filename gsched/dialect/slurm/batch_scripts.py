"""#SBATCH lines of a batch script. As Slurm does, this looks no further than the first command.

Source: sbatch(1) of Slurm 22.05.
"""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.dialect.directives import place, split_words
from gsched.dialect.slurm.gnu_options import GivenOption, GnuWords
from gsched.dialect.slurm.option_table import SBATCH

_MARK = b"#SBATCH"
_OTHERS = (b"#BSUB", b"#PBS")
_NOT_IN_SCRIPTS = ("help", "usage", "version", "wrap", "parsable")


def words_of(script: bytes) -> GnuWords:
    """The options of its directives. Raises BadRequest naming the line that is wrong, also where the lines are of two
    systems: nobody can say which of them are meant.
    """
    given: list[GivenOption] = []
    for number, line in enumerate(script.split(b"\n"), 1):
        text = line.strip()
        if text and not text.startswith(b"#"):
            break
        other = next((mark for mark in _OTHERS if _begins(line, mark)), None)
        if other is not None:
            raise BadRequest(f"{place(number)}: a {other.decode()} line in a script for sbatch: whose script is it?")
        if _begins(line, _MARK):
            given += _read(number, line.removesuffix(b"\r")[len(_MARK) :])
    return GnuWords(tuple(given))


def _begins(line: bytes, mark: bytes) -> bool:
    rest = line[len(mark) :]
    return line.startswith(mark) and (not rest.strip() or rest[:1].isspace() or rest[:1] == b"-")


def _read(number: int, text: bytes) -> tuple[GivenOption, ...]:
    try:
        words = split_words(text.decode())
    except UnicodeDecodeError:
        raise BadRequest(f"{place(number)}: the #SBATCH line is not UTF-8") from None
    except BadRequest as error:
        raise BadRequest(f"{place(number)}: {error.text}") from None
    found = SBATCH.read(words, number)
    wrong = next((each for each in found.given if each.name in _NOT_IN_SCRIPTS), None)
    if found.rest or wrong is not None:
        word = wrong.written if wrong is not None else found.rest[0]
        raise BadRequest(f"{place(number)}: '{word[:40]}' cannot stand in an #SBATCH line")
    return found.given
