"""The order of an attempt: written once, read by the supervisor and by later agents as the frozen value that it was."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from run_host import Host

from gsched.base.coded_text import coded
from gsched.run.account import UnixAccount
from gsched.run.attempt_files import LIMITS, ORDER
from gsched.run.order import AttemptLimits, JobStep, Order, read_order, written_order
from gsched.run.report.job_report import ReportFacts
from gsched.run.supervisor.attempt_folder import AttemptFolder, as_json
from gsched.run.task_files import TaskOrder, write_order
from gsched.run.task_files import read_order as read_task_order

ACCOUNT = UnixAccount(name="ann", uid=1500, gid=1500, groups=(1500, 20), home="/home/ann")
FULL = Order(
    job_id=7,
    attempt=2,
    command="run\udcff",
    account=ACCOUNT,
    granted=((7, 1024, 4096),),
    environment={"NAME": "\udce9t\udce9"},
    run_limit_s=60,
    limits={"MEMLIMIT": 512, "CPULIMIT": 1.5},
    cpus=(0, 2),
    first=(JobStep(command="true", what="the queue's pre-execution command", is_site=True),),
    report=ReportFacts(
        job="7", name="a", command="run", sender="gsched@a", cluster="c", submit_host="a", user="ann",
        hosts=(("a", 1),), queue="normal", submitted_at=1.0, dispatched_at=2.0,
    ),
)  # fmt: skip


def folder_with(path: Path, order: bytes) -> AttemptFolder:
    (path / ORDER).write_bytes(order)
    return AttemptFolder(str(path))


def test_the_supervisor_reads_the_order_that_was_written(tmp_path: Path) -> None:
    assert folder_with(tmp_path, written_order(FULL)).order() == FULL == read_order(written_order(FULL))


def test_an_order_whose_texts_are_all_utf8_is_read_alike(tmp_path: Path) -> None:
    order = msgspec.structs.replace(FULL, command="run é", environment={"NAME": "é", "TEXT": 'a"\\\n\u2028'})
    assert folder_with(tmp_path, written_order(order)).order() == order


def test_what_a_supervisor_writes_down_may_name_files_that_are_no_utf8() -> None:
    for name in ("/home/é", "/home/\udce9"):
        record = {"stdout": name, "inode": (1, 2), "at": 1.5, "none": None, "problem": coded("start.failed")}
        read = json.loads(as_json(record))
        assert read == {**record, "inode": [1, 2], "problem": {"code": "start.failed"}}


def test_an_order_of_another_version_has_defaults_for_what_that_did_not_know(tmp_path: Path) -> None:
    written = {"job_id": 1, "attempt": 1, "command": "true", "added_by_a_later_version": [1]}
    assert folder_with(tmp_path, json.dumps(written).encode()).order() == Order(job_id=1, attempt=1, command="true")


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"[]",
        b'{"job_id": 1, "attempt": 1}',
        b'{"job_id": 1, "attempt": 1, "command": 5}',
        b'{"job_id": 1, "attempt": 1, "command": "x", "account": {"uid": 0}}',
    ],
)
def test_what_is_no_order_is_refused(tmp_path: Path, written: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        folder_with(tmp_path, written).order()


def test_limits_that_were_changed_take_the_place_of_those_of_the_order(tmp_path: Path) -> None:
    folder = AttemptFolder(str(tmp_path))
    assert folder.limited(FULL) is FULL, "none were changed"
    same = AttemptLimits(run_limit_s=FULL.run_limit_s, limits=FULL.limits)
    (tmp_path / LIMITS).write_bytes(msgspec.json.encode(same))
    assert folder.limited(FULL) is FULL, "they are what they were"
    (tmp_path / LIMITS).write_bytes(msgspec.json.encode(AttemptLimits(limits={"MEMLIMIT": 1024})))
    assert folder.limited(FULL) == msgspec.structs.replace(FULL, run_limit_s=None, limits={"MEMLIMIT": 1024})
    (tmp_path / LIMITS).write_bytes(b"{")
    assert folder.limited(FULL) is FULL, "they cannot be read"


def test_an_order_that_an_earlier_version_has_written_is_carried_out(on_host) -> None:
    async def scenario(host: Host) -> None:
        folder = host.folder()
        folder.mkdir(mode=0o700)
        output = str(host.root / "out")
        written = {"job_id": 1, "attempt": 1, "command": "echo $WHAT", "cwd": str(host.root), "output_file": output}
        written |= {"environment": {"PATH": "/usr/bin:/bin", "WHAT": "done"}, "run_limit_s": None, "umask": 18}
        (folder / ORDER).write_text(json.dumps(written))
        await host.executor.adopt()
        result = await host.end_of(1)
        assert result.exit_code == 0, result
        assert (host.root / "out").read_text() == "done\n"

    on_host(scenario)


def test_the_order_of_a_task_is_read_as_it_was_written(tmp_path: Path) -> None:
    order = TaskOrder(argv=("echo", "\udcff"), environment={"A": "\udce9"}, cwd="/", umask=0o22, reads=True)
    assert write_order(str(tmp_path), "t1", order)
    assert read_task_order(str(tmp_path), "t1") == order
    assert read_task_order(str(tmp_path), "t2") is None
