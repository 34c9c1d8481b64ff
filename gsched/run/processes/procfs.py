"""Whether an open file is of a proc file system: there may be several, wherever somebody has mounted one.

Runs in the fork server's bare interpreter too: standard library only.
"""

from __future__ import annotations

import ctypes
import os

PROC_SUPER_MAGIC = 0x9FA0
"""Source: statfs(2)."""
_ROOM = 512
"""More than a `struct statfs` has on any machine; its first word is the type."""
_libc = ctypes.CDLL(None, use_errno=True)


def is_of_proc(descriptor: int) -> bool:
    """By the kernel's word on the file system. Raises OSError."""
    told = (ctypes.c_long * (_ROOM // ctypes.sizeof(ctypes.c_long)))()
    if _libc.fstatfs(ctypes.c_int(descriptor), told) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return told[0] == PROC_SUPER_MAGIC
