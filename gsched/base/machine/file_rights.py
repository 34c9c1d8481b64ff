"""What the mode of a file lets an account do with it, for who must know before it becomes that account."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection


def may_read(status: os.stat_result, uid: int, groups: Collection[int]) -> bool:
    """Whether the file's mode lets an account of these groups read it. Access control lists are not looked at."""
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IRUSR)
    if status.st_gid in groups:
        return bool(status.st_mode & stat.S_IRGRP)
    return bool(status.st_mode & stat.S_IROTH)
