"""What an agent makes of the master's word that an attempt is to start."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gsched.agent.attempts.job_accounts import Login
from gsched.agent.attempts.order_builder import HostContext, OrderBuilder, Start
from gsched.agent.tasks.host_tasks import on_other_host
from gsched.base.coded_text import coded, sentence
from gsched.base.ids import element_id
from gsched.model.hosts.job_tmpdir import NO_TMPDIR, JobTmpdir
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.run.executor import ProcessExecutor
from gsched.run.order import Order
from gsched.wire.v1 import agent_pb2
from tests.support.manual_clock import ManualClock


async def order_of(
    folder: Path, spec: JobSpec, first_host: str = "", tmpdir: JobTmpdir = NO_TMPDIR, job_id: int = 1, **site: Any
) -> Order:
    clock = ManualClock()
    executor = ProcessExecutor(folder, "c", on_started=lambda *_: None, on_ended=lambda *_: None, clock=clock)
    builder = OrderBuilder("h", "u", executor, clock, HostContext(locks_gpus=lambda: False, places={}, tmpdir=tmpdir))
    part = HostAllocation(host="h", slots=1)
    hosts = (HostAllocation(host=first_host, slots=1), part) if first_host else (part,)
    message = agent_pb2.StartAttempt(job_id=job_id, attempt=1, report=True, **site)
    try:
        return builder.of(Start(message, spec, Allocation(hosts=hosts), part, Login()), None, 10.0)
    finally:
        executor.close()


@pytest.mark.parametrize(("output", "has_report"), [("out", True), ("/dev/null", False), ("", False)])
def test_a_report_is_written_where_it_can_be_read(tmp_path: Path, output: str, has_report: bool) -> None:
    spec = JobSpec(command="true", user="u", queue="normal", cwd=str(tmp_path), output_file=output)
    order = asyncio.run(order_of(tmp_path / "spool", spec))
    assert (order.report is not None, order.report_room > 0) == (has_report, has_report)


def test_a_launch_needs_no_path_to_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PATH is that of the submission; where the commands are on this host only its agent knows."""
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "glaunch").touch()
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/a b/python")

    def of(command: str) -> Order:
        return asyncio.run(order_of(tmp_path / "spool", JobSpec(command=command, user="u", queue="normal", cwd="/")))

    order = of("glaunch --launch torch python 'fit me.py'")
    assert order.command == f"'{tmp_path}/a b/glaunch' --launch torch python 'fit me.py'"
    assert order.environment["GSCHED_BINDIR"] == f"{tmp_path}/a b"
    assert of("./glaunch x").command == "./glaunch x" and of("glaunched").command == "glaunched"
    (tmp_path / "a b" / "glaunch").unlink()
    assert of("glaunch x").command == "glaunch x"


@pytest.mark.parametrize(
    ("spec", "codes"),
    [
        (JobSpec(command="true", user="u", queue="q", cwd="/"), (7, 20, 21, 99)),
        (JobSpec(command="true", user="u", queue="q", cwd="/", requeue_exit_values="7 EXCLUDE(21)"), (20, 99)),
        (JobSpec(command="true", user="u", queue="q", cwd="/", max_restarts=3), (7, 20, 21)),
    ],
)
def test_a_code_with_which_the_job_waits_again_is_none_with_which_it_is_done(
    tmp_path: Path, spec: JobSpec, codes: tuple[int, ...]
) -> None:
    order = asyncio.run(order_of(tmp_path / "spool", spec, success_exit_values="7 20-21 99"))
    assert order.done_codes == codes


def test_a_profile_sets_variables_that_the_submission_does_not(tmp_path: Path) -> None:
    spec = JobSpec(command="true", user="u", queue="q", cwd="/", environment="")
    order = asyncio.run(
        order_of(tmp_path / "spool", spec, environment=b"OWN=job\0", env_vars={"OWN": "site", "A": "b c"})
    )
    assert (order.environment["OWN"], order.environment["A"]) == ("job", "b c")


@pytest.mark.parametrize(
    ("first_host", "before", "after"),
    [("", ["each", "queue", "own"], ["own after", "queue after", "each after"]), ("other", ["each"], ["each after"])],
)
def test_what_runs_on_each_host_is_around_all_else(
    tmp_path: Path, first_host: str, before: list[str], after: list[str]
) -> None:
    spec = JobSpec(command="true", user="u", queue="q", cwd="/", pre_exec="own", post_exec="own after")
    site = {
        "host_pre_exec": [agent_pb2.SiteStep(command="each", level="queue")],
        "pre_exec": [agent_pb2.SiteStep(command="queue", level="queue")],
        "post_exec": [agent_pb2.SiteStep(command="queue after", level="queue")],
        "host_post_exec": [agent_pb2.SiteStep(command="each after", level="queue")],
    }
    order = asyncio.run(order_of(tmp_path / "spool", spec, first_host, **site))
    assert ([step.command for step in order.first], [step.command for step in order.last]) == (before, after)
    assert order.first[0].is_site and order.last[-1].is_site


