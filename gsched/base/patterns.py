"""File names with %J and %I, as bsub(1) takes them in -o, -e and -i."""

from __future__ import annotations


def expand_job_id(path: str, job_id: int, index: int = 0, *, extension: str = "") -> str:
    """`path` with %J as the job's number and %I as its array index (0 for a job that is no array element).

    A path that ends in `/` is a directory: the file in it is named `NUMBER.extension` (`.out` for output, `.err`).
    """
    # One pass, so that nothing that was filled in is read again.
    parts = path.split("%")
    filled = parts[0] + "".join(_filled(part, job_id, index) for part in parts[1:])
    return f"{filled}{job_id}.{extension}" if extension and filled.endswith("/") else filled


def _filled(part: str, job_id: int, index: int) -> str:
    if part.startswith("J"):
        return f"{job_id}{part[1:]}"
    return f"{index}{part[1:]}" if part.startswith("I") else "%" + part
