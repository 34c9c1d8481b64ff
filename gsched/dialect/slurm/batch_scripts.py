"""#SBATCH lines of a batch script. As Slurm does, this looks no further than the first command.

Source: sbatch(1) of Slurm 22.05.
"""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.dialect.options import place
from gsched.dialect.script_marks import leading_directives
from gsched.dialect.slurm.gnu_options import HETEROGENEOUS, GivenOption, GnuWords
from gsched.dialect.slurm.option_table import SBATCH

_MARK = b"#SBATCH"
_NOT_IN_SCRIPTS = ("help", "usage", "version", "wrap", "parsable")


def words_of(script: bytes) -> GnuWords:
    """The options of its directives. Raises BadRequest naming the line that is wrong, also where the lines are of two
    systems: nobody can say which of them are meant.
    """
    given: list[GivenOption] = []
    for number, words in leading_directives(script, _MARK, "sbatch"):
        given += _read(number, words)
    return GnuWords(tuple(given))


def _read(number: int, words: list[str]) -> tuple[GivenOption, ...]:
    found = SBATCH.read(words, number)
    wrong = next((each for each in found.given if each.name in _NOT_IN_SCRIPTS), None)
    if found.rest or wrong is not None:
        word = wrong.written if wrong is not None else found.rest[0]
        if word.lower() in ("hetjob", "packjob"):
            raise BadRequest(f"{place(number)}: {HETEROGENEOUS}")
        raise BadRequest(f"{place(number)}: '{word[:40]}' cannot stand in an #SBATCH line")
    return found.given
