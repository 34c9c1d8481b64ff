"""File names with %J and %I, as bsub(1) takes them in -o, -e and -i, and %i for arrays that count from 0."""

from __future__ import annotations

from gsched.base.ids import array_of, index_of


def expand_job_id(path: str, job_id: int, *, extension: str = "") -> str:
    """`path` with %J as the job's number and %I as its array index (0 for a job that is no array element), %i as the
    index less one.

    A path that ends in `/` is a directory: the file in it is named `NUMBER.extension` (`.out` for output, `.err`), that
    of an array's element `NUMBER.INDEX.extension`.
    """
    # One pass, so that nothing that was filled in is read again.
    number, index = array_of(job_id), index_of(job_id)
    parts = path.split("%")
    filled = parts[0] + "".join(_filled(part, number, index) for part in parts[1:])
    if not (extension and filled.endswith("/")):
        return filled
    return f"{filled}{number}.{index}.{extension}" if index else f"{filled}{number}.{extension}"


def _filled(part: str, number: int, index: int) -> str:
    if part.startswith("J"):
        return f"{number}{part[1:]}"
    if part.startswith("i") and index:
        return f"{index - 1}{part[1:]}"
    return f"{index}{part[1:]}" if part.startswith("I") else "%" + part
