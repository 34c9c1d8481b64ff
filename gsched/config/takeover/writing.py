"""Writes the new folder: all of it or nothing, and never into one that holds something."""

from __future__ import annotations

import errno
import functools
import operator
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gsched.base.errors import Conflict, PermissionDenied, ResourceExhausted
from gsched.config.template import link_lsf_layout

REPORT = "import-report.txt"


def check_empty(conf_dir: str) -> None:
    """Raises Conflict where the folder holds something, or is none."""
    try:
        held = next(iter(sorted(os.listdir(conf_dir))), "")
    except FileNotFoundError:
        return
    except OSError as error:
        raise Conflict(f"{conf_dir}: {os.strerror(error.errno or 0)}") from None
    if held:
        raise Conflict(f"{conf_dir} is not empty ({held} is in it): nothing is ever replaced; name another folder")


def write_folder(conf_dir: str, cluster: str, texts: Mapping[str, str], report: str, modes: Mapping[str, int]) -> None:
    """Write the files, the report and the link by which programs written for LSF find lsb.params.

    Nobody but the owner may do more with a file than its mode in `modes` says, nor with the report, which holds lines
    of all of them.
    Raises Conflict, PermissionDenied or ResourceExhausted; nothing is left behind then.
    """
    check_empty(conf_dir)
    target = Path(conf_dir)
    made = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(prefix=f".{target.name}.new-", dir=target.parent)
        narrowest = functools.reduce(operator.and_, modes.values(), 0o666)
        for name, text in {**texts, REPORT: report}.items():
            _write(Path(made, name), text, narrowest if name == REPORT else modes.get(name, 0o666))
        link_lsf_layout(made, cluster)
        os.chmod(made, target.stat().st_mode & 0o7777 if target.exists() else 0o777 & ~_umask())
        _sync(made)
        os.rename(made, target)  # which takes the place of an empty folder, and of nothing else
        _sync(str(target.parent))
    except OSError as error:
        if made:
            shutil.rmtree(made, ignore_errors=True)
        raise _said(error, conf_dir) from None


def _said(error: OSError, conf_dir: str) -> Conflict | PermissionDenied | ResourceExhausted:
    text = f"{conf_dir} cannot be written: {os.strerror(error.errno or 0)}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ResourceExhausted(text)
    return PermissionDenied(text) if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else Conflict(text)


def _write(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode & 0o666 | 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
