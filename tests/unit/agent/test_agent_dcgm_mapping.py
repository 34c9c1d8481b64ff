"""Files for the DCGM exporter: which jobs are on which GPU; none for a GPU without a job."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from gsched.agent.attempts.dcgm_job_mapping import JobMapping
from gsched.agent.attempts.held_resources import HeldResources
from gsched.base.ids import element_id
from gsched.model.jobs.job import AttemptResult
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey


def part(*indices: int, parent: str = "") -> HostAllocation:
    gpus = tuple(HeldGpu(uuid=f"GPU-{each}", index=each, claim="ngpus_shared", parent=parent) for each in indices)
    return HostAllocation(host="a", slots=1, gpus=gpus)


class Host:
    """What an agent holds, and the folder that it writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended: dict[AttemptKey, AttemptResult] = {}
        self.holdings = HeldResources(self.ended)
        self.holdings.on_change = JobMapping(str(folder), lambda: self.holdings.running).write

    def end(self, key: AttemptKey) -> None:
        self.ended[key] = AttemptResult(started=True, exit_code=0)
        self.holdings.on_change()

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.folder.iterdir()}


def test_files_come_with_jobs_and_go_with_them(tmp_path: Path) -> None:
    host = Host(tmp_path / "made" / "here")
    old = os.umask(0o077)
    try:
        host.holdings.take((7, 1), part(0, 1))
        host.holdings.take((element_id(9, 3), 1), part(1))
        host.holdings.take((8, 1), part())
    finally:
        os.umask(old)
    assert host.files() == {"0": "7\n", "1": f"7\n{'9[3]'}\n"}
    assert (host.folder / "0").stat().st_mode & 0o777 == 0o644, "the exporter is another user"
    host.end((7, 1))
    assert host.files() == {"1": "9[3]\n"}
    host.end((element_id(9, 3), 1))
    assert host.files() == {}


def test_parts_of_a_gpu_have_no_file(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.holdings.take((7, 1), part(0, parent="GPU-0"))
    assert host.files() == {}


def test_an_agent_that_comes_back_puts_the_files_right(tmp_path: Path) -> None:
    for name, text in {"0": "1\n", "3": "2\n", "12": "", "readme": "kept"}.items():
        (tmp_path / name).write_text(text)
    host = Host(tmp_path)
    host.holdings.take((7, 1), part(0))
    assert host.files() == {"0": "7\n", "readme": "kept"}


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("data")
    folder = tmp_path / "map"
    folder.mkdir()
    for name in ("0", ".0.new"):
        (folder / name).symlink_to(precious)
    Host(folder).holdings.take((7, 1), part(0))
    assert precious.read_text() == "data"
    assert (folder / "0").read_text() == "7\n"


def test_a_folder_that_cannot_be_written_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    host = Host(tmp_path / "file")
    with caplog.at_level(logging.ERROR):
        host.holdings.take((7, 1), part(0))
        host.holdings.take((8, 1), part(1))
    assert len(caplog.records) == 1
    assert "is not told" in caplog.text
    (tmp_path / "file").unlink()
    host.end((7, 1))
    assert host.files() == {"1": "8\n"}
