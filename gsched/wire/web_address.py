"""Where `gsched web` of a private cluster is open: a file in the configuration folder that its process keeps locked.

So nobody is led to the port of one that has ended. It says nothing that lets anybody in.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

WEB_FILE = ".web"
LONGEST = 300
"""Bytes of an address."""
_TRIES, _AGAIN_S = 5, 0.02
"""Who reads holds the lock for a moment."""


@contextlib.contextmanager
def published_web(folder: str, address: str) -> Iterator[None]:
    """For as long as this lasts, commands know the address (`http://127.0.0.1:8080`), unless they know another's."""
    descriptor = _locked(os.path.join(folder, WEB_FILE))
    if descriptor is None:
        yield
        return
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, address.encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def web_address(folder: str) -> str:
    """The address of the pages that are open now; empty when none are."""
    try:
        descriptor = os.open(os.path.join(folder, WEB_FILE), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, LONGEST, 0).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return ""


def _locked(path: str) -> int | None:
    """The file, for this process alone; None where another one has it, or there can be none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_AGAIN_S)
        except OSError:
            break
        else:
            return descriptor
    os.close(descriptor)
    return None
