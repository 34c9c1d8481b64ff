"""The files of a configuration as they are kept: read once more they say the same, wherever the folder has gone."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path

import pytest
from config_texts import BASE

from gsched.base.errors import Internal
from gsched.config.configuration import Loaded, load
from gsched.config.kept_files import packed, unpacked

QUEUES = """#INCLUDE "{0}"
#INCLUDE "queues.more"
Begin Queue
QUEUE_NAME = normal
#if time(5:8:00-5:18:00)
PRIORITY = 30
#else
PRIORITY = 40
#endif
End Queue
"""
FRIDAY_NOON = (5 * 24 + 12) * 60


def folder_of(folder: Path, queues: str = BASE["lsb.queues"]) -> Path:
    folder.mkdir()
    for name, text in {**BASE, "lsb.queues": queues}.items():
        (folder / name).write_text(text)
    return folder


def read(folder: Path, minute: int | None = None) -> Loaded:
    found = load(str(folder), "h1", minute=minute)
    assert found.config is not None, found.problems
    return found


def test_what_was_packed_is_read_once_more_without_the_folder(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "else where", folder_of(tmp_path / "conf", QUEUES.format(tmp_path / "else where"))
    elsewhere.write_text("")
    (folder / "queues.more").write_text("Begin Queue\nQUEUE_NAME = other\nPRIORITY = 3\nEnd Queue\n")
    noon, night = read(folder, FRIDAY_NOON), read(folder, 0)
    assert noon.config != night.config
    kept = [packed(each) for each in (noon, night)]
    shutil.rmtree(folder)
    elsewhere.unlink()
    for data, loaded in zip(kept, (noon, night), strict=True):
        again = unpacked(data, "h1")
        assert again.problems == loaded.problems
        assert again.config == loaded.config


def test_equal_files_make_equal_bytes_at_any_time(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "conf")
    assert packed(read(folder, FRIDAY_NOON)) == packed(read(folder, 7))
    before = packed(read(folder))
    (folder / "lsb.params").write_text("Begin Parameters\nDEFAULT_QUEUE = normal\nMAX_PEND_JOBS = 7\nEnd Parameters\n")
    assert packed(read(folder)) != before


@pytest.mark.parametrize("data", [b"", b"no", zlib.compress(b"no"), zlib.compress(b"x" * 1000)[:-4]])
def test_damaged_bytes_are_refused_with_one_line(data: bytes) -> None:
    with pytest.raises(Internal, match=r"^the kept files of a configuration [^\n]+$"):
        unpacked(data, "h1")
