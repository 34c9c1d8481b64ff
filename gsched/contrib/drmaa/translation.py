"""What errors of gsched are in DRMAA, and the numbers that its texts for jobs mean.

It asks the cluster nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from gsched.base.errors import GschedError, Internal, NotFound, PermissionDenied, ResourceExhausted, Unavailable
from gsched.base.ids import LARGEST_JOB_NUMBER, element_id
from gsched.contrib.drmaa import errors

_JOB = re.compile(r"([0-9]{1,10})(?:\[([0-9]{1,10})\])?", re.ASCII)
_LARGEST_INDEX = 2**31 - 1
_KINDS: tuple[tuple[type[GschedError], type[errors.DrmaaException]], ...] = (
    (PermissionDenied, errors.AuthorizationException),
    (ResourceExhausted, errors.TryLaterException),
    (Unavailable, errors.DrmCommunicationException),
    (Internal, errors.InternalException),
)


def translate(
    error: BaseException, not_found: type[errors.DrmaaException] = errors.InvalidJobException
) -> BaseException:
    """The error of DRMAA that this one of gsched is; any other as it is. `not_found`: what a NotFound becomes."""
    if not isinstance(error, GschedError):
        return error
    kinds = (theirs for ours, theirs in _KINDS if isinstance(error, ours))
    kind = not_found if isinstance(error, NotFound) else next(kinds, errors.DeniedByDrmException)
    return errors.coded(kind, error.text)


@contextmanager
def translated(not_found: type[errors.DrmaaException] = errors.InvalidJobException) -> Iterator[None]:
    """What gsched raises in here is raised as DRMAA's error; `not_found` as in `translate`."""
    try:
        yield
    except GschedError as error:
        raise translate(error, not_found) from error


def text_of(value: str | bytes | int) -> str:
    """A text that a program may give as bytes, or a job's number as one."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def job_number(job: str | bytes | int) -> int:
    """The number of the job that is called so, `12` or `12[3]`. Raises InvalidJobException."""
    found = _JOB.fullmatch(text_of(job))
    if found is not None:
        number, index = int(found[1]), int(found[2] or 0)
        if 1 <= number <= LARGEST_JOB_NUMBER and index <= _LARGEST_INDEX and found[2] != "0":
            return element_id(number, index)
    raise errors.coded(errors.InvalidJobException, f"'{text_of(job)[:60]}' is not the id of a job")
