"""What an agent makes of the master's word that an attempt is to start."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from gsched.agent.attempts.job_accounts import Login
from gsched.agent.attempts.order_builder import HostContext, OrderBuilder, Start
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.run.executor import ProcessExecutor
from gsched.run.order import Order
from gsched.wire.v1 import agent_pb2
from tests.support.manual_clock import ManualClock


async def order_of(folder: Path, spec: JobSpec, first_host: str = "", **site: Any) -> Order:
    clock = ManualClock()
    executor = ProcessExecutor(folder, "c", on_started=lambda *_: None, on_ended=lambda *_: None, clock=clock)
    builder = OrderBuilder("h", "u", executor, clock, HostContext(locks_gpus=lambda: False, places={}))
    part = HostAllocation(host="h", slots=1)
    hosts = (HostAllocation(host=first_host, slots=1), part) if first_host else (part,)
    message = agent_pb2.StartAttempt(job_id=1, attempt=1, report=True, **site)
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
