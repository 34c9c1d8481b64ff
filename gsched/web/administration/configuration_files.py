"""Configuration files of this host, as this process's user may read and write them: what they hold, what is wrong with
them, and a change that is tried before anything is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable

import msgspec

from gsched.base.errors import BadRequest, Conflict, NotFound, PermissionDenied, Problem
from gsched.config.config_folder import files_of
from gsched.config.configuration import load
from gsched.wire.identity.caller_identity import uid_of_user, user_name

MOST_BYTES = 256 * 1024
"""Of a file that is shown; a form with a larger one would be refused."""


class ConfigurationText(msgspec.Struct, frozen=True, kw_only=True):
    """A file. `mark` changes with its contents."""

    name: str
    path: str
    text: str
    mark: str
    may_write: bool
    owner: str
    modified_at: float


def names_in(conf_dir: str) -> list[str]:
    """The files of the folder that count. Raises PermissionDenied."""
    try:
        return files_of(conf_dir)
    except OSError as error:
        raise PermissionDenied(f"{conf_dir}: {error.strerror}") from None


def read_configuration(conf_dir: str, name: str) -> ConfigurationText:
    """The file of that name. Raises NotFound for one that is none of these, PermissionDenied, BadRequest."""
    data, status = _read(conf_dir, name)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadRequest(f"{name}: it is not in UTF-8, so it cannot be shown here") from None
    path = os.path.join(conf_dir, name)
    return ConfigurationText(
        name=name,
        path=path,
        text=text,
        mark=mark_of(data),
        # A new file takes its place, so that nobody ever reads half of one.
        may_write=os.access(conf_dir, os.W_OK) and os.access(path, os.W_OK),
        owner=user_name(status.st_uid),
        modified_at=status.st_mtime,
    )


def findings_of(conf_dir: str, instead: dict[str, bytes] | None = None) -> list[Problem]:
    """What `gadmin ckconfig -v` would say of the files; `instead`: as if these held that."""
    loaded = load(conf_dir, has_account=lambda name: uid_of_user(name) is not None, run_egroup=True, instead=instead)
    return loaded.problems


def errors_in(problems: Iterable[Problem]) -> list[Problem]:
    """Those for which the files would be refused."""
    return [problem for problem in problems if problem.severity == "error"]


def written_text(text: str) -> bytes:
    """What a form's text is in a file. Raises BadRequest."""
    data = text.replace("\r\n", "\n").encode("utf8", "replace")
    if len(data) > MOST_BYTES or b"\0" in data:
        raise BadRequest(f"a file has {MOST_BYTES} bytes at most, and no NUL byte")
    return data if not data or data.endswith(b"\n") else data + b"\n"


def replace_configuration(conf_dir: str, name: str, data: bytes, mark: str) -> bytes:
    """Put this in the place of the file, with its owner and mode as they were; returns what it held.

    Raises NotFound, Conflict when it is not any more what `mark` was made of, PermissionDenied.
    """
    before, status = _read(conf_dir, name)
    if mark_of(before) != mark:
        raise Conflict(f"{name} has been changed meanwhile: nothing was written; load the page again")
    path = os.path.join(conf_dir, name)
    new = os.path.join(conf_dir, f".{name}.{os.getpid()}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, -1 if status.st_uid == os.geteuid() else status.st_uid, status.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
            os.fsync(descriptor)
        os.replace(new, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(new)
        owner = user_name(status.st_uid)
        raise PermissionDenied(f"{path} cannot be written: {error.strerror} (it belongs to {owner})") from None
    return before


def _read(conf_dir: str, name: str) -> tuple[bytes, os.stat_result]:
    if name not in names_in(conf_dir):
        raise NotFound(f"{name[:60]}: there is no such file of the configuration")
    path = os.path.join(conf_dir, name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise PermissionDenied(f"{path}: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadRequest(f"{path}: not a regular file")
        data = os.read(descriptor, MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise BadRequest(f"{path}: a file of more than {MOST_BYTES >> 10} KiB is not shown here")
    return data, status


def mark_of(data: bytes) -> str:
    """Changes with the contents."""
    return hashlib.sha256(data).hexdigest()
