"""The folders of attempts: made, read and removed."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

from gsched.run import attempt_files
from gsched.run.order import Order
from gsched.run.spare_folders import SPARE
from gsched.run.spool import PASSABLE, Spool


def written(spool: Spool, job_id: int) -> Path:
    assert spool.write_order(Order(job_id=job_id, attempt=1, command="true", hostfile="h\n"))
    return spool.folder(f"{job_id}.1")


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


def test_an_emptied_folder_serves_the_next_attempt_with_nothing_of_the_last(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    first = written(spool, 1)
    number, names = first.stat().st_ino, sorted(each.name for each in first.iterdir())
    for name in (attempt_files.CLAIM, attempt_files.STATUS, attempt_files.STDOUT):
        (first / name).write_text("{}")
    spool.remove("1.1")
    second = written(spool, 2)
    about = second.stat()
    assert (about.st_ino, stat.S_IMODE(about.st_mode)) == (number, 0o700)
    assert sorted(each.name for each in second.iterdir()) == names
    assert not first.exists() and spool.names() == ["2.1"]
    order = spool.order("2.1")
    assert order is not None and order.job_id == 2 and not spool.is_claimed("2.1")


def test_an_emptied_folder_takes_no_other_attempts_place(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    written(spool, 1)
    spool.remove("1.1")
    (tmp_path / "attempts" / "2.1").mkdir()
    assert not spool.write_order(Order(job_id=2, attempt=1, command="true"))
    assert list((tmp_path / "attempts" / "2.1").iterdir()) == []


def test_a_folder_that_others_may_go_through_serves_nobody_else(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    written(spool, 1).chmod(PASSABLE)
    spool.remove("1.1")
    assert list((tmp_path / SPARE).iterdir()) == [] and spool.names() == []


def test_emptied_folders_may_be_removed_by_anybody_at_any_time(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for job_id in (1, 2):
        written(spool, job_id)
    spool.remove("1.1")
    shutil.rmtree(tmp_path / SPARE)
    spool.remove("2.1")
    written(spool, 3)
    assert spool.names() == ["3.1"]


def test_what_an_earlier_agent_left_of_emptied_folders_is_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    written(spool, 1)
    spool.remove("1.1")
    assert list((tmp_path / SPARE).iterdir()) != []
    Spool(tmp_path)
    assert list((tmp_path / SPARE).iterdir()) == []
