"""Folders of attempts are spread over the disk where the file system can do that, and nothing fails where it cannot."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

import pytest

from gsched.base.machine import folder_spread
from gsched.base.machine.folder_spread import spread_folders


def flags_of(folder: Path) -> int:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return int(struct.unpack("i", fcntl.ioctl(fd, folder_spread._GET_FLAGS, struct.pack("i", 0))[:4])[0])
    finally:
        os.close(fd)


def test_the_flag_is_set_and_no_other_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "with blanks"
    folder.mkdir()
    try:
        before = flags_of(folder)
    except OSError:
        pytest.skip("the file system has no flags")
    if not spread_folders(folder):
        assert flags_of(folder) == before, "the file system does not know the flag"
        return
    assert flags_of(folder) == before | folder_spread._TOP_OF_HIERARCHY
    assert spread_folders(folder)
    (folder / "1.1").mkdir()
    assert not flags_of(folder / "1.1") & folder_spread._TOP_OF_HIERARCHY


@pytest.mark.parametrize("path", ["/proc", "/nonexistent", "/dev/null"])
def test_where_it_cannot_be_done_nothing_happens(path: str) -> None:
    assert not spread_folders(Path(path))