def run(command: str) -> int:
    return subprocess.run(["/bin/sh", "-c", command], check=False, stderr=subprocess.DEVNULL).returncode


SPEC_OF_TMPDIR = JobSpec(command="true", user="u", queue="q", cwd="/", pre_exec="before", post_exec="after")


def test_a_job_has_a_temporary_directory_that_is_its_own_on_each_host(tmp_path: Path) -> None:
    tmpdir = JobTmpdir(folder=f"{tmp_path}/%H x", variable="TMPDIR")
    order = asyncio.run(order_of(tmp_path / "spool", SPEC_OF_TMPDIR, tmpdir=tmpdir, environment=b"TMPDIR=/mine\0"))
    path = Path(order.environment["TMPDIR"])
    assert path.parent == tmp_path / "h x" and re.fullmatch(r"1\.1\.[0-9a-f]{16}\.tmpdir", path.name)
    assert order.environment["GSCHED_TMPDIR"] == str(path)
    making, removing = order.first[0].command, order.last[-1].command
    assert [order.first[1].command, order.last[0].command] == ["before", "after"]
    assert run(making) != 0 and not path.parent.exists(), "the first job's user would own the folder of all"
    path.parent.mkdir()
    assert run(making) == 0 and path.stat().st_mode & 0o777 == 0o700
    assert run(removing) == 0 and not path.exists()
    element = asyncio.run(order_of(tmp_path / "spool", SPEC_OF_TMPDIR, "first", tmpdir, element_id(7, 3)))
    assert element.environment["TMPDIR"].startswith(f"{tmp_path}/first x/7_3.1.")
    assert [len(element.first), len(element.last)] == [1, 1]


def test_a_temporary_directory_that_is_there_already_is_never_taken_over(tmp_path: Path) -> None:
    order = asyncio.run(order_of(tmp_path / "spool", SPEC_OF_TMPDIR, tmpdir=JobTmpdir(folder=str(tmp_path))))
    making, path = order.first[0].command, Path(order.environment["GSCHED_TMPDIR"])
    path.mkdir()
    assert run(making) != 0
    path.rmdir()
    path.symlink_to(tmp_path)
    assert run(making) != 0
    assert order.last[-1].undoes_first, "what could not be made is not removed"
    assert sentence(coded("step.failed", order.first[0].what, 1)) == (
        f"mkdir of the job's temporary directory in {tmp_path} on h (that folder must exist and let the user "
        "write there) exited with non-zero status (1)"
    )


def test_jobs_of_two_clusters_and_parts_of_one_job_share_no_temporary_directory(tmp_path: Path) -> None:
    """Two private clusters of one user on a host, or hosts that share the folder: the end of one removes nothing of
    the other's.
    """
    tmpdir = JobTmpdir(folder=str(tmp_path))
    orders = [asyncio.run(order_of(tmp_path / "spool", SPEC_OF_TMPDIR, first, tmpdir, 7)) for first in ("", "", "o")]
    assert all(run(order.first[0].command) == 0 for order in orders)
    assert run(orders[2].last[-1].command) == 0
    there = [Path(order.environment["GSCHED_TMPDIR"]).exists() for order in orders]
    assert there == [True, True, False]


def test_a_task_on_another_host_has_the_directory_that_the_job_has_there() -> None:
    first = {"GSCHED_TMPDIR": "/tmp/1.1.a.tmpdir", "TMPDIR": "/tmp/1.1.a.tmpdir", "B": "/tmp"}
    other = {"GSCHED_TMPDIR": "/tmp/1.1.b.tmpdir", "TMPDIR": "/tmp/1.1.b.tmpdir"}
    assert on_other_host(first, other) == {**other, "B": "/tmp"}
    assert on_other_host({**first, "TMPDIR": "/mine"}, other) == {**other, "TMPDIR": "/mine", "B": "/tmp"}


def test_a_job_without_one_has_what_was_submitted(tmp_path: Path) -> None:
    spec = JobSpec(command="true", user="u", queue="q", cwd="/")
    order = asyncio.run(order_of(tmp_path / "spool", spec, environment=b"TMPDIR=/mine\0"))
    assert (order.environment["TMPDIR"], order.first, order.last) == ("/mine", (), ())
