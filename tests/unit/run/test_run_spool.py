"""The folders of attempts: made, read and removed."""

from __future__ import annotations

from pathlib import Path

from gsched.run import attempt_files
from gsched.run.order import Order
from gsched.run.spool import Spool


def test_a_folder_is_removed_with_all_that_lies_in_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool with blanks")
    for job_id in (1, 2):
        spool.write_order(Order(job_id=job_id, attempt=1, command="true", hostfile="h\n"))
    (spool.folder("2.1") / "tasks" / "t1").mkdir(parents=True)
    (spool.folder("2.1") / "tasks" / "t1" / "order").write_text("{}")
    (spool.folder("2.1") / "link").symlink_to(tmp_path)
    for name in ("1.1", "2.1", "3.1"):
        spool.remove(name)
    assert spool.names() == []
    assert tmp_path.exists()


def test_an_attempt_is_over_when_its_status_is_there(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.write_order(Order(job_id=1, attempt=1, command="true"))
    assert not spool.is_over("1.1")
    (spool.folder("1.1") / attempt_files.STATUS).write_text("{}")
    assert spool.is_over("1.1")
