"""The folder of the store: is it on a disk that keeps promises, and how much room is left there. It changes nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gsched.base.errors import BadRequest

_REMOTE = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb2",
        "smb3",
        "smbfs",
        "ncpfs",
        "afs",
        "ceph",
        "lustre",
        "gpfs",
        "beegfs",
        "panfs",
        "pvfs2",
    }
    | {"glusterfs", "ocfs2", "gfs2", "coda", "davfs"}
    | {f"fuse.{name}" for name in ("sshfs", "glusterfs", "glusterfs-fuse", "ceph", "ceph-fuse", "rclone", "s3fs")}
    | {f"fuse.{name}" for name in ("juicefs", "davfs", "smbnetfs", "gvfsd-fuse", "moosefs", "mfs")}
)
"""Locks, fsync or shared memory maps of these are not what SQLite's log needs (sqlite.org: "Write-Ahead Logging")."""

_OCTAL = re.compile(r"\\([0-7]{3})")


def filesystem_of(path: Path, mountinfo: str) -> tuple[str, str]:
    """(type, mount point) of the filesystem that holds `path`; ("", "") when `mountinfo` does not say.

    `path` is absolute; `mountinfo` is the text of /proc/self/mountinfo. Source: proc_pid_mountinfo(5).
    """
    best = ("", "")
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if "-" not in fields[6:] or len(fields) < 10:
            continue
        mount_point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4])
        if not path.is_relative_to(mount_point):
            continue
        # Of two mounts on one point the later line hides the earlier one.
        if len(mount_point) >= len(best[1]):
            best = (fields[fields.index("-", 6) + 1], mount_point)
    return best


def check_filesystem(path: Path, mountinfo: str | None = None) -> None:
    """Raises BadRequest when the folder `path` (it need not exist yet) is on a network filesystem."""
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
        except OSError:
            return  # no Linux /proc: nothing is known against the folder
    kind, mount_point = filesystem_of(path.resolve(), mountinfo)
    if kind in _REMOTE:
        raise BadRequest(
            f"the state folder {path} is on the network filesystem {mount_point} ({kind}), where a database is not "
            "safe: name a folder on a local disk (gsched up --dir /var/lib/gsched, say)"
        )


def sync_folder(path: Path) -> None:
    """Have what was done in a folder, or to a file, on disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def room_left(folder: Path) -> int:
    """Bytes that an ordinary user may still write into `folder`'s filesystem, quotas not counted. Raises OSError."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
