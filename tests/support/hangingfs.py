"""A file system whose file `hang` nobody answers for: whoever opens it cannot be killed until this program ends.

Usage: hangingfs.py FOLDER, as root; prints `mounted` and serves until its standard input is closed. A file FOLDER.asked
appears when somebody hangs. Once a request has
been read by the program that serves it, the kernel waits for the answer whatever signals come. Source: the kernel's
include/uapi/linux/fuse.h, protocol 7.31, and fs/fuse/dev.c.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import struct
import subprocess
import sys
from pathlib import Path

LOOKUP, FORGET, GETATTR, INIT, INTERRUPT = 1, 2, 3, 26, 36
_LAZY = 2


class HangingFile:
    """The file `hang` of such a file system. Raises OSError when there cannot be one here."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "hang"
        self.asked = Path(f"{folder}.asked")
        """Is there when somebody hangs."""
        self._program = subprocess.Popen(
            [sys.executable, __file__, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._program.stdout is not None
        said = self._program.stdout.readline().strip()
        if said != "mounted":
            self.release()
            raise OSError(said or "no file system")

    def release(self) -> None:
        """Nobody hangs any more."""
        assert self._program.stdin is not None and self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait()
        self._program.stdout.close()


def main(folder: str) -> int:
    """Mount, serve, unmount."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        channel = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        print(f"/dev/fuse: {error.strerror}", flush=True)
        return 1
    options = f"fd={channel},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"hangingfs", folder.encode(), b"fuse", 0, options):
        print(f"mount: {os.strerror(ctypes.get_errno())}", flush=True)
        return 1
    try:
        while sys.stdin not in (ready := select.select([channel, sys.stdin], [], [])[0]):
            if ready:
                _serve(channel, os.read(channel, 1 << 17), Path(f"{folder}.asked"))
    finally:
        libc.umount2(folder.encode(), _LAZY)
        os.close(channel)  # ends the wait of those that hang
    return 0


def _serve(channel: int, request: bytes, asked: Path) -> None:
    _, operation, unique = struct.unpack_from("=IIQ", request)
    name = request[40:].rstrip(b"\0")
    if operation == LOOKUP and name == b"hang":
        asked.touch()
        return
    if operation in (FORGET, INTERRUPT):
        return
    if operation == INIT:
        answer = struct.pack("=IIIIHHIIHHI28x", 7, 31, 65536, 0, 12, 10, 4096, 1, 0, 0, 0)
        print("mounted", flush=True)
    elif operation == GETATTR:
        times = struct.pack("=QQQIII", 0, 0, 0, 0, 0, 0)
        answer = struct.pack("=QII", 1, 0, 0) + struct.pack("=QQQ", 1, 0, 0) + times
        answer += struct.pack("=IIIIIII", stat.S_IFDIR | 0o755, 2, 0, 0, 0, 4096, 0)
    else:
        os.write(channel, struct.pack("=IiQ", 16, -errno.ENOENT if operation == LOOKUP else -errno.ENOSYS, unique))
        return
    os.write(channel, struct.pack("=IiQ", 16 + len(answer), 0, unique) + answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
