"""Have the folders in a folder lie far from each other on ext4: for folders with much coming and going.

ext4 does not use the number of a file again for a minute or more after it was deleted, and looks for another one from
the beginning of the block group, past all that were deleted. It puts folders beside the one that they are in, so that
all looks are for the same group: after some thousand short jobs each new file takes longer than all else. With the
flag for the top of a hierarchy (chattr(1), T) it spreads them over the disk. Other file systems have no such flag and
need none. Never raises: nothing depends on it but time.

Source: the kernel's fs/ext4/ialloc.c (recently_deleted, find_group_orlov), ioctl_iflags(2).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS, which are other numbers on other machines than these."""
_MACHINES = ("x86_64", "aarch64", "riscv64", "s390x")
_TOP_OF_HIERARCHY = 0x00020000


def spread_folders(folder: Path) -> bool:
    """Set the flag; whether it is set."""
    if os.uname().machine not in _MACHINES:
        return False
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            (flags,) = struct.unpack("i", fcntl.ioctl(fd, _GET_FLAGS, struct.pack("i", 0))[:4])
            if not flags & _TOP_OF_HIERARCHY:
                fcntl.ioctl(fd, _SET_FLAGS, struct.pack("i", flags | _TOP_OF_HIERARCHY))
        finally:
            os.close(fd)
        return True
    return False
