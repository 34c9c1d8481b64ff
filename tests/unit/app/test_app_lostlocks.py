"""Which processes are daemons that have lost their lock files. Here they are shells with such command lines."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gsched.app.clusters import lost_locks

HOLDS = 'exec 9>"$HELD"; echo ready; read end'
ENDS = "echo ready; read end"


@contextmanager
def shell(folder: Path, script: str, *words: str) -> Iterator[int]:
    """A process that has the command line of a daemon and, by `HOLDS`, its lock file open. Yields its id."""
    run_dir = folder / "run"
    run_dir.mkdir(exist_ok=True)
    (folder / "gsched.app.entry").write_text(script)
    line = ["/bin/sh", "-m", "gsched.app.entry", *words, "--envdir", str(folder / "conf")]
    env = {"HELD": str(run_dir / f"{words[0]}.lock")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    # In a session of its own: -m has the shell look for a terminal.
    with subprocess.Popen(line, cwd=folder, env=env, start_new_session=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            process.kill()


def test_one_whose_lock_file_is_gone_is_found_and_ended(tmp_path: Path) -> None:
    with shell(tmp_path, HOLDS, "master") as pid:
        assert lost_locks.find(tmp_path / "conf", str(tmp_path / "run")) == {}
        shutil.rmtree(tmp_path / "run")
        assert lost_locks.find(tmp_path / "conf", str(tmp_path / "run")) == {pid: "master"}
        assert lost_locks.find(tmp_path / "other", str(tmp_path / "run")) == {}
        assert lost_locks.end(tmp_path / "conf", str(tmp_path / "run")) == {pid: "master"}
        assert lost_locks.find(tmp_path / "conf", str(tmp_path / "run")) == {}


def test_one_that_is_about_to_end_or_has_just_begun_is_left_alone(tmp_path: Path) -> None:
    with shell(tmp_path, ENDS, "master"):
        assert lost_locks.find(tmp_path / "conf", str(tmp_path / "run")) == {}
