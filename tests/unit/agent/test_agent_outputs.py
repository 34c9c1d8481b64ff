"""Output of jobs without -o outlives the attempt's folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gsched.agent.output.kept_outputs import KEEP_S, KeptOutputs


def attempt_folder(path: Path, stdout: bytes, stderr: bytes = b"") -> Path:
    path.mkdir()
    (path / "stdout").write_bytes(stdout)
    (path / "stderr").write_bytes(stderr)
    return path


def test_only_what_was_printed_is_kept(tmp_path: Path) -> None:
    kept = KeptOutputs(tmp_path / "outputs")
    kept.keep("7.1", attempt_folder(tmp_path / "7.1", b"hello\n"), now=0.0)
    assert kept.read("7.1", "stdout", 0, 100) == b"hello\n"
    assert kept.read("7.1", "stdout", 2, 2) == b"ll"
    assert kept.read("7.1", "stderr", 0, 100) == b""
    assert sorted(os.listdir(tmp_path / "outputs")) == ["7.1.stdout"]


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path) -> None:
    kept = KeptOutputs(tmp_path / "outputs")
    kept.keep("8.1", tmp_path / "8.1", now=0.0)
    assert kept.read("8.1", "stdout", 0, 100) == b""


def test_a_folder_of_kept_output_that_was_removed_is_made_again(tmp_path: Path) -> None:
    kept = KeptOutputs(tmp_path / "outputs")
    (tmp_path / "outputs").rmdir()
    kept.keep("7.1", attempt_folder(tmp_path / "7.1", b"hello\n"), now=0.0)
    assert kept.read("7.1", "stdout", 0, 100) == b"hello\n"


def test_old_output_makes_room(tmp_path: Path) -> None:
    kept = KeptOutputs(tmp_path / "outputs")
    now = time.time()
    kept.keep("1.1", attempt_folder(tmp_path / "1.1", b"old"), now)
    assert kept.read("1.1", "stdout", 0, 100) == b"old"
    os.utime(tmp_path / "outputs" / "1.1.stdout", (now - KEEP_S - 1, now - KEEP_S - 1))
    for number in range(2, 300):
        kept.keep(f"{number}.1", tmp_path / "none", now)
    assert kept.read("1.1", "stdout", 0, 100) == b""
