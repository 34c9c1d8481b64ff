"""A secret in a file: its first line, from a file that nobody else may read. It never says what the secret is."""

from __future__ import annotations

import os
import stat

from gsched.base.errors import BadRequest

_MOST_BYTES = 1_024


def read_secret(path: str, what: str, short: str) -> str:
    """The first line of a file that is its user's, or root's, alone. Raises BadRequest.

    `what` it is, for people, and in `short`: "the password of the store", "the store's password".
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BadRequest(f"{what} cannot be read: {path}: {error.strerror}") from None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadRequest(f"{what} cannot be read: {path} is not a file")
        if status.st_uid not in (0, os.geteuid()):
            raise BadRequest(f"the file with {short} belongs to somebody else: {path}")
        # Where systemd hands out credentials, the group of a file of root's is root, and the service has it by a list.
        beyond = 0o037 if (status.st_uid, status.st_gid) == (0, 0) else 0o077
        if status.st_mode & beyond:
            raise BadRequest(f"others may read the file with {short}: chmod 600 {path}")
        first = file.readline(_MOST_BYTES).decode("utf-8", "replace").rstrip("\r\n")
    if not first:
        raise BadRequest(f"the file with {short} is empty: {path}")
    return first
