"""Job numbers, indices and hosts in the names of files: LSF's patterns, and those that Slurm's commands are written as.

LSF has %J and %I and no way to write a percent sign before such a letter; so what only Slurm has begins with %0, which
means nothing in LSF: %0J and its kin with a width, %0N, %0b, %0c and %0%.
"""

from __future__ import annotations

import posixpath
import re

from gsched.base.ids import array_of, index_of

MOST_WIDTH = 10
"""Characters that a number is filled up to at most. Source: sbatch(1), "filename pattern"."""
OF_SLURM = re.compile(r"%0([0-9]{0,2})([JIiNbc%])", re.ASCII)
"""A pattern that LSF does not have: its width, and its letter."""
_PATTERN = re.compile(r"%(?:0([0-9]{0,2})([JIiNbc%])|([JIit]))", re.ASCII)


def counted_from(folder: str, path: str) -> str:
    """The path, which counts from `folder` where it is relative; one that begins with %H, the home directory, is not.
    Patterns stay in it.
    """
    return posixpath.normpath(path if path.startswith("%H") else posixpath.join(folder, path))


def expand_job_id(path: str, job_id: int, *, extension: str = "", host: str = "", attempt: int = 0) -> str:
    """`path` with %J as the job's number and %I as its array index (0 for a job that is no array element), %i as the
    index less one. With %0 before it and perhaps a width, the same with so many digits; %0N is `host` without its
    domain, %0b and %0c the last digit of index and index less one, %0% a percent sign. %t is the attempt's number,
    where one is given.

    A path that ends in `/` is a directory: the file in it is named `NUMBER.extension` (`.out` for output, `.err`), that
    of an array's element `NUMBER.INDEX.extension`.
    """
    number, index = array_of(job_id), index_of(job_id)

    def filled(found: re.Match[str]) -> str:
        letter = found[2] or found[3]
        if (letter == "i" and not index) or (letter == "N" and not host) or (letter == "t" and not attempt):
            return found[0]
        values = {"J": number, "I": index, "i": index - 1, "b": index % 10, "c": (index - 1) % 10}
        values["t"] = attempt
        if letter in values:
            return str(values[letter]).zfill(min(int(found[1] or 0), MOST_WIDTH))
        return "%" if letter == "%" else host.partition(".")[0]

    # One pass, so that nothing that was filled in is read again.
    whole = _PATTERN.sub(filled, path)
    if not (extension and whole.endswith("/")):
        return whole
    return f"{whole}{number}.{index}.{extension}" if index else f"{whole}{number}.{extension}"


def without_widths(path: str) -> str:
    """The path with LSF's patterns alone; what LSF does not have stays as Slurm writes it."""
    return OF_SLURM.sub(lambda found: "%" if found[2] == "%" else f"%{found[2].replace('c', 'b')}", path)
